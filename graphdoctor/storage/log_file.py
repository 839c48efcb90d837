"""One log: where its bytes lie, and how to read them.

A ``LogFile`` can be pickled and opened in another process. Opening one gives its lines as torch wrote them, whatever
compresses them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

from graphdoctor.errors import GraphDoctorError
from graphdoctor.storage.compression import MAGIC_BYTES, Compression, CutStreamError, compression_of, decompressed

_SKIPPED_BYTES = 2**20
_PART_BYTES = 2**12


@dataclass(frozen=True)
class LogFile:
    """One log.

    Args:
        location: Its path.
        name: What to call it: its path below the place that was asked for.
        size_bytes: Its size as it is stored; None if unknown.
        compression: How it is compressed; None if it isn't.
    """

    location: str
    name: str
    size_bytes: int | None
    compression: Compression | None = None

    @property
    def path(self) -> PurePath:
        """Its location as a path, for its names."""
        return PurePath(self.location)

    @property
    def is_seekable(self) -> bool:
        """Whether ``open`` goes to a position without reading what comes before it."""
        return self.compression is None

    def open(self, start: int = 0) -> BinaryIO:
        """The log's bytes, decompressed.

        Args:
            start: How many of them to leave out at the beginning.

        Returns:
            A stream. Reading it raises ``CutStreamError`` where the log can't be read to its end.

        Raises:
            GraphDoctorError: It can't be opened.
        """
        try:
            stream: BinaryIO = Path(self.location).open("rb")  # noqa: SIM115 - whoever reads it closes it
        except OSError as error:
            raise GraphDoctorError(f"{self.location} can't be read: {error.strerror}.") from error
        if self.compression is None:
            stream.seek(start)
            return stream
        stream = decompressed(stream, self.compression, self.name)
        while start > 0 and (skipped := stream.read(min(start, _SKIPPED_BYTES))):
            start -= len(skipped)
        return stream

    def part(self, start: int, count: int) -> bytes:
        """Some of the log's bytes: fewer than asked for where it ends, or can't be read further.

        Args:
            start: Where they begin.
            count: How many.
        """
        found = bytearray()
        with suppress(CutStreamError), self.open(start) as stream:
            while len(found) < count and (read := stream.read(min(count - len(found), _PART_BYTES))):
                found += read
        return bytes(found)


def local_log(path: Path, name: str | None = None) -> LogFile:
    """The log in a file of this machine.

    Args:
        path: Its path.
        name: What to call it; its file name by default.

    Raises:
        GraphDoctorError: It can't be read.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(MAGIC_BYTES)
            size = path.stat().st_size
    except OSError as error:
        raise GraphDoctorError(f"{path} can't be read: {error.strerror}.") from error
    return LogFile(str(path), path.name if name is None else name, size, compression_of(start))
