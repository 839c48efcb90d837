"""The ``graphdoctor`` fixture, from isolating torch for a test to ending the test's recordings."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from graphdoctor.api.block import BlockRecording
from graphdoctor.api.testing.marker import MarkerArguments, arguments_of
from graphdoctor.api.testing.recordings import (
    CompiledInTest,
    RecordedBlock,
    TestContext,
    fail_if,
    failing_by_name,
    runner_frames,
)
from graphdoctor.errors import GraphDoctorError
from graphdoctor.rules.gate import expectations
from graphdoctor.views.exit_words import PYTHON, words

P = ParamSpec("P")
R = TypeVar("R")

_MAX_NAME = 100


class TestDoctor:
    """Compiles and records in one test."""

    __test__ = False

    def __init__(self, item: pytest.Item, arguments: MarkerArguments) -> None:
        width = item.config.get_terminal_writer().fullwidth
        self._context = TestContext(
            item.nodeid, item.config.rootpath, width, runner_frames(getattr(item, "obj", None))
        )
        self._marker = arguments
        self._running: RecordedBlock | None = None
        self._made: list[RecordedBlock] = []
        self._compiled: list[CompiledInTest[..., Any]] = []

    def compile(self, function: Callable[P, R], /, **arguments: Any) -> CompiledInTest[P, R]:  # noqa: ANN401
        """Compile a function or module, and record until the first assertion or the end of the
        test.

        If a recording of this fixture is already running, the function belongs to that recording.
        ``arguments`` are ``torch.compile``'s. The compiled callable comes back, with the
        assertions.
        """
        __tracebackhide__ = True
        from graphdoctor.probe.ways_in.in_process import compiled

        recording = self._running or self._begin()
        made: CompiledInTest[P, R] = CompiledInTest(
            function,
            compiled(function, arguments),
            arguments,
            recording=recording,
            end=self._ended_by_test,
        )
        self._compiled.append(made)
        return made

    def record(self, *, reset: bool = False) -> RecordedBlock:
        """Record a ``with`` block, which has the assertions; ``reset`` torch's compiler state
        first.
        """
        __tracebackhide__ = True
        if self._running is not None:
            by = "its marker" if self._marker.has_limits else "graphdoctor.compile"
            with failing_by_name(self._context.root):
                raise GraphDoctorError(
                    f"This test is already being recorded by {by}, so graphdoctor.record() can't"
                    " record it too.",
                    hint=(
                        "Use one of the two. A recording by graphdoctor.compile ends at its first"
                        " assertion."
                    ),
                )
        self._made.append(RecordedBlock(self._context, reset=reset))
        return self._made[-1]

    def checked(self) -> Generator[None, object, object]:
        """Record what runs while this is suspended, then check it against the marker; for use in a
        hook wrapper.
        """
        __tracebackhide__ = True
        if not self._marker.has_limits:
            return (yield)
        recording = self._begin()
        try:
            result = yield
        finally:
            self.end()
        place, arguments, diagnosis = str(self._marker), self._marker, recording.diagnosis
        broken = []
        if (limit := arguments.max_breaks) is not None:
            own_code = arguments.own_code
            broken.append(expectations.breaks(diagnosis, limit=limit, own_code=own_code))
        if (limit := arguments.max_recompiles) is not None:
            broken.append(expectations.recompiles(diagnosis, limit=limit, is_empty_allowed=False))
        for expectation in broken:
            fail_if(expectation, self._context, place=place)
        if arguments.min_coverage is not None:
            if not self._compiled:
                with failing_by_name():
                    raise GraphDoctorError(
                        f"{place}: coverage is unknown because there is no call to repeat.",
                        hint="Use the fixture: rec = graphdoctor.compile(model), then call rec(…).",
                    )
            for made in self._compiled:
                made.check_coverage(arguments.min_coverage, place=place)
        return result

    def save_report(self, folder: Path) -> Path | None:
        """Write the last recording's HTML report and return its path; None if nothing was
        recorded.
        """
        self.end()
        ended = [recording for recording in self._made if recording.has_ended]
        if not ended:
            return None
        # Valid on every file system, and different for each node id.
        name = self._context.name
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[-_MAX_NAME:]
        file = folder / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.html"
        folder.mkdir(parents=True, exist_ok=True)
        ended[-1].report().save(file)
        return file

    def end(self) -> None:
        """End the recording that is still running, if any."""
        running, self._running = self._running, None
        if running is not None:
            running.__exit__(None, None, None)

    def close(self) -> None:
        """End, and delete the recordings' files: a test's exception can keep the recordings
        themselves alive.
        """
        self.end()
        for recording in self._made:
            recording.discard()

    def _begin(self) -> RecordedBlock:
        __tracebackhide__ = True
        self._running = RecordedBlock(self._context, reset=False).__enter__()
        self._made.append(self._running)
        return self._running

    def _ended_by_test(self, recording: BlockRecording) -> BlockRecording:
        if self._marker.has_limits:
            raise GraphDoctorError(
                f"{self._marker} checks this test when it ends, so it can't have assertions of its"
                " own.",
                hint="Use either limits in the marker or assertions.",
            )
        if recording is self._running:
            self.end()
        return recording


@contextlib.contextmanager
def opened(item: pytest.Item) -> Iterator[TestDoctor]:
    """Yield a doctor for one test, starting from a fresh Dynamo. Restores torch's state at the
    end.
    """
    __tracebackhide__ = True

    def is_other_log(record: logging.LogRecord) -> bool:
        return record.name != "torch.__trace"

    with contextlib.ExitStack() as put_back:
        # Since 9.1 pytest also shows the log of loggers that don't propagate, as torch's trace
        # (``catching_logs``, ``_pytest/logging.py``, 9.2).
        for handler in logging.root.handlers:
            if type(handler).__module__.startswith("_pytest."):
                handler.addFilter(is_other_log)
                put_back.callback(handler.removeFilter, is_other_log)
        with failing_by_name():
            arguments = arguments_of(item.get_closest_marker("graphdoctor"))
            try:
                from graphdoctor.probe.record.errors import RequestError
                from graphdoctor.probe.ways_in.in_process import isolated
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                raise GraphDoctorError(
                    "torch isn't installed here, so nothing can be compiled.",
                    hint='pytest.importorskip("torch") skips a test if torch is missing.',
                ) from None
            try:
                put_back.enter_context(isolated(arguments.config))
            except RequestError as error:
                message, hint = words(error.code, error.values, PYTHON)
                raise GraphDoctorError(f"{arguments}: {message}", hint=hint) from None
        doctor = TestDoctor(item, arguments)
        put_back.callback(doctor.close)
        yield doctor
