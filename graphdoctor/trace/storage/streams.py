"""Streams of a log's bytes: decompressed within limits, and only one process's lines."""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Compression = Literal["gzip", "xz", "zstd"]

MAGIC: dict[bytes, Compression] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_BUFFER_BYTES = 2**17
_CHUNK_BYTES = 2**10
"""Decompressed at a time: zstd expands up to 32,000 times."""
_WINDOW_BYTES = 2**27
"""The largest window, which is kept in memory (``zstd --long``, twice that of ``xz -9``)."""
_LEAST_UNPACKED = 2**22
"""Below this, any ratio is harmless."""
_MIB = 2**20
_GZIP_WINDOW = 31
"""zlib's code for a gzip header and its largest window."""


@dataclass(frozen=True)
class Limits:
    """Limits of a compressed log, as the settings of the same names; nothing beyond is read."""

    log_line_mib: int = 32
    log_record_mib: int = 64
    log_ratio: int = 250


LIMITS = ContextVar("LIMITS", default=Limits())  # noqa: B039 - frozen
"""The current limits, since logs are opened far below the settings."""


class CutStreamError(Exception):
    """A log that can't be read to its end; ``reason`` is a clause that says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


def stream_of(chunks: Iterator[bytes], close: Callable[[], object]) -> BinaryIO:
    """Return a stream of chunks."""
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
    """Decompress a stream; reading raises ``CutStreamError`` where it is damaged or cut off."""
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
    """The sizes so far: of the whole log, its last line and its last record."""

    limits: Limits
    compression: Compression
    name: str
    stored: int = _CHUNK_BYTES
    unpacked: int = 0
    line: int = 0
    record: int = 0

    def of(self, chunk: bytes) -> bytes:
        """Return the chunk, unless it exceeds a limit."""
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
        limits = self.limits
        for what, size, limit in (
            ("a line", self.line, "log_line_mib"),
            ("a record", self.record, "log_record_mib"),
        ):
            if size > (most := getattr(limits, limit)) * _MIB:
                raise self._error(f"{what} is longer than {most} MiB", limit)
        if self.unpacked > max(self.stored * limits.log_ratio, _LEAST_UNPACKED):
            raise self._error(f"it holds {limits.log_ratio} times as much as it takes", "log_ratio")
        return chunk

    def _error(self, what: str, limit: str) -> CutStreamError:
        at = f"after {self.unpacked / _MIB:,.0f} MiB of its {self.compression} stream"
        setting = limit.replace("_", "-")
        return CutStreamError(self.name, f"{at}, {what}, the limit that `{setting}` sets")


def without_prefix(stream: BinaryIO, prefix: bytes) -> BinaryIO:
    """Keep the lines that begin with a prefix, and cut it off."""

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
