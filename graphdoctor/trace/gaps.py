"""Makes a ``CaptureGap`` for everything that a recording lacks: a kind for code to act on, words
for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from graphdoctor.facts.counts import CallWatch, WatchedFunction
from graphdoctor.facts.guards import Guards
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import CaptureGap, CompileSwitch, GapKind, Recording
from graphdoctor.trace.events import Events
from graphdoctor.trace.grammar import LogDamage
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.merge import Part
from graphdoctor.wording import counted, switch_text

_AOT_CODE = "graph_dump"
"""Only AOTInductor's code is in such records (``torch/_inductor/codecache.py``, 2.9 to 2.15)."""
_OLDEST = (2, 11)
"""The first torch whose logs are understood; it's also the first that logs its version."""
_CODES: Mapping[GapKind, str] = {
    "log_beginning": "GD902",
    "log_cut": "GD902",
    "log_damage": "GD902",
    "log_removed": "GD902",
    "unfinished_compile": "GD902",
    "unreadable_record": "GD902",
    "guards": "GD902",
    "several_processes": "GD903",
    "dynamo_reset": "GD903",
    "foreign_log": "GD904",
    "old_log": "GD904",
    "nothing_compiled": "GD905",
}
"""Of what else is missing, the code is GD900."""


def gap(kind: GapKind, message: str) -> CaptureGap:
    """A gap with the code of its kind."""
    return CaptureGap(code=_CODES.get(kind, "GD900"), kind=kind, message=message)


def reported_gaps(events: Events) -> Iterator[CaptureGap]:
    """Yield what the probe's ``gap`` events report; those of graphdoctor 0.1 have no kind."""
    for event in events.of("gap"):
        kind = event.get("kind")
        code = "GD902" if kind == "log_removed" else "GD900"
        yield read_fact(CaptureGap, {"code": code, "kind": kind, "message": event.get("message")})


def switch_gaps(switches: Iterable[CompileSwitch]) -> Iterator[CaptureGap]:
    """Yield what kept torch.compile from compiling, or could have."""
    for switch in switches:
        meaning = "torch.compile does nothing" if switch.is_off else "calls can run eagerly"
        yield gap("compile_disabled", f"{switch_text(switch)}, so {meaning}.")


def log_gaps(damage: LogDamage, unreadable: Mapping[str, int]) -> Iterator[CaptureGap]:
    """Yield the records that the logs lost."""
    if damage.broken_records:
        cut = "; the last one is cut off" if damage.is_last_broken else ""
        yield gap(
            "log_cut" if damage.is_last_broken else "log_damage",
            f"Couldn't read {counted(damage.broken_records, 'record')} of the trace log{cut}.",
        )
    if damage.altered_payloads:
        yield gap(
            "log_damage",
            f"{counted(damage.altered_payloads, 'record')} of the trace log changed after torch"
            " wrote the log; the contents may be wrong.",
        )
    if damage.bad_bytes:
        yield gap(
            "log_damage",
            f"Found invalid UTF-8 in {counted(damage.bad_bytes, 'record')} of the trace log.",
        )
    for name, reason in damage.cut_logs.items():
        yield gap("log_cut", f"Couldn't read {name} to its end: {reason}.")
    yield from unreadable_gaps(unreadable)


def unreadable_gaps(unreadable: Mapping[str, int]) -> Iterator[CaptureGap]:
    """Records with unexpected contents."""
    for kind, count in unreadable.items():
        yield gap(
            "unreadable_record",
            f"Couldn't read what {counted(count, f'`{kind}` record')} of the trace log said.",
        )


def part_gaps(parts: Sequence[Part]) -> Iterator[CaptureGap]:
    """Yield the gaps that prefixes of compile ids mean."""
    names = list(dict.fromkeys(part.process for part in parts if part.recording.compiles))
    if len(names) > 1:
        others = ", ".join(f"{name}:" for name in names if name is not None)
        yield gap(
            "several_processes",
            f"{len(names)} processes compiled. Counts are sums over all of them, and compile ids of"
            f" all but the first begin with the process ({others}).",
        )
    if any(part.reset for part in parts):
        yield gap(
            "dynamo_reset",
            "Dynamo was reset during the run and counted its compiles from 0 again: compile ids"
            " after the first reset begin with reset1:.",
        )


def run_gaps(
    run: Recording, unfinished: Sequence[str], *, is_ours: bool, is_unfinished: bool
) -> Iterator[CaptureGap]:
    """Yield what one process lacks, until a reset or its end."""
    if not is_ours:
        yield gap(
            "foreign_log",
            "This log was not recorded by graphdoctor: it has no calls, coverage or columns, and"
            " its stacks are those that torch prints, which can lack lines.",
        )
    elif is_unfinished and run.coverage is None and not run.target.runs_itself:
        yield gap("coverage", "Coverage was not measured: the run ended early.")
    if unfinished:
        yield gap(
            "unfinished_compile",
            f"The run ended while torch was compiling {', '.join(unfinished)}.",
        )


def foreign_gaps(recording: Recording, *, is_rest: bool) -> Iterator[CaptureGap]:
    """Yield what a log by an old torch lacks, and what one holds in which torch.compile compiled
    nothing, such as one of torch.export or AOTInductor.
    """
    if not recording.compiles and not recording.graphs and not recording.breaks:
        yield _without_compiles(recording, is_rest=is_rest)
        return
    torch = recording.environment.torch
    release = recording.environment.torch_release
    is_old = torch is None or (release is not None and release < _OLDEST)
    if not is_rest and is_old:
        writer = f"torch {torch} wrote this log" if torch else "This log doesn't name its torch"
        yield gap(
            "old_log",
            f"{writer}; logs of a torch before 2.11 are read only as far as they look like later"
            " ones.",
        )


