"""Which entries of a stack belong to the test runner, so that reports leave them out."""

from __future__ import annotations

import inspect
import linecache
import sys
from pathlib import Path
from types import FrameType

_RUNNERS = frozenset(
    {
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
    }
)


class RunnerFrames(frozenset[FrameType]):
    """Frames of the test runner and of graphdoctor, and those that started them.

    Some of the runner's frames don't exist yet when a recording begins; those are recognized by their module.
    """

    def __contains__(self, frame: object) -> bool:
        return super().__contains__(frame) or (isinstance(frame, FrameType) and _is_runners(frame))


def runner_frames(test: object) -> RunnerFrames:
    """The current frames without the test's own, which is on the stack if the test itself requests the fixture.

    Args:
        test: The test's function, or None.
    """
    code = getattr(inspect.unwrap(test) if callable(test) else test, "__code__", None)
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is not code:
            found.append(frame)
        frame = frame.f_back
    return RunnerFrames(found)


def callers_line(root: Path) -> str:
    """The line of the test that led here, such as ``test_model.py:12: rec.assert_fullgraph()``.

    Args:
        root: Show the path relative to this folder.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_runners(frame):
        frame = frame.f_back
    if frame is None:
        return ""
    file = Path(frame.f_code.co_filename)
    shown = file.relative_to(root) if file.is_relative_to(root) else file
    text = linecache.getline(str(file), frame.f_lineno).strip()
    return f"{shown}:{frame.f_lineno}: {text}"


def _is_runners(frame: FrameType) -> bool:
    # Hooks in a conftest.py or a plugin have the prefix that pytest requires.
    is_hook = frame.f_code.co_name.startswith("pytest_")
    return is_hook or str(frame.f_globals.get("__name__", "")).partition(".")[0] in _RUNNERS
