"""What a test holds in its hand: a recording that can be judged, of a block or of what ``graphdoctor.compile`` made."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.gate import expectations
from graphdoctor.inprocess.block import BlockRecording
from graphdoctor.testing.frames import RunnerFrames, callers_line
from graphdoctor.testing.marker import check_share
from graphdoctor.testing.text import broken_text

if TYPE_CHECKING:
    from graphdoctor.inprocess.report import Report
    from graphdoctor.model.diagnosis import Diagnosis

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Surroundings:
    """The test, as far as its recordings need it.

    Args:
        name: Its node id.
        root: Paths in failures are relative to it.
        width: Of the terminal, in columns.
        runner: Frames that no stack shows.
    """

    name: str
    root: Path
    width: int
    runner: RunnerFrames


@contextlib.contextmanager
def failing_by_name(root: Path | None = None) -> Iterator[None]:
    """Fail the test with the words and the hint of a ``GraphDoctorError``, without a traceback.

    Args:
        root: Show the test's line, its path relative to this; None where no line of the test led here.
    """
    __tracebackhide__ = True
    try:
        yield
    except GraphDoctorError as error:
        lines = [error.message, f"  {callers_line(root)}" if root else None, error.hint]
        raise pytest.fail.Exception("\n".join(filter(None, lines)), pytrace=False) from None


def fail_if(broken: expectations.Broken | None, surroundings: Surroundings, *, place: str | None = None) -> None:
    """Fail the test with the diagnosis, where an expectation is broken.

    Args:
        broken: The expectation, or None.
        surroundings: The test.
        place: What expected it; None for the test's line.
    """
    __tracebackhide__ = True
    if broken is not None:
        shown = place or callers_line(surroundings.root)
        raise pytest.fail.Exception(broken_text(broken, place=shown, width=surroundings.width), pytrace=False)


class Judged(abc.ABC):
    """A recording with assertions. The first that does not hold fails the test; its text is the diagnosis."""

    surroundings: Surroundings
    _may_be_empty = False

    @abc.abstractmethod
    def report(self) -> Report:
        """What was recorded; that of ``graphdoctor.compile`` ends here."""

    @property
    def diagnosis(self) -> Diagnosis:
        """The findings, counts and facts: the same as ``report().diagnosis``."""
        __tracebackhide__ = True
        return self._reported().diagnosis

    def assert_no_graph_breaks(self, *, own_code: bool = False) -> None:
        """Nothing breaks a graph.

        Args:
            own_code: Leave out breaks at lines of installed packages.
        """
        __tracebackhide__ = True
        fail_if(expectations.breaks(self.diagnosis, limit=0, own_code=own_code), self.surroundings)

    def assert_fullgraph(self) -> None:
        """Every compile gave one graph: no break, no skipped frame, nothing eager."""
        __tracebackhide__ = True
        fail_if(expectations.fullgraph(self.diagnosis), self.surroundings)

    def assert_max_recompiles(self, limit: int) -> None:
        """There were at most so many recompiles, and no function went over torch's limit."""
        __tracebackhide__ = True
        broken = expectations.recompiles(self.diagnosis, limit=limit, is_empty_allowed=self._may_be_empty)
        fail_if(broken, self.surroundings)

    @abc.abstractmethod
    def assert_coverage(self, minimum: float) -> None:
        """At least this share, 0 to 1, of the tensor operations of the last call runs in graphs."""

    def _reported(self) -> Report:
        __tracebackhide__ = True
        with failing_by_name(self.surroundings.root):
            return self.report()


