"""The lines of one process in a file where a launcher has put the name of its process before each line."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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
