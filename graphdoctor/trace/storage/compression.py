"""Decompresses a stream while it is read, and says so if the stream ends before its own end.

Which compression it is, the first bytes decide, whatever the file is called.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Compression = Literal["gzip", "xz", "zstd"]

_MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
MAGIC_BYTES = max(map(len, _MAGIC))
_BUFFER_BYTES = 2**17
_CHUNK_BYTES = 16 * 2**10
"""What is decompressed at once: a chunk of equal bytes can become thousands of times as large."""
_GZIP_WINDOW = 31
"""zlib's code for a gzip header and its largest window."""


class CutStreamError(Exception):
    """A log whose bytes end, or make no sense, before the log's own end; what came until then is as it was written."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


def compression_of(start: bytes) -> Compression | None:
    """How a file is compressed."""
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


class ChunkedReader(io.RawIOBase):
    """A stream over another that has its bytes chunk by chunk; the other is closed with it."""

    def __init__(self, stored: BinaryIO | None = None) -> None:
        self._stored = stored or io.BytesIO()
        self._ready = memoryview(b"")

    def next_chunk(self) -> bytes:
        """The next bytes; empty at the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer, as far as one chunk goes."""
        if not self._ready:
            self._ready = memoryview(self.next_chunk())
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        """Close both."""
        self._stored.close()
        super().close()


def decompressed(stored: BinaryIO, compression: Compression, name: str) -> BinaryIO:
    """What a compressed stream holds; reading it raises ``CutStreamError`` where it is damaged or cut off."""
    return io.BufferedReader(_Decompressed(stored, compression, name), _BUFFER_BYTES)


class _Decompressed(ChunkedReader):
    def __init__(self, stored: BinaryIO, compression: Compression, name: str) -> None:
        super().__init__(stored)
        self._name = name
        self._compression = compression
        self._new, self._error = _decompressor(compression)
        self._current: Any = None
        self._rest = b""

    def next_chunk(self) -> bytes:
        while chunk := self._rest or self._stored.read(_CHUNK_BYTES):
            if self._current is None:
                # Files can be joined, and are padded with zeros.
                chunk = chunk.lstrip(b"\0")
                self._current = self._new() if chunk else None
            self._rest = b""
            try:
                found = b"" if self._current is None else self._current.decompress(chunk)
            except self._error as error:
                raise CutStreamError(self._name, f"its {self._compression} stream is damaged") from error
            if self._current is not None and self._current.eof:
                self._rest, self._current = self._current.unused_data, None
            if found:
                return found
        if self._current is not None:
            raise CutStreamError(self._name, f"its {self._compression} stream is cut off")
        return b""


def without_prefix(stream: BinaryIO, prefix: bytes) -> BinaryIO:
    """The lines that begin with a prefix, without it."""
    return io.BufferedReader(_Unprefixed(stream, prefix), _BUFFER_BYTES)


class _Unprefixed(ChunkedReader):
    def __init__(self, stream: BinaryIO, prefix: bytes) -> None:
        super().__init__(stream)
        self._prefix = prefix

    def next_chunk(self) -> bytes:
        cut = len(self._prefix)
        while lines := self._stored.readlines(_BUFFER_BYTES):
            if found := b"".join(line[cut:] for line in lines if line.startswith(self._prefix)):
                return found
        return b""


def _decompressor(compression: Compression) -> tuple[Callable[[], Any], type[Exception]]:
    if compression == "gzip":
        import zlib

        return lambda: zlib.decompressobj(_GZIP_WINDOW), zlib.error
    if compression == "xz":
        import lzma

        return lzma.LZMADecompressor, lzma.LZMAError
    try:
        import zstandard
    except ImportError as error:
        raise GraphDoctorError(
            "This log is compressed with zstd, which needs the package zstandard.", hint="pip install zstandard"
        ) from error
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError
