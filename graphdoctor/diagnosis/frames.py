"""Frames as locations and by the names that people give them."""

from __future__ import annotations

from graphdoctor.model.recording import Frame
from graphdoctor.model.stack import StackEntry


def frame_entry(frame: Frame) -> StackEntry:
    """The line of a frame's definition."""
    return StackEntry(
        file=frame.file,
        line=frame.line,
        function=frame.function,
        qualname=frame.qualname,
        text=frame.text,
        origin=frame.origin,
        package=frame.package,
    )


def frame_name(frame: Frame) -> str:
    """The name to show for a frame: the function's qualified name if it is known."""
    return frame.qualname if frame.qualname and frame.qualname != "<module>" else frame.function


def described(frame: Frame) -> str:
    """The name to show for a frame; for a resume function, with the line that it continues from."""
    place = "" if frame.resumes_at is None else f" from line {frame.resumes_at}"
    return f"{frame_name(frame)}{place}"
