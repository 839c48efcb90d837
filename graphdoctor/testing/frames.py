"""Which lines of a stack are the test runner's, and so nobody's to read."""

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
    """Frames of the test runner, of graphdoctor, and those that started them.

    A runner calls a test through frames that are not there yet when a recording begins: they are known by their module.
    """

    def __contains__(self, frame: object) -> bool:
        return super().__contains__(frame) or (isinstance(frame, FrameType) and _is_runners(frame))


def runner_frames(test: object) -> RunnerFrames:
    """The frames of now but for the test's own, which is among them where it asks for a fixture itself.

    Args:
        test: The test's function, where it has one.
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
    """The test's line that led here, as ``test_model.py:12: rec.assert_fullgraph()``.

    Args:
        root: The path is shown relative to it.
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
    # Hooks of a conftest.py or a plugin, by the prefix that pytest demands of them.
    is_hook = frame.f_code.co_name.startswith("pytest_")
    return is_hook or str(frame.f_globals.get("__name__", "")).partition(".")[0] in _RUNNERS
