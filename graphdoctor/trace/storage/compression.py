"""Decompresses a stream while it is read, and says so if the stream ends before its own end.

Comes in: the bytes as they are stored. Goes out: a stream of what they hold. Which compression it is, the first bytes
decide, whatever the file is called. The decompressors are imported only for a stream that needs them.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
from typing import TYPE_CHECKING

Compression = Literal["gzip", "xz", "zstd"]

_MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
MAGIC_BYTES = max(map(len, _MAGIC))
_CHUNK_BYTES = 16 * 2**10
"""What is decompressed at once: a chunk of equal bytes can become thousands of times as large."""
_GZIP_WINDOW = 31
"""zlib's code for a gzip header and its largest window."""


class CutStreamError(Exception):
    """A log whose bytes end, or make no sense, before the log's own end; what came until then is as it was written."""

    def __init__(self, name: str, reason: str) -> None:
        """Keep both."""
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def compression_of(start: bytes) -> Compression | None:
    """How a file is compressed."""
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


def decompressed(stored: BinaryIO, compression: Compression, name: str) -> BinaryIO:
    """What a compressed stream holds; reading it raises ``CutStreamError`` where it is damaged or cut off.

    Raises:
        GraphDoctorError: The package that reads it isn't installed.
    """
    return io.BufferedReader(_Decompressed(stored, compression, name), 2**17)


class _Decompressed(io.RawIOBase):
    def __init__(self, stored: BinaryIO, compression: Compression, name: str) -> None:
        self._stored = stored
        self._name = name
        self._compression = compression
        self._new, self._error = _decompressor(compression)
        self._current: _Decompressor | None = None
        self._rest = b""
        self._ready = memoryview(b"")
        self._is_at_end = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._ready and not self._is_at_end:
            self._ready = memoryview(self._next())
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _next(self) -> bytes:
        """What the next bytes hold, which can be nothing."""
        chunk = self._rest or self._stored.read(_CHUNK_BYTES)
        self._rest = b""
        if not chunk:
            self._is_at_end = True
            if self._current is not None:
                raise CutStreamError(self._name, f"its {self._compression} stream is cut off")
            return b""
        if self._current is None:
            # Files can be joined, and are padded with zeros.
            chunk = chunk.lstrip(b"\0")
            if not chunk:
                return b""
            self._current = self._new()
        try:
            found = self._current.decompress(chunk)
        except self._error as error:
            raise CutStreamError(self._name, f"its {self._compression} stream is damaged") from error
        if self._current.eof:
            self._rest = self._current.unused_data
            self._current = None
        return found

    def close(self) -> None:
        self._stored.close()
        super().close()


def _decompressor(compression: Compression) -> tuple[Callable[[], _Decompressor], type[Exception]]:
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


_LINES_BYTES = 2**17


def without_prefix(stream: BinaryIO, prefix: bytes) -> BinaryIO:
    """The lines that begin with a prefix, without it."""
    return io.BufferedReader(_Unprefixed(stream, prefix), _LINES_BYTES)


class _Unprefixed(io.RawIOBase):
    def __init__(self, stream: BinaryIO, prefix: bytes) -> None:
        self._stream = stream
        self._prefix = prefix
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._ready:
            lines = self._stream.readlines(_LINES_BYTES)
            if not lines:
                return 0
            cut = len(self._prefix)
            self._ready = memoryview(b"".join(line[cut:] for line in lines if line.startswith(self._prefix)))
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()
