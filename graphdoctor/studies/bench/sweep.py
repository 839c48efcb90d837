"""Sizes to run a program with: from what the user wrote to changes of its calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trials.program import RunChange

_FLAG = "--sweep"
_SOURCE = re.compile(r"([A-Za-z_]\w*)((?:\[[^\]]+\]|\.\w+)*)\.shape\[(\d+)\]")
_MAX_SIZE = 2**40


@dataclass(frozen=True)
class Sizes:
    """Sizes of one or more dims that change together.

    Args:
        sources: As they were written, such as ``x.shape[0]``.
        sizes: Each size, in the order asked for.
    """

    sources: tuple[str, ...]
    sizes: tuple[int, ...]

    def change(self, size: int) -> RunChange:
        """The run with one size."""
        places = [_place(source) for source in self.sources]
        return RunChange(sizes=tuple((source, dim, size) for source, dim in places))


def parse_sweep(text: str) -> Sizes:
    """Read ``x.shape[0]=1,8,32``, or ``x.shape[0],mask.shape[0]=1,8,32`` for dims that change together.

    Args:
        text: As it was written.

    Raises:
        GraphDoctorError: It can't be read.
    """
    left, equals, right = text.rpartition("=")
    sources = tuple(part.strip() for part in left.split(","))
    if not equals or not all(_SOURCE.fullmatch(source) for source in sources):
        raise _refused(text, "the left side names no size")
    sizes: Sequence[str] = [part.strip() for part in right.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= _MAX_SIZE for part in sizes):
        raise _refused(text, "sizes are whole numbers above 0")
    if len(set(sizes)) < len(sizes):
        raise _refused(text, "a size is there twice")
    return Sizes(sources, tuple(map(int, sizes)))


def _place(source: str) -> tuple[str, int]:
    """A source as torch writes it, and the dim."""
    match = _SOURCE.fullmatch(source)
    if match is None:
        raise _refused(source, "it names no size")
    return f"L['{match[1]}']{match[2]}", int(match[3])


def _refused(text: str, reason: str) -> GraphDoctorError:
    return GraphDoctorError(f"{_FLAG} {text!r}: {reason}.", hint=f"Write {_FLAG} x.shape[0]=1,8,32.")
