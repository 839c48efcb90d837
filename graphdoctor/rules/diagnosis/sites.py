"""Break records to break sites: which records belong to one site, and what each site caused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import replace

from graphdoctor.facts.diagnosis import Effects
from graphdoctor.facts.recording import BreakRecord, Frame, Recording
from graphdoctor.facts.stack import StackEntry, innermost
from graphdoctor.rules.diagnosis.recompiles import recompile_events
from graphdoctor.rules.diagnosis.rule import BreakSite, CodeLine, RecordingView


def view_of(recording: Recording) -> RecordingView:
    """The recording with its break sites, in the order of their first records, and its recompile
    events.
    """
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
    functions = {
        (frame.file, name)
        for frame in recording.frames
        for name in (frame.function, frame.code_name)
    }
    lines = {(frame.file, frame.line) for frame in recording.frames}
    sites = tuple(
        BreakSite(
            entry=entries[key],
            records=tuple(records),
            effects=_effects(records, view, order.__getitem__),
            context=view.contexts.get((key[0], key[1])),
            is_traced=_is_traced(entries[key], records, functions, lines),
        )
        for key, records in groups.items()
    )
    return replace(view, sites=sites, events=recompile_events(recording))


def _site_entry(record: BreakRecord, view: RecordingView) -> StackEntry | None:
    """The innermost line that belongs to neither torch nor the standard library.

    If a torch module breaks, the record's stack has no such line: then this is the line that led to
    the frame, or the frame's own line if there is none. A record without a stack is at the frame's
    own line: its caller isn't to blame.
    """
    compile_ = view.compiles.get(record.compile_id)
    above = compile_.stack[:-1] if compile_ else ()
    if record.stack:
        return innermost((*above, *record.stack)) or record.stack[-1]
    frame = view.frame(record.compile_id)
    return None if frame is None else frame.entry


def _at_root(
    entry: StackEntry,
    record: BreakRecord,
    view: RecordingView,
    roots: dict[tuple[str, int], StackEntry],
) -> StackEntry:
    """Where the program compiles the module in whose call torch's own code breaks, if that is
    known.

    Args:
        entry: The innermost line of the program.
        record: The break.
        view: The recording.
        roots: For each line that calls such a module, where it is compiled; those found now are
            added.
    """
    compile_, frame = view.compiles.get(record.compile_id), view.frame(record.compile_id)
    is_wrapper = frame is not None and frame.is_wrapper and frame.line == entry.line
    if (
        compile_ is not None
        and is_wrapper
        and (caller := innermost(compile_.stack[:-1])) is not None
    ):
        roots[caller.at] = entry
    return roots.get(entry.at, entry)


def _is_traced(
    entry: StackEntry,
    records: Iterable[BreakRecord],
    functions: Set[tuple[str, str]],
    lines: Set[tuple[str, int]],
) -> bool:
    """Whether torch compiles the function that the line is in."""
    if (entry.file, entry.function) in functions:
        return True
    # A module of torch's own class stands where the program compiles or makes it.
    is_root = entry.at in lines
    return not is_root and any(entry in record.stack for record in records)


def _frame_line(record: BreakRecord, frame: Frame) -> int | None:
    """The line of the frame's own function where the break left it, or None if the stack doesn't
    show it.
    """
    if record.is_stack_exact:
        return record.stack[0].line if record.stack else None
    names = (frame.function, frame.code_name)
    return next(
        (
            entry.line
            for entry in record.stack
            if entry.file == frame.file and entry.function in names
        ),
        None,
    )


def left_eager(record: BreakRecord, frame: Frame, view: RecordingView) -> tuple[str, ...]:
    """The functions whose rest runs eagerly because of a break.

    That is the frame's own, unless torch continues it: with ``nested_graph_breaks``, only what it
    called and can't continue is left to eager mode (``torch/_dynamo/symbolic_convert.py``, 2.13,
    ``InstructionTranslatorBase``).
    """
    if record.effect != "rest_eager":
        return ()
    line = _frame_line(record, frame)
    if line is None or (frame.file, frame.function, line) not in view.resumed:
        return (frame.name,)
    called = record.stack[1:] if record.is_stack_exact else record.stack
    own = (frame.function, frame.code_name)
    return tuple(
        entry.qualname or entry.function
        for entry in called
        if entry.function not in own
        and (entry.file, entry.function, entry.line) not in view.resumed
    )


def _effects(
    records: Iterable[BreakRecord], view: RecordingView, order: Callable[[str], int]
) -> Effects:
    broken: set[str] = set()
    skipped: dict[str, None] = {}
    rest_eager: dict[str, None] = {}
    resumes: set[CodeLine] = set()
    for record in records:
        frame = view.frame(record.compile_id)
        if frame is None or record.compile_id is None:
            continue
        broken.add(record.compile_id)
        if record.effect == "frame_skipped":
            # Of a function that torch resumed before, what comes before runs in graphs.
            (skipped if frame.resumes_at is None else rest_eager)[frame.name] = None
        rest_eager |= dict.fromkeys(left_eager(record, frame, view))
        if (
            record.effect in ("resumed", "rest_eager")
            and (line := _frame_line(record, frame)) is not None
        ):
            resumes.add((frame.file, frame.function, line))
    following = [compile_id for line in resumes for compile_id in view.resumed.get(line, ())]
    return Effects(
        graphs=tuple(sorted({*broken, *following} & view.graphs.keys(), key=order)),
        resume_functions=tuple(sorted(following, key=order)),
        skipped_frames=tuple(skipped),
        rest_eager_frames=tuple(rest_eager),
    )
