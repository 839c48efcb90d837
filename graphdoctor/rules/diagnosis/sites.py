"""Break records to break sites: which records belong to one site, and what each site caused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace

from graphdoctor.facts.diagnosis import Effects
from graphdoctor.facts.grouping import grouped
from graphdoctor.facts.recording import BreakEffect, BreakRecord, Frame, Recording
from graphdoctor.facts.stack import StackEntry, innermost
from graphdoctor.rules.diagnosis.recompiles import recompile_events
from graphdoctor.rules.diagnosis.rule import BreakSite, RecordingView


def view_of(recording: Recording) -> RecordingView:
    """The recording with its break sites, in the order of their first records, and its recompile events."""
    view = RecordingView(recording, ())
    groups: dict[tuple[str, int, str], list[BreakRecord]] = {}
    entries: dict[tuple[str, int, str], StackEntry] = {}
    roots: dict[tuple[str, int], StackEntry] = {}
    for record in recording.breaks:
        entry = _site_entry(record, view)
        if entry is None:
            continue
        cause = record.chain[0].torch_id or record.chain[0].gb_type
        if record.mechanism is not None:
            # torch's own code breaks in several ways; to the program it's one place.
            cause = record.mechanism
            entry = _at_root(entry, record, view, roots)
        key = (entry.file, entry.line, cause)
        groups.setdefault(key, []).append(record)
        # An exact stack has columns, a printed one doesn't.
        if key not in entries or (entry.column is not None and entries[key].column is None):
            entries[key] = entry
    order = {compile_id: number for number, compile_id in enumerate(view.compiles)}
    resumed = _resumed(view)
    functions = {(frame.file, name) for frame in recording.frames for name in (frame.function, frame.code_name)}
    lines = {(frame.file, frame.line) for frame in recording.frames}
    sites = tuple(
        BreakSite(
            entry=entries[key],
            records=tuple(records),
            effects=_effects(records, view, resumed, order.__getitem__),
            context=view.contexts.get((key[0], key[1])),
            is_traced=_is_traced(entries[key], records, functions, lines),
        )
        for key, records in groups.items()
    )
    return replace(view, sites=sites, events=recompile_events(recording))


def _site_entry(record: BreakRecord, view: RecordingView) -> StackEntry | None:
    """The innermost line that belongs to neither torch nor the standard library.

    If a torch module breaks, the record's stack has no such line: then this is the line that led to the frame, or the
    frame's own line if there is none. A record without a stack is at the frame's own line: its caller isn't to blame.
    """
    compile_ = view.compiles.get(record.compile_id)
    above = compile_.stack[:-1] if compile_ else ()
    if record.stack:
        return innermost((*above, *record.stack)) or record.stack[-1]
    frame = view.frame(record.compile_id)
    return None if frame is None else frame.entry


def _at_root(
    entry: StackEntry, record: BreakRecord, view: RecordingView, roots: dict[tuple[str, int], StackEntry]
) -> StackEntry:
    """Where the program compiles the module in whose call torch's own code breaks, if that is known.

    Args:
        entry: The innermost line of the program.
        record: The break.
        view: The recording.
        roots: For each line that calls such a module, where it is compiled; those found now are added.
    """
    compile_, frame = view.compiles.get(record.compile_id), view.frame(record.compile_id)
    is_wrapper = frame is not None and frame.is_wrapper and frame.line == entry.line
    if compile_ is not None and is_wrapper and (caller := innermost(compile_.stack[:-1])) is not None:
        roots[caller.at] = entry
    return roots.get(entry.at, entry)


def _is_traced(
    entry: StackEntry, records: Iterable[BreakRecord], functions: Set[tuple[str, str]], lines: Set[tuple[str, int]]
) -> bool:
    """Whether torch compiles the function that the line is in."""
    if (entry.file, entry.function) in functions:
        return True
    # A module of torch's own class stands where the program compiles or makes it.
    is_root = entry.at in lines
    return not is_root and any(entry in record.stack for record in records)


def _frame_line(record: BreakRecord, frame: Frame) -> int | None:
    """The line of the frame's own function where the break left it, or None if the stack doesn't show it."""
    if record.is_stack_exact:
        return record.stack[0].line if record.stack else None
    names = (frame.function, frame.code_name)
    return next((entry.line for entry in record.stack if entry.file == frame.file and entry.function in names), None)


_Line = tuple[str, str, int]
"""A file, a function in it and a line of that."""


def _resumed(view: RecordingView) -> Mapping[_Line, list[str]]:
    """Compiles of the functions that continue from lines of functions."""
    framed = ((view.frames.get(compile_.frame_id), compile_) for compile_ in view.recording.compiles)
    return grouped(
        ((frame.file, frame.function, frame.resumes_at), compile_.compile_id)
        for frame, compile_ in framed
        if frame is not None and frame.resumes_at is not None and compile_.outcome != "limit"
    )


def _effects(
    records: Iterable[BreakRecord],
    view: RecordingView,
    resumed: Mapping[_Line, list[str]],
    order: Callable[[str], int],
) -> Effects:
    broken: set[str] = set()
    eager: dict[BreakEffect, dict[str, None]] = {"frame_skipped": {}, "rest_eager": {}}
    resumes: set[_Line] = set()
    for record in records:
        frame = view.frame(record.compile_id)
        if frame is None or record.compile_id is None:
            continue
        broken.add(record.compile_id)
        if record.effect in eager:
            eager[record.effect][frame.name] = None
        if record.effect in ("resumed", "rest_eager") and (line := _frame_line(record, frame)) is not None:
            resumes.add((frame.file, frame.function, line))
    following = [compile_id for line in resumes for compile_id in resumed.get(line, ())]
    return Effects(
        graphs=tuple(sorted({*broken, *following} & view.graphs.keys(), key=order)),
        resume_functions=tuple(sorted(following, key=order)),
        skipped_frames=tuple(eager["frame_skipped"]),
        rest_eager_frames=tuple(eager["rest_eager"]),
    )
