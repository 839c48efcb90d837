"""Frames as locations and by the names that people give them."""

from __future__ import annotations

from graphdoctor.facts.recording import Frame, Recording, SourceContext
from graphdoctor.facts.stack import StackEntry


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


def main_frame(recording: Recording) -> Frame | None:
    """The frame with the largest graph; None if there is no graph."""
    largest = max(recording.graphs, key=lambda graph: graph.op_count or 0, default=None)
    if largest is None:
        return None
    ids = {compile_.frame_id for compile_ in recording.compiles if compile_.compile_id == largest.compile_id}
    return next((frame for frame in recording.frames if frame.frame_id in ids), None)


def frame_of(recording: Recording, compile_id: str | None) -> Frame | None:
    """The function of a compile, or else that of the largest graph."""
    ids = {compile_.frame_id for compile_ in recording.compiles if compile_.compile_id == compile_id}
    return next((frame for frame in recording.frames if frame.frame_id in ids), None) or main_frame(recording)


def line_entry(recording: Recording, file: str | None, line: int | None) -> StackEntry | None:
    """A line that torch points to, as a location; None if nothing is known of it."""
    stacks = (compile_.stack for compile_ in recording.compiles)
    known = next((entry for stack in stacks for entry in stack if (entry.file, entry.line) == (file, line)), None)
    if known is not None or file is None or line is None:
        return known
    context = next((each for each in recording.sources if (each.file, each.line) == (file, line)), None)
    frame = next((each for each in recording.frames if each.file == file), None)
    if context is None and frame is None:
        return None
    return StackEntry(
        file=file,
        line=line,
        function=frame.function if frame is not None else "<unknown>",
        qualname=context.qualname if context is not None else frame.qualname if frame is not None else None,
        text=_line_text(context) if context is not None else None,
        origin=frame.origin if frame is not None else "user",
        package=frame.package if frame is not None else None,
    )


def _line_text(context: SourceContext) -> str | None:
    """The line within its statement, which can begin above it."""
    lines = context.statement.splitlines()
    number = 0 if context.statement_line is None else context.line - context.statement_line
    return lines[number].strip() if 0 <= number < len(lines) else None
