"""One log: where its bytes lie, and how to read them; its first bytes decide how it is compressed."""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
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
_SKIPPED_BYTES = 2**20
_PART_BYTES = 2**12


class CutStreamError(Exception):
    """A log whose bytes end, or make no sense, before the log's own end; what came until then is as it was written."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


def stream_of(chunks: Iterator[bytes], close: Callable[[], object]) -> BinaryIO:
    """A stream that has its bytes chunk by chunk."""
    return io.BufferedReader(_Chunked(chunks, close), _BUFFER_BYTES)


class _Chunked(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes], close: Callable[[], object]) -> None:
        self._chunks = filter(None, chunks)
        self._close = close
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._ready = self._ready or memoryview(next(self._chunks, b""))
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._close()
        super().close()


def decompressed(stored: BinaryIO, compression: Compression, name: str) -> BinaryIO:
    """What a compressed stream holds; reading it raises ``CutStreamError`` where it is damaged or cut off."""
    new, error_kind = _decompressor(compression)

    def chunks() -> Iterator[bytes]:
        current: Any = None
        rest = b""
        while chunk := rest or stored.read(_CHUNK_BYTES):
            rest = b""
            # Files can be joined, and are padded with zeros.
            if current is None and (chunk := chunk.lstrip(b"\0")):
                current = new()
            if current is None:
                continue
            try:
                yield current.decompress(chunk)
            except error_kind as error:
                raise CutStreamError(name, f"its {compression} stream is damaged") from error
            if current.eof:
                current, rest = None, current.unused_data
        if current is not None:
            raise CutStreamError(name, f"its {compression} stream is cut off")

    return stream_of(chunks(), stored.close)


def without_prefix(stream: BinaryIO, prefix: bytes) -> BinaryIO:
    """The lines that begin with a prefix, without it."""

    def chunks() -> Iterator[bytes]:
        while lines := stream.readlines(_BUFFER_BYTES):
            yield b"".join(line[len(prefix) :] for line in lines if line.startswith(prefix))

    return stream_of(chunks(), stream.close)


def _decompressor(compression: Compression) -> tuple[Callable[[], Any], type[Exception]]:
    if compression == "gzip":
        return lambda: zlib.decompressobj(_GZIP_WINDOW), zlib.error
    if compression == "xz":
        return lzma.LZMADecompressor, lzma.LZMAError
    try:
        import zstandard
    except ImportError as error:
        raise GraphDoctorError(
            "This log is compressed with zstd, which needs the package zstandard.", hint="pip install zstandard"
        ) from error
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


@dataclass(frozen=True)
class LogFile:
    """One log.

    Args:
        line_prefix: What stands before each line of it, as a launcher writes it, such as ``[rank0]:``; the file's other
            lines belong to other logs. Empty if it has all lines.
    """

    location: str
    name: str
    size_bytes: int | None
    compression: Compression | None = None
    line_prefix: str = ""

    @property
    def path(self) -> PurePath:
        """Its location as a path, for its names; of one in an archive, that in the archive."""
        return PurePath(self.location.partition("::")[0] if self.is_remote else self.location)

    @property
    def is_remote(self) -> bool:
        """Whether it isn't a file of this machine."""
        return "://" in self.location

    @property
    def is_seekable(self) -> bool:
        """Whether ``open`` goes to a position without reading what comes before it."""
        return self.compression is None and not self.line_prefix and self.size_bytes is not None

    def seen(self) -> LogFile:
        """The same log, its compression found out."""
        with suppress(CutStreamError), self._stored(0) as stream:
            start = stream.read(MAGIC_BYTES)
            known = (name for magic, name in _MAGIC.items() if start.startswith(magic))
            return replace(self, compression=next(known, None))
        return self

    def of_lines(self, prefix: str) -> LogFile:
        """Only the lines that begin with a prefix, without it."""
        return replace(self, line_prefix=prefix, name=f"{self.name} {prefix.rstrip(': ')}".rstrip())

    def open(self, start: int = 0) -> BinaryIO:
        """The log's bytes, decompressed."""
        if self.is_seekable:
            return self._stored(start)
        stream = self._stored(0)
        if self.compression is not None:
            stream = decompressed(stream, self.compression, self.name)
        if self.line_prefix:
            stream = without_prefix(stream, self.line_prefix.encode())
        while start > 0 and (skipped := stream.read(min(start, _SKIPPED_BYTES))):
            start -= len(skipped)
        return stream

    def _stored(self, start: int) -> BinaryIO:
        if self.is_remote:
            # Imported here: a local log is read without fsspec.
            from graphdoctor.trace.storage.remote import open_remote

            return open_remote(self, start)
        try:
            stream = Path(self.location).open("rb")  # noqa: SIM115 - whoever reads it closes it
        except OSError as error:
            raise GraphDoctorError(f"{self.location} can't be read: {error.strerror}.") from error
        stream.seek(start)
        return stream

    def part(self, start: int, count: int) -> bytes:
        """Some of the log's bytes: fewer than asked for where it ends, or can't be read further."""
        found = bytearray()
        with suppress(CutStreamError), self.open(start) as stream:
            while read := stream.read(min(count - len(found), _PART_BYTES)):
                found += read
        return bytes(found)


def local_log(path: Path, name: str | None = None) -> LogFile:
    """The log in a file of this machine."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise GraphDoctorError(f"{path} can't be read: {error.strerror}.") from error
    return LogFile(str(path.absolute()), path.name if name is None else name, size).seen()
