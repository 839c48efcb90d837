"""One log: where its bytes lie, and how to read them; its first bytes decide how it is
compressed.
"""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from graphdoctor.errors import GraphDoctorError, os_errors

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Compression = Literal["gzip", "xz", "zstd"]

_MAGIC: dict[bytes, Compression] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
MAGIC_BYTES = max(map(len, _MAGIC))
_BUFFER_BYTES = 2**17
_CHUNK_BYTES = 2**10
"""What is decompressed at once: zstd can make 32,000 times as much of it."""
_WINDOW_BYTES = 2**27
"""The most that a stream may look back; it's kept in memory (``zstd --long``, twice what ``xz -9``
takes)."""
_LEAST_UNPACKED = 2**22
"""Below this, no ratio does harm."""
_MIB = 2**20
_GZIP_WINDOW = 31
"""zlib's code for a gzip header and its largest window."""
_SKIPPED_BYTES = 2**20
_PART_BYTES = 2**12


@dataclass(frozen=True)
class Limits:
    """What a compressed log may become, as the settings of the same names say; nothing after it is
    read.
    """

    log_line_mib: int = 32
    log_record_mib: int = 64
    log_ratio: int = 250


LIMITS = ContextVar("LIMITS", default=Limits())  # noqa: B039 - frozen
"""Those that apply here, since logs are opened far below the settings."""


class CutStreamError(Exception):
    """A log whose bytes end, or make no sense, before the log's own end; what came until then is as
    it was written.
    """

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
    """What a compressed stream holds; reading it raises ``CutStreamError`` where it is damaged or
    cut off.
    """
    new, error_kind = _decompressor(compression)
    measure = _Measure(LIMITS.get(), compression, name)

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
                unpacked = current.decompress(chunk)
            except error_kind as error:
                raise CutStreamError(name, f"its {compression} stream is damaged") from error
            yield measure.of(unpacked)
            if current.eof:
                current, rest = None, current.unused_data
            measure.stored += len(chunk) - len(rest)
        if current is not None:
            raise CutStreamError(name, f"its {compression} stream is cut off")

    return stream_of(chunks(), stored.close)


@dataclass
class _Measure:
    """Measures a log while it's unpacked: as a whole, its last line and its last record."""

    limits: Limits
    compression: Compression
    name: str
    stored: int = _CHUNK_BYTES
    unpacked: int = 0
    line: int = 0
    record: int = 0

    def of(self, chunk: bytes) -> bytes:
        """The chunk, unless the log goes beyond a limit with it."""
        end = len(chunk)
        if self.line == 0 and chunk[:1] not in b"\t":
            self.record = 0
        last = chunk.rfind(b"\n")
        self.line = end - last - 1 if last >= 0 else self.line + end
        # Payload lines begin with a TAB; what follows a last newline isn't known yet.
        last = chunk.rfind(b"\n", 0, -1)
        while last >= 0 and chunk.startswith(b"\t", last + 1):
            last = chunk.rfind(b"\n", 0, last)
        self.record = end - last - 1 if last >= 0 else self.record + end
        self.unpacked += end
        self._check("a line", self.line, "log_line_mib")
        self._check("a record", self.record, "log_record_mib")
        if self.unpacked > max(self.stored * self.limits.log_ratio, _LEAST_UNPACKED):
            raise self._error(
                f"it holds {self.limits.log_ratio} times as much as it takes", "log_ratio"
            )
        return chunk

    def _check(self, what: str, size: int, limit: str) -> None:
        if size > (most := getattr(self.limits, limit)) * _MIB:
            raise self._error(f"{what} is longer than {most} MiB", limit)

    def _error(self, what: str, limit: str) -> CutStreamError:
        at = f"after {self.unpacked / _MIB:,.0f} MiB of its {self.compression} stream"
        return CutStreamError(
            self.name, f"{at}, {what}, the limit that `{limit.replace('_', '-')}` sets"
        )


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
        return lambda: lzma.LZMADecompressor(memlimit=_WINDOW_BYTES), lzma.LZMAError
    try:
        import zstandard
    except ImportError as error:
        raise GraphDoctorError(
            "This log is compressed with zstd, which needs the package zstandard.",
            hint="pip install zstandard",
        ) from error
    return lambda: zstandard.ZstdDecompressor(
        max_window_size=_WINDOW_BYTES
    ).decompressobj(), zstandard.ZstdError


@dataclass(frozen=True)
class LogFile:
    """One log.

    Args:
        line_prefix: What stands before each line of it, as a launcher writes it, such as
            ``[rank0]:``; the file's other lines belong to other logs. Empty if it has all lines.
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
        with os_errors(self.location, "read"):
            stream = Path(self.location).open("rb")  # noqa: SIM115 - whoever reads it closes it
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
    with os_errors(path, "read"):
        size = path.stat().st_size
    return LogFile(str(path.absolute()), path.name if name is None else name, size).seen()
