"""Which lines of a stack are the test runner's, and so nobody's to read."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType

_RUNNERS = frozenset(
    {"pytest", "_pytest", "pluggy", "xdist", "execnet", "unittest", "asyncio", "anyio", "pytest_asyncio", "graphdoctor"}
)


class RunnerFrames(frozenset[FrameType]):
    """Frames of the test runner, of graphdoctor, and those that started them.

    A runner calls a test through frames that are not there yet when a recording begins: they are known by their module.
    """

    def __contains__(self, frame: object) -> bool:
        return super().__contains__(frame) or (isinstance(frame, FrameType) and _is_runners(frame))


def runner_frames() -> RunnerFrames:
    """The runner's frames, as seen from inside a test or from the runner."""
    above: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        above = [] if _is_runners(frame) else [*above, frame]
        frame = frame.f_back
    return RunnerFrames(above)


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
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _RUNNERS
