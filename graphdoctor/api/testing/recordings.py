"""Recordings with assertions: of a ``with`` block, and of what ``graphdoctor.compile`` returned.

The first assertion that doesn't hold fails the test, with what was expected, the test's line, and
the findings.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any, Generic, ParamSpec, Self, TypeVar

import pytest
from rich.console import Console
from rich.text import Text

from graphdoctor.api.block import BlockRecording, frames_above
from graphdoctor.api.report import Report
from graphdoctor.api.testing.marker import check_share
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.rules.gate import expectations
from graphdoctor.rules.gate.expectations import UnmetExpectation
from graphdoctor.views.finding_cards import card_of
from graphdoctor.views.terminal import write_parts
from graphdoctor.views.terminal_lines import clean, write
from graphdoctor.views.words import clusters
from graphdoctor.wording import counted

P = ParamSpec("P")
R = TypeVar("R")

_MAX_CARDS = 4
_MIN_WIDTH = 60


_RUNNERS = frozenset(
    [
        "pytest",
        "_pytest",
        "pluggy",
        "contextlib",
        "xdist",
        "execnet",
        "unittest",
        "asyncio",
        "anyio",
        "pytest_asyncio",
        "graphdoctor",
    ]
)


class RunnerFrames(frozenset[FrameType]):
    """Frames of the test runner and of graphdoctor, and those that started them.

    Some of the runner's frames don't exist yet when a recording begins; those are recognized by
    their module.
    """

    def __contains__(self, frame: object) -> bool:
        return super().__contains__(frame) or (isinstance(frame, FrameType) and _is_runners(frame))


def runner_frames(test: object) -> RunnerFrames:
    """Return the current frames without the test's own, which is on the stack if the test itself
    requests the fixture.
    """
    code = getattr(inspect.unwrap(test) if callable(test) else test, "__code__", None)
    return RunnerFrames(
        frame for frame in frames_above(sys._getframe()) if frame.f_code is not code
    )


def callers_line(root: Path) -> str:
    """Return the line of the test that led here, such as ``test_model.py:12:
    rec.assert_fullgraph()``.
    """
    frame = next((frame for frame in frames_above(sys._getframe()) if not _is_runners(frame)), None)
    if frame is None:
        return ""
    file = Path(frame.f_code.co_filename)
    shown = file.relative_to(root) if file.is_relative_to(root) else file
    return f"{shown}:{frame.f_lineno}: {linecache.getline(str(file), frame.f_lineno).strip()}"


def _is_runners(frame: FrameType) -> bool:
    # Hooks in a conftest.py or a plugin have the prefix that pytest requires.
    is_hook = frame.f_code.co_name.startswith("pytest_")
    return is_hook or str(frame.f_globals.get("__name__", "")).partition(".")[0] in _RUNNERS


@dataclass(frozen=True)
class TestContext:
    """What a recording needs to know of its test.

    Args:
        name: The test's node id.
        root: Paths in failures are relative to this folder.
        width: The terminal's width in columns.
        runner: Frames to leave out of stacks.
    """

    name: str
    root: Path
    width: int
    runner: RunnerFrames


@contextlib.contextmanager
def failing_by_name(root: Path | None = None) -> Iterator[None]:
    """Turn a ``GraphDoctorError`` into a test failure with its message and hint, without a
    traceback.

    ``root``: show the test's line, relative to this folder; None if no line of the test led here.
    """
    __tracebackhide__ = True
    try:
        yield
    except GraphDoctorError as error:
        lines = [error.message, f"  {callers_line(root)}" if root else None, error.hint]
        raise pytest.fail.Exception("\n".join(filter(None, lines)), pytrace=False) from None


def fail_if(
    broken: UnmetExpectation | None, context: TestContext, *, place: str | None = None
) -> None:
    """Fail the test with the diagnosis if an expectation is broken; without a place, at the line of
    the test.
    """
    __tracebackhide__ = True
    if broken is None:
        return
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=max(context.width, _MIN_WIDTH),
        force_terminal=False,
        force_jupyter=False,
        color_system=None,
    )
    # Not wrapped: pytest's summary shows the first line, and editors link a path.
    expected = f"expected {broken.expected}, found {broken.found}"
    for line in (expected, f"  {place or callers_line(context.root)}"):
        console.print(clean(line), markup=False, highlight=False, soft_wrap=True)
    if broken.hint:
        write(console, clean(broken.hint))
    cards = list(clusters(broken.findings))
    for cluster in cards[:_MAX_CARDS]:
        write(console, Text())
        write_parts(card_of(cluster), console)
    if len(cards) > _MAX_CARDS:
        write(console, Text(f"\nand {counted(len(cards) - _MAX_CARDS, 'more finding')}"))
    lines = buffer.getvalue().rstrip().splitlines()
    raise pytest.fail.Exception("\n".join(map(str.rstrip, lines)), pytrace=False)


class AssertableRecording:
    """A recording with assertions. The first one that doesn't hold fails the test, with the
    diagnosis as its text.
    """

    context: TestContext
    report: Callable[[], Report]
    _may_be_empty = False

    @property
    def diagnosis(self) -> Diagnosis:
        """The findings, counts and facts: the same as ``report().diagnosis``."""
        __tracebackhide__ = True
        with failing_by_name(self.context.root):
            return self.report().diagnosis

    def assert_no_graph_breaks(self, *, own_code: bool = False) -> None:
        """Assert that there are no graph breaks; ``own_code``: none but in installed packages."""
        __tracebackhide__ = True
        fail_if(expectations.breaks(self.diagnosis, limit=0, own_code=own_code), self.context)

    def assert_fullgraph(self) -> None:
        """Assert that every compile gave one graph: no graph break, no skipped frame, nothing
        eager.
        """
        __tracebackhide__ = True
        fail_if(expectations.fullgraph(self.diagnosis), self.context)

    def assert_no_recompiles(self) -> None:
        """Assert that nothing was compiled again, and that no function went over torch's limit."""
        __tracebackhide__ = True
        self.assert_max_recompiles(0)

    def assert_max_recompiles(self, limit: int) -> None:
        """Assert that there were at most ``limit`` recompiles, and that no function went over
        torch's limit.
        """
        __tracebackhide__ = True
        is_empty_allowed = self._may_be_empty
        broken = expectations.recompiles(
            self.diagnosis, limit=limit, is_empty_allowed=is_empty_allowed
        )
        fail_if(broken, self.context)