def _without_compiles(recording: Recording, *, is_rest: bool) -> CaptureGap:
    evidence = recording.evidence
    by = ", which torch.export wrote" if evidence.exported_programs else ""
    if any(record.kind == _AOT_CODE for record in evidence.records):
        by = ", which AOTInductor wrote"
    what = "Dynamo compiled nothing in this log"
    what = "What is left of this log has no compile of Dynamo" if is_rest else what
    return gap("nothing_compiled", f"{what}{by}.")


def script_gaps(recording: Recording, *, is_hooked: bool) -> Iterator[CaptureGap]:
    """Yield what the recording of a script or a block lacks, and why it can be empty."""
    if not is_hooked:
        yield gap(
            "recorder_not_loaded",
            "The interpreter did not load graphdoctor's recorder, possibly because it ignores"
            " PYTHONPATH, so there are only torch's own records, if any.",
        )
    is_block = recording.target.kind == "block"
    if recording.compiles and recording.watch is not None:
        yield from watch_gaps(recording.watch)
    elif recording.compiles:
        why = "the script's calls were not watched"
        why = "a block's calls are not repeated" if is_block else why
        yield gap("coverage", f"Coverage was not measured: {why}.")
    elif is_hooked:
        words = (
            "Nothing was compiled although torch.compile was called: its result was not called, or "
            "torch.compile was disabled."
        )
        if is_block:
            words = (
                "Nothing was compiled in the block: it called no compiled function, torch.compile"
                " was disabled, or everything it needed had been compiled before."
            )
        elif recording.environment.torch is None:
            words = "Nothing was compiled: torch was never imported."
        elif not recording.compile_calls:
            words = "Nothing was compiled: the script did not call torch.compile before it ended."
            if recording.target.model is not None:
                words += f" Its model is {recording.target.model}."
        yield gap("nothing_compiled", words)


def watch_gaps(watch: CallWatch) -> Iterator[CaptureGap]:
    """The functions of a script whose coverage or steady time is unknown."""
    for function in watch.functions:
        name = f"`{function.compiled}`"
        if function.file is not None:
            name += f", compiled at {Path(function.file).name}:{function.line},"
        if function.coverage is None and function.not_covered not in (None, "nested"):
            whose = ", and so is the program's" if function in watch.own else ""
            why = _not_covered(function)
            yield gap("coverage", f"Coverage of {name} is unknown{whose}: {why}.")
        elif function.coverage is not None and function.steady_us is None:
            yield gap(
                "steady_time",
                f"The time of a steady call of {name} is unknown: no call that compiled nothing was"
                " timed.",
            )


def _not_covered(function: WatchedFunction) -> str:
    calls = "its calls" if function.calls is None else f"its {counted(function.calls, 'call')}"
    return {
        "once": "it was called only once",
        "compiling": "every call of it that was watched compiled something",
        "raised": "the calls that were watched raised an exception",
        "profiler": "the program ran a profiler or a tracer, and only one can run at a time",
        "capture": "its calls were captured in a CUDA graph",
        "busy": "calls in another thread were being watched",
        "deferred": "a generator or coroutine works after its call has returned",
        "nested": "another compiled function made its calls",
        "cost": "watching other calls had taken its share of the time",
        "few": f"none of {calls} was watched",
        "ended": "the process ended before it could say how often it was called",
    }[function.not_covered or "few"]


def lost_call_gaps(recording: Recording) -> Iterator[CaptureGap]:
    """Yield what the log lacks where the probe made all calls and the log has none."""
    if recording.exit.reason == "finished" and not recording.calls:
        yield gap(
            "log_removed",
            "The trace log has none of the calls that were made: something removed or emptied it"
            " during the run.",
        )


def guard_gaps(
    guards: Guards, gaps: Iterable[CaptureGap], *, is_measured: bool
) -> Iterator[CaptureGap]:
    """Yield the gaps of the guards."""
    if not is_measured and not any(gap.kind == "guard_cost" for gap in gaps):
        yield gap("guard_cost", "The cost of guard checks was not measured during this run.")
    unread = sum(len(guard_set.unread_lines) for guard_set in guards.sets)
    if unread:
        yield gap(
            "guards",
            f"Couldn't read {counted(unread, 'line')} of torch's guard trees: their layout is"
            " unknown.",
        )


def beginning_gaps(
    headless_logs: int, processes: Iterable[tuple[str | None, Sequence[Intake]]], *, is_ours: bool
) -> Iterator[CaptureGap]:
    """Yield whether the logs begin in the middle: in a record, or where a process, by name, refers
    to what isn't in its logs.

    A forked process goes on with its parent's numbers, unless graphdoctor recorded it.
    """
    is_missing = headless_logs > 0
    is_fork_possible = False
    for name, intakes in processes:
        lacks_numbers = not intakes[-1].inherited and (
            intakes[-1].has_undefined or (not is_ours and any(map(_lacks_compiles, intakes)))
        )
        is_missing |= lacks_numbers
        is_fork_possible |= lacks_numbers and name is not None
    if is_missing:
        fork = " The log of a forked process looks the same." if is_fork_possible else ""
        yield gap(
            "log_beginning",
            "The beginning of the trace log is missing, and what was compiled before isn't in the"
            f" counts.{fork}",
        )


def _lacks_compiles(intake: Intake) -> bool:
    """Return whether a compile lacks its start, or a frame its first compile."""
    first: dict[int, int] = {}
    for compile_ in intake.compiles.values():
        metrics = compile_.metrics
        if not compile_.is_started and metrics is not None and metrics.co_name is not None:
            return True
        count = compile_.compile_id.rpartition("/")[2]
        if count.isdecimal():
            first[compile_.frame_id] = min(int(count), first.get(compile_.frame_id, int(count)))
    return any(first.values())
