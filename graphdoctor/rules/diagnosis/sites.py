"""Break records to break sites: which records belong to one site, and what each site caused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

from graphdoctor.facts.diagnosis import Effects
from graphdoctor.facts.recording import BreakRecord, Compile, Frame, Recording
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.rules.diagnosis.recompiles import recompile_events
from graphdoctor.rules.diagnosis.rule import BreakSite, RecordingView

_RESUMING = ("resumed", "rest_eager")


def view_of(recording: Recording) -> RecordingView:
    """The recording with its break sites, in the order of their first records, and its recompile events."""
    compiles = {compile_.compile_id: compile_ for compile_ in recording.compiles}
    frames = {frame.frame_id: frame for frame in recording.frames}
    contexts = {(context.file, context.line): context for context in recording.sources}
    groups: dict[tuple[str, int, str], list[BreakRecord]] = {}
    entries: dict[tuple[str, int, str], StackEntry] = {}
    roots: dict[tuple[str, int], StackEntry] = {}
    for record in recording.breaks:
        entry = site_entry(record, compiles, frames)
        if entry is None:
            continue
        cause = record.chain[0].torch_id or record.chain[0].gb_type
        if record.mechanism is not None:
            # torch's own code breaks in several ways; to the program it's one place.
            cause = record.mechanism
            entry = _at_root(entry, record, compiles, frames, roots)
        key = (entry.file, entry.line, cause)
        groups.setdefault(key, []).append(record)
        # An exact stack has columns, a printed one doesn't.
        if key not in entries or (entry.column is not None and entries[key].column is None):
            entries[key] = entry
    order = _Order(recording, frames)
    functions = {(frame.file, name) for frame in recording.frames for name in (frame.function, frame.code_name)}
    lines = {(frame.file, frame.line) for frame in recording.frames}
    sites = tuple(
        BreakSite(
            entry=entries[key],
            records=tuple(records),
            effects=_effects(records, compiles, frames, order),
            context=contexts.get((key[0], key[1])),
            is_traced=_is_traced(entries[key], records, functions, lines),
        )
        for key, records in groups.items()
    )
    return RecordingView(recording, sites, recompile_events(recording))


def site_entry(record: BreakRecord, compiles: Mapping[str, Compile], frames: Mapping[int, Frame]) -> StackEntry | None:
    """The innermost line that belongs to neither torch nor the standard library.

    If a torch module breaks, the record's stack has no such line: then this is the line that led to the frame, or the
    frame's own line if there is none. A record without a stack is at the frame's own line: its caller isn't to blame.
    """
    compile_ = compiles.get(record.compile_id or "")
    above = compile_.stack[:-1] if compile_ and record.stack else ()
    for stack in (record.stack, above):
        for entry in reversed(stack):
            if entry.origin in PROGRAM_ORIGINS:
                return entry
    if record.stack:
        return record.stack[-1]
    frame = frames.get(compile_.frame_id) if compile_ else None
    return None if frame is None else frame.entry


def _at_root(
    entry: StackEntry,
    record: BreakRecord,
    compiles: Mapping[str, Compile],
    frames: Mapping[int, Frame],
    roots: dict[tuple[str, int], StackEntry],
) -> StackEntry:
    """Where the program compiles the module in whose call torch's own code breaks, if that is known.

    Args:
        entry: The innermost line of the program.
        record: The break.
        compiles: All compiles by id.
        frames: All frames by id.
        roots: For each line that calls such a module, where it is compiled; those found now are added.
    """
    compile_ = compiles.get(record.compile_id or "")
    frame = frames.get(compile_.frame_id) if compile_ else None
    if compile_ is not None and frame is not None and frame.is_wrapper and frame.line == entry.line:
        caller = next((item for item in reversed(compile_.stack[:-1]) if item.origin in PROGRAM_ORIGINS), None)
        if caller is not None:
            roots[caller.file, caller.line] = entry
    return roots.get((entry.file, entry.line), entry)


def _is_traced(
    entry: StackEntry, records: Iterable[BreakRecord], functions: Set[tuple[str, str]], lines: Set[tuple[str, int]]
) -> bool:
    """Whether torch compiles the function that the line is in."""
    if (entry.file, entry.function) in functions:
        return True
    # A module of torch's own class stands where the program compiles or makes it.
    is_root = (entry.file, entry.line) in lines
    return not is_root and any(entry in record.stack for record in records)


def frame_line(record: BreakRecord, frame: Frame) -> int | None:
    """The line of the frame's own function where the break left it, or None if the stack doesn't show it."""
    if record.is_stack_exact:
        return record.stack[0].line if record.stack else None
    for entry in record.stack:
        if entry.file == frame.file and entry.function in (frame.function, frame.code_name):
            return entry.line
    return None


class _Order:
    """Where compiles are in the order of a recording.

    Args:
        recording: The recording.
        frames: Its frames by their ids.
    """

    def __init__(self, recording: Recording, frames: Mapping[int, Frame]) -> None:
        self.number = {compile_.compile_id: number for number, compile_ in enumerate(recording.compiles)}
        self.has_graph = {graph.compile_id for graph in recording.graphs}
        self._resumed: dict[tuple[str, str, int], list[str]] = defaultdict(list)
        for compile_ in recording.compiles:
            frame = frames.get(compile_.frame_id)
            if frame is not None and frame.resumes_at is not None and compile_.outcome != "limit":
                self._resumed[frame.file, frame.function, frame.resumes_at].append(compile_.compile_id)

    def resumed(self, places: Iterable[tuple[str, str, int]]) -> list[str]:
        """Compiles of the functions that continue from lines of functions."""
        return self.sorted(compile_id for place in places for compile_id in self._resumed.get(place, ()))

    def sorted(self, compile_ids: Iterable[str]) -> list[str]:
        """Some compile ids in order."""
        return sorted(compile_ids, key=self.number.__getitem__)


def _effects(
    records: Iterable[BreakRecord], compiles: Mapping[str, Compile], frames: Mapping[int, Frame], order: _Order
) -> Effects:
    broken: dict[str, None] = {}
    skipped: dict[str, None] = {}
    rest_eager: dict[str, None] = {}
    resumes: set[tuple[str, str, int]] = set()
    for record in records:
        compile_ = compiles.get(record.compile_id or "")
        frame = frames.get(compile_.frame_id) if compile_ else None
        if compile_ is None or frame is None:
            continue
        broken[compile_.compile_id] = None
        if record.effect == "frame_skipped":
            skipped[frame.name] = None
        elif record.effect == "rest_eager":
            rest_eager[frame.name] = None
        if record.effect in _RESUMING and (line := frame_line(record, frame)) is not None:
            resumes.add((frame.file, frame.function, line))
    resumed = order.resumed(resumes)
    caused = {*broken, *resumed}
    return Effects(
        graphs=tuple(order.sorted(caused & order.has_graph)),
        resume_functions=tuple(resumed),
        skipped_frames=tuple(skipped),
        rest_eager_frames=tuple(rest_eager),
    )