class RecordedBlock(AssertableRecording, BlockRecording):
    """The recording of a ``with`` block, with assertions to make after it."""

    _may_be_empty = True  # everything may have been compiled before the block

    def __init__(self, context: TestContext, *, reset: bool) -> None:
        super().__init__(reset=reset, name=context.name, outside=context.runner)
        self.context = context

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        with failing_by_name(self.context.root):
            return super().__enter__()

    def assert_coverage(self, minimum: float) -> None:
        """Fail the test: coverage is measured by repeating a call, and a block's calls are
        unknown.
        """
        __tracebackhide__ = True
        with failing_by_name(self.context.root):
            raise GraphDoctorError(
                f"Coverage isn't measured for a block, so it can't be compared with {minimum:g}.",
                hint=(
                    "Use rec = graphdoctor.compile(model) and call rec(…), which can repeat its"
                    " last call."
                ),
            )


class CompiledInTest(AssertableRecording, Generic[P, R]):
    """What ``graphdoctor.compile`` returns: the compiled callable, with the recording that began
    with it.

    ``end`` ends that recording, and refuses to where the test can't have assertions.
    """

    def __init__(
        self,
        function: Callable[P, R],
        compiled: Callable[P, R],
        arguments: Mapping[str, Any],
        *,
        recording: RecordedBlock,
        end: Callable[[BlockRecording], BlockRecording],
    ) -> None:
        self.compiled = compiled
        self.context = recording.context
        self._function, self._arguments = function, arguments
        self._recording, self._end = recording, end
        self._measure: Callable[[], Report] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the compiled function."""
        __tracebackhide__ = True
        from graphdoctor.api.explainer import Explainer
        from graphdoctor.probe.ways_in.in_process import is_grad_enabled

        if not self._recording.is_running:
            with failing_by_name(self.context.root):
                raise GraphDoctorError(
                    "The recording has ended, so this call wouldn't count.",
                    hint=(
                        "Make all calls before the first assertion, or call graphdoctor.compile"
                        " again."
                    ),
                )
        arguments = self._arguments
        explainer = Explainer(
            dynamic=arguments.get("dynamic"),
            fullgraph=bool(arguments.get("fullgraph")),
            no_grad=not is_grad_enabled(),
        )
        self._measure = partial(explainer.explain, self._function, *args, **kwargs)
        return self.compiled(*args, **kwargs)

    def report(self) -> Report:
        """End the recording, and report on everything since the first ``graphdoctor.compile``."""
        return self._end(self._recording).report()

    def assert_coverage(self, minimum: float) -> None:
        """Assert that at least this share, 0 to 1, of the last call's tensor operations ran in
        graphs.
        """
        __tracebackhide__ = True
        with failing_by_name(self.context.root):
            self.report()
        self.check_coverage(minimum, place=None)

    def check_coverage(self, minimum: float, *, place: str | None) -> None:
        """Measure the coverage of the last call, and fail the test if it's below the minimum, 0 to
        1.

        Compiles the model again, with the ``eager`` backend, for that one call. ``place``: what
        expects it; None for the test's line.
        """
        __tracebackhide__ = True
        with failing_by_name(None if place else self.context.root):
            check_share(minimum)
            if (over := self._recording.diagnosis.summary.frames_over_limit) != 0:
                raise GraphDoctorError(
                    f"Coverage can't be measured: {counted(over, 'function')} went over torch's"
                    " recompile limit, which a repeated call alone wouldn't reach.",
                    hint="See rec.assert_max_recompiles.",
                )
            if self._measure is None:
                raise GraphDoctorError(
                    "Coverage can't be measured: what graphdoctor.compile returned was never"
                    " called.",
                    hint="Call rec(x) rather than the model or rec.compiled.",
                )
            measured = self._measure()
        fail_if(expectations.coverage(measured.diagnosis, limit=minimum), self.context, place=place)
