"""The fixture: what ``graphdoctor`` is in a test, from the isolation of torch to the end of its recordings."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.gate import expectations
from graphdoctor.inprocess.block import BlockRecording
from graphdoctor.testing.frames import runner_frames
from graphdoctor.testing.marker import Demands, demands_of, nearest
from graphdoctor.testing.recordings import CompiledInTest, RecordedBlock, Surroundings, fail_if, failing_by_name

P = ParamSpec("P")
R = TypeVar("R")

_MAX_NAME = 100


class TestDoctor:
    """Compiles and records in one test.

    Args:
        item: The test.
        demands: Its marker's.
    """

    __test__ = False

    def __init__(self, item: pytest.Item, demands: Demands) -> None:
        width = item.config.get_terminal_writer().fullwidth
        runner = runner_frames(getattr(item, "obj", None))
        self._surroundings = Surroundings(item.nodeid, item.config.rootpath, width, runner)
        self._demands = demands
        self._running: RecordedBlock | None = None
        self._made: list[RecordedBlock] = []
        self._compiled: list[CompiledInTest[..., Any]] = []

    def compile(self, function: Callable[P, R], /, **arguments: Any) -> CompiledInTest[P, R]:  # noqa: ANN401
        """Compile, and record from here to the first assertion, else to the end of the test.

        What is compiled while a recording of this fixture runs belongs to that recording.

        Args:
            function: A module or function.
            arguments: Those of ``torch.compile``.

        Returns:
            The compiled callable, with the assertions.
        """
        __tracebackhide__ = True
        from graphdoctor.probe.ways_in.testing import compiled

        recording = self._running or self._begin()
        made: CompiledInTest[P, R] = CompiledInTest(
            function,
            compiled(function, arguments),
            arguments,
            recording=recording,
            surroundings=self._surroundings,
            end=self._ended_by_test,
        )
        self._compiled.append(made)
        return made

    def record(self, *, reset: bool = False) -> RecordedBlock:
        """Record what torch.compile does in a ``with``.

        Args:
            reset: Have torch forget first what it has compiled.

        Returns:
            The context manager, with the assertions.
        """
        __tracebackhide__ = True
        if self._running is not None:
            by = "its marker" if self._demands.has_limits else "graphdoctor.compile"
            with failing_by_name(self._surroundings.root):
                raise GraphDoctorError(
                    f"This test is recorded already, by {by}: graphdoctor.record() cannot record it, too.",
                    hint="Use one of the two; a recording of graphdoctor.compile ends at its first assertion.",
                )
        self._made.append(RecordedBlock(self._surroundings, reset=reset))
        return self._made[-1]

    def judged(self) -> Generator[None, object, object]:
        """Record what runs while this is suspended, and judge it by the marker; as a hook's wrapper."""
        __tracebackhide__ = True
        if not self._demands.has_limits:
            return (yield)
        recording = self._begin()
        try:
            result = yield
        finally:
            self.end()
        place, demands = str(self._demands), self._demands
        diagnosis = recording.diagnosis
        if demands.max_breaks is not None:
            broken = expectations.breaks(diagnosis, limit=demands.max_breaks, own_code=demands.own_code)
            fail_if(broken, self._surroundings, place=place)
        if demands.max_recompiles is not None:
            broken = expectations.recompiles(diagnosis, limit=demands.max_recompiles, is_empty_allowed=False)
            fail_if(broken, self._surroundings, place=place)
        if demands.min_coverage is not None:
            if not self._compiled:
                with failing_by_name():
                    raise GraphDoctorError(
                        f"{place}: the coverage is not known, because no call can be repeated.",
                        hint="Take the fixture: rec = graphdoctor.compile(model), then call rec(…).",
                    )
            for made in self._compiled:
                made.judge_coverage(demands.min_coverage, place=place)
        return result

    def save_report(self, folder: Path) -> Path | None:
        """Write the last recording's HTML report; None when nothing was recorded."""
        self.end()
        over = [recording for recording in self._made if recording.is_over]
        if not over:
            return None
        file = folder / f"{_file_name(self._surroundings.name)}.html"
        folder.mkdir(parents=True, exist_ok=True)
        over[-1].report().save(file)
        return file

    def end(self) -> None:
        """End a recording that still runs."""
        if self._running is not None:
            running, self._running = self._running, None
            running.__exit__(None, None, None)

    def close(self) -> None:
        """End, and remove what was recorded: whoever keeps the test's exception keeps its recordings, too."""
        self.end()
        for recording in self._made:
            recording.discard()

    def _begin(self) -> RecordedBlock:
        __tracebackhide__ = True
        recording = RecordedBlock(self._surroundings, reset=False)
        recording.__enter__()
        self._made.append(recording)
        self._running = recording
        return recording

    def _ended_by_test(self, recording: BlockRecording) -> BlockRecording:
        if self._demands.has_limits:
            raise GraphDoctorError(
                f"{self._demands} judges this test at its end, so its recording cannot be judged before.",
                hint="Use one of the two: limits in the marker, or assertions.",
            )
        if recording is self._running:
            self.end()
        return recording


@contextlib.contextmanager
def opened(item: pytest.Item) -> Iterator[TestDoctor]:
    """A doctor for one test, with a Dynamo of its own; torch is put back at the end.

    Args:
        item: The test.
    """
    __tracebackhide__ = True
    with contextlib.ExitStack() as put_back:
        put_back.enter_context(_trace_not_captured())
        with failing_by_name():
            demands = demands_of(item.get_closest_marker("graphdoctor"))
            put_back.enter_context(_isolated(demands))
        doctor = TestDoctor(item, demands)
        put_back.callback(doctor.close)
        yield doctor


@contextlib.contextmanager
def _trace_not_captured() -> Iterator[None]:
    """Keep torch's trace out of the log that pytest shows of a failing test.

    From 9.1 on pytest listens to loggers that do not propagate, too (``catching_logs``, ``_pytest/logging.py``, 9.2).
    """
    handlers = [handler for handler in logging.root.handlers if type(handler).__module__.startswith("_pytest.")]
    for handler in handlers:
        handler.addFilter(_is_no_trace)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_no_trace)


def _is_no_trace(record: logging.LogRecord) -> bool:
    return record.name != "torch.__trace"


def _isolated(demands: Demands) -> contextlib.AbstractContextManager[None]:
    try:
        from graphdoctor.probe.ways_in.testing import isolated
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise GraphDoctorError(
            "torch is not installed here, so nothing can be compiled.",
            hint='pytest.importorskip("torch") skips a test where it is missing.',
        ) from None
    return _named(isolated, demands)


@contextlib.contextmanager
def _named(isolated: Callable[..., contextlib.AbstractContextManager[None]], demands: Demands) -> Iterator[None]:
    from graphdoctor.probe.ways_in.testing import UnknownConfigError

    with contextlib.ExitStack() as put_back:
        try:
            put_back.enter_context(isolated(demands.config))
        except UnknownConfigError as error:
            message = f"{demands}: torch._dynamo.config has no {error.name}."
            raise GraphDoctorError(message, hint=nearest(error.name, error.names)) from None
        yield


def _file_name(node_id: str) -> str:
    """A node id as the name of a file: what no file system minds, and different for different ones."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", node_id).strip("-.")[-_MAX_NAME:]
    return f"{plain}-{hashlib.sha256(node_id.encode()).hexdigest()[:8]}"
