"""``graphdoctor.record``: records what torch.compile does while a ``with`` block runs."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Collection, Iterator
from types import FrameType, TracebackType
from typing import Self

from graphdoctor.api.report import Report, TemporaryFolder
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.trials.launch.child import last_events, write_meta

_lock = threading.Lock()


@contextlib.contextmanager
def recording_alone() -> Iterator[None]:
    """Be the only recording in this process.

    Raises:
        GraphDoctorError: Another explain or record is running, in any thread, or ``graphdoctor
            run`` runs this program.
    """
    from graphdoctor.probe.torch_private.torch_trace import BusyError

    if not _lock.acquire(blocking=False):
        raise _busy("graphdoctor.explain or graphdoctor.record is already running in this process.")
    try:
        yield
    except BusyError:
        raise _busy("graphdoctor is already recording this whole program.") from None
    finally:
        _lock.release()


def _busy(message: str) -> GraphDoctorError:
    return GraphDoctorError(
        message, hint="Only one recording can run at a time: torch has one trace per process."
    )


class BlockRecording:
    """The recording of a ``with`` block, available once the block has ended. ``graphdoctor.record``
    creates it.

    ``outside``: frames to leave out of stacks; None for those above the frame that enters the
    block.
    """

    def __init__(
        self,
        *,
        reset: bool,
        name: str = "graphdoctor.record()",
        outside: Collection[FrameType] | None = None,
    ) -> None:
        self._is_reset, self._name, self._outside = reset, name, outside
        self._folder = TemporaryFolder()
        self._open: contextlib.ExitStack | None = None
        self._started: float | None = None
        self._report: Report | None = None

    def __enter__(self) -> Self:
        from graphdoctor.probe.ways_in.in_process import recorded, uncompiled

        if self._started is not None:
            raise GraphDoctorError(
                "This recording was already used.", hint="Call graphdoctor.record() again."
            )
        with contextlib.ExitStack() as opening:
            opening.enter_context(recording_alone())
            self._started = time.monotonic()
            outside = self._outside
            if outside is None:
                outside = frozenset(frames_above(sys._getframe(1)))
            context = recorded(self._folder.path, outside=outside, is_reset=self._is_reset)
            uncompiled(opening.enter_context, context)
            self._open = opening.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._open is None or self._started is None:
            return
        from graphdoctor.probe.ways_in.in_process import uncompiled
        from graphdoctor.trials.launch.ends import end_of_block

        opened, self._open = self._open, None
        uncompiled(opened.__exit__, kind, error, traceback)
        ended = end_of_block(
            last_events(self._folder.path), duration_s=time.monotonic() - self._started
        )
        write_meta(self._folder.path, {"text": self._name, "kind": "block"}, ended)

    @property
    def is_running(self) -> bool:
        """Whether the block is running."""
        return self._open is not None

    @property
    def has_ended(self) -> bool:
        """Whether the block has ended, so there is something to report."""
        return self._started is not None and self._open is None

    def report(self) -> Report:
        """Return the report on the block.

        Raises:
            GraphDoctorError: The block hasn't ended, or was never entered.
        """
        if not self.has_ended:
            raise GraphDoctorError(
                "There is nothing to report until the block has ended.",
                hint="Call it after the with block.",
            )
        if self._report is None:
            self._report = Report(self._folder)
        return self._report

    def discard(self) -> None:
        """Delete the files of the recording now. Only its diagnosis stays available."""
        self._folder.remove()

    @property
    def diagnosis(self) -> Diagnosis:
        """The findings, counts and facts: the same as ``report().diagnosis``."""
        return self.report().diagnosis

    def _repr_html_(self) -> str | None:
        """Return the report for a notebook's cell, None until the block has ended."""
        return self.report()._repr_html_() if self.has_ended else None

    def __repr__(self) -> str:
        state = "running" if self.is_running else "ended" if self.has_ended else "not started"
        return f"<graphdoctor recording, {state}>"


def record(*, reset: bool = False) -> BlockRecording:
    """Record what the program's own calls of torch.compile do inside a ``with`` block.

    Code compiled before the block is neither recorded nor compiled again, unless ``reset`` is set.
    No call is repeated, so coverage isn't measured and nothing but the program itself changes its
    state.

    Args:
        reset: Reset torch's compiler state (``torch.compiler.reset()``) when the block begins.

    Returns:
        A context manager. After the block, ``report()`` and ``diagnosis`` say what happened. An
        exception in the block propagates, and everything recorded up to that point is kept.
    """
    return BlockRecording(reset=reset)


def frames_above(frame: FrameType) -> Iterator[FrameType]:
    """Yield the frames that called one, such as a notebook's or a test runner's."""
    while (above := frame.f_back) is not None:
        yield above
        frame = above
