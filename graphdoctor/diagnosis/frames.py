"""Frames as people call them and as places."""

from __future__ import annotations

from graphdoctor.model.recording import Frame
from graphdoctor.model.stack import StackEntry


def frame_entry(frame: Frame) -> StackEntry:
    """A frame's definition as a place."""
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
    """What people call the frame: the function's qualified name where known."""
    return frame.qualname if frame.qualname and frame.qualname != "<module>" else frame.function


def described(frame: Frame) -> str:
    """The frame as people call it, with the line that a resume function goes on after."""
    place = "" if frame.resumes_at is None else f" from line {frame.resumes_at}"
    return f"{frame_name(frame)}{place}"