class RecordedBlock(Judged, BlockRecording):
    """A block's recording; to be judged behind it.

    Args:
        surroundings: The test.
        reset: Have torch forget first what it has compiled.
    """

    _may_be_empty = True  # what was compiled before is warm

    def __init__(self, surroundings: Surroundings, *, reset: bool) -> None:
        super().__init__(reset=reset, name=surroundings.name, outside=surroundings.runner)
        self.surroundings = surroundings

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        with failing_by_name(self.surroundings.root):
            return super().__enter__()

    def report(self) -> Report:
        """What was recorded; to be had behind the block."""
        return BlockRecording.report(self)

    def assert_coverage(self, minimum: float) -> None:
        """Fail: coverage is measured by repeating a call, and a block's calls are not known."""
        __tracebackhide__ = True
        with failing_by_name(self.surroundings.root):
            raise GraphDoctorError(
                f"The coverage of a block is not known, so it cannot be compared with {minimum:g}.",
                hint="Compile with rec = graphdoctor.compile(model) and call rec(…): its last call can be repeated.",
            )


@dataclass
class _LastCall:
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    no_grad: bool


class CompiledInTest(Judged, Generic[P, R]):
    """What ``graphdoctor.compile`` returns: the compiled callable, and the recording that began with it.

    Args:
        function: What was compiled.
        compiled: What ``torch.compile`` made of it.
        arguments: Those of ``torch.compile``.
        recording: The test's recording.
        surroundings: The test.
        end: Ends the recording and returns it.
    """

    def __init__(
        self,
        function: Callable[P, R],
        compiled: Callable[P, R],
        arguments: Mapping[str, Any],
        *,
        recording: BlockRecording,
        surroundings: Surroundings,
        end: Callable[[BlockRecording], BlockRecording],
    ) -> None:
        self.compiled = compiled
        self.surroundings = surroundings
        self._function = function
        self._arguments = arguments
        self._recording = recording
        self._end = end
        self._last: _LastCall | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call what was compiled."""
        __tracebackhide__ = True
        from graphdoctor.probe.ways_in.testing import is_grad_enabled

        if not self._recording.is_under_way:
            with failing_by_name(self.surroundings.root):
                raise GraphDoctorError(
                    "The recording has ended, so this call would not count.",
                    hint="Make all calls before the first assertion, or compile once more with graphdoctor.compile.",
                )
        self._last = _LastCall(args, kwargs, no_grad=not is_grad_enabled())
        return self.compiled(*args, **kwargs)

    def report(self) -> Report:
        """What was recorded since the first ``graphdoctor.compile``; the recording ends here."""
        return self._end(self._recording).report()

    def assert_coverage(self, minimum: float) -> None:
        """At least this share, 0 to 1, of the tensor operations of the last call runs in graphs."""
        __tracebackhide__ = True
        self._reported()
        self.judge_coverage(minimum, place=None)

    def judge_coverage(self, minimum: float, *, place: str | None) -> None:
        """Measure the last call, and fail the test where it is below a share.

        The model is compiled once more, with the backend ``eager``, for that call alone.

        Args:
            minimum: 0 to 1.
            place: What expects it; None for the test's line.
        """
        __tracebackhide__ = True
        from graphdoctor.inprocess.explainer import Explainer

        with failing_by_name(None if place else self.surroundings.root):
            check_share(minimum)
            if (over := self._recording.diagnosis.summary.frames_over_limit) != 0:
                raise GraphDoctorError(
                    f"The coverage is not known: {over} functions are over torch's recompile limit, and a call that "
                    "is repeated by itself would not be.",
                    hint="See rec.assert_max_recompiles.",
                )
            if self._last is None:
                raise GraphDoctorError(
                    "The coverage is not known: what graphdoctor.compile returned was not called.",
                    hint="Call it, as rec(x), rather than the model or rec.compiled.",
                )
            explainer = Explainer(
                dynamic=self._arguments.get("dynamic"),
                fullgraph=bool(self._arguments.get("fullgraph")),
                no_grad=self._last.no_grad,
            )
            measured = explainer.explain(self._function, *self._last.args, **self._last.kwargs)
        fail_if(expectations.coverage(measured.diagnosis, limit=minimum), self.surroundings, place=place)
