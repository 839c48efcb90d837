"""One log: where its bytes lie, and how to read them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import BinaryIO

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.storage.compression import (
    MAGIC_BYTES,
    Compression,
    CutStreamError,
    compression_of,
    decompressed,
    without_prefix,
)

_SKIPPED_BYTES = 2**20
_PART_BYTES = 2**12


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
            return replace(self, compression=compression_of(stream.read(MAGIC_BYTES)))
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
            while len(found) < count and (read := stream.read(min(count - len(found), _PART_BYTES))):
                found += read
        return bytes(found)


def local_log(path: Path, name: str | None = None) -> LogFile:
    """The log in a file of this machine."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise GraphDoctorError(f"{path} can't be read: {error.strerror}.") from error
    return LogFile(str(path.absolute()), path.name if name is None else name, size).seen()
