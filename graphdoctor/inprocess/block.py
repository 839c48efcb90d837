"""``graphdoctor.record``: what torch.compile does while a block of the program runs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Collection
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from graphdoctor.capture.child import read_events, write_meta
from graphdoctor.errors import GraphDoctorError
from graphdoctor.inprocess.busy import recording_alone
from graphdoctor.inprocess.folder import RecordingFolder
from graphdoctor.inprocess.report import Report

if TYPE_CHECKING:
    from graphdoctor.model.diagnosis import Diagnosis

_TEXT = "graphdoctor.record()"


class BlockRecording:
    """A recording of a block, to be had once the block is over; ``graphdoctor.record`` makes it.

    Args:
        reset: Have torch forget what it has compiled before.
        name: What reports call it.
        outside: Frames that no stack shows; None for those above the one that enters the block.
    """

    def __init__(self, *, reset: bool, name: str = _TEXT, outside: Collection[FrameType] | None = None) -> None:
        self._is_reset = reset
        self._name = name
        self._outside = outside
        self._folder = RecordingFolder()
        self._open: contextlib.ExitStack | None = None
        self._started = 0.0
        self._report: Report | None = None
        self._is_used = False

    def __enter__(self) -> Self:
        from graphdoctor.probe.ways_in.block import recorded

        if self._is_used:
            raise GraphDoctorError("This recording has been made already.", hint="Call graphdoctor.record() again.")
        with contextlib.ExitStack() as opening:
            opening.enter_context(recording_alone())
            self._is_used = True
            self._started = time.monotonic()
            outside = _frames_above(sys._getframe(1)) if self._outside is None else self._outside
            opening.enter_context(recorded(self._folder.path, outside=outside, is_reset=self._is_reset))
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._open is None:
            return
        opened, self._open = self._open, None
        opened.__exit__(kind, error, traceback)
        from graphdoctor.capture.ends import end_of_block

        ended = end_of_block(read_events(self._folder.path), duration_s=time.monotonic() - self._started)
        write_meta(self._folder.path, {"text": self._name, "kind": "block"}, ended)

    @property
    def is_under_way(self) -> bool:
        """The block runs."""
        return self._open is not None

    @property
    def is_over(self) -> bool:
        """The block has ended, so there is something to report."""
        return self._is_used and self._open is None

    def report(self) -> Report:
        """What came of it.

        Raises:
            GraphDoctorError: The block is not over, or was never entered.
        """
        if not self.is_over:
            raise GraphDoctorError("There is nothing to report before the block is over.", hint="Ask behind the with.")
        if self._report is None:
            self._report = Report(self._folder)
        return self._report

    def discard(self) -> None:
        """Remove what is on disk now, though somebody still holds the recording; only its diagnosis stays."""
        self._folder.remove()

    @property
    def diagnosis(self) -> Diagnosis:
        """The findings, counts and facts: the same as ``report().diagnosis``."""
        return self.report().diagnosis

    def __repr__(self) -> str:
        state = "being made" if self._open is not None else "made" if self._is_used else "not begun"
        return f"<graphdoctor recording, {state}>"


def record(*, reset: bool = False) -> BlockRecording:
    """Record what torch.compile does inside a ``with``, by the program's own calls of it.

    What was compiled before the block is not recorded and is not compiled again, unless ``reset`` is set. Nothing is
    called again, so there is no coverage, and nothing of the program's state changes but by its own doing.

    Args:
        reset: Have torch forget what it has compiled (``torch.compiler.reset()``) when the block begins.

    Returns:
        The context manager; behind the block its ``report()`` and ``diagnosis`` say what happened. An exception in the
        block passes through, and what was recorded until then is there all the same.
    """
    return BlockRecording(reset=reset)


def _frames_above(frame: FrameType) -> frozenset[FrameType]:
    """The frames that led to the one with the block: a notebook's or a test runner's, not the program's."""
    found = set()
    above = frame.f_back
    while above is not None:
        found.add(above)
        above = above.f_back
    return frozenset(found)
