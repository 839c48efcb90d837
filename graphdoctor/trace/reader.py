"""Reads an opened recording: torch's logs, what the probe reported, and what the parent wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import Fields, InvalidFactError
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.evidence import LogSpan
from graphdoctor.facts.fixes import DeclinedEdits, Treatment
from graphdoctor.facts.kernels import Float32Precision, KernelShare
from graphdoctor.facts.profiled import MeasuredMemory
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import (
    CaptureGap,
    CompileSwitch,
    Environment,
    Recording,
    Repeats,
    SteadyCall,
    TargetInfo,
)
from graphdoctor.facts.trials import Attacked, Replay, WhatIf
from graphdoctor.probe.wire import TRACE_FOLDER
from graphdoctor.trace import gaps
from graphdoctor.trace.assemble import Assembler
from graphdoctor.trace.events import Events, call_watch, read_variations, with_export
from graphdoctor.trace.evidence import record_counts
from graphdoctor.trace.folder import RecordingFolder, open_folder
from graphdoctor.trace.inductor import cache_use, cuda_graphs, profiled_call
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.logs import ProcessLogs, find_processes
from graphdoctor.trace.merge import Part, generated_names, merge, with_generated
from graphdoctor.trace.sections import (
    Collector,
    LogContents,
    ProcessSections,
    Section,
    Wanted,
    read_logs,
)
from graphdoctor.trace.storage import Location

_MEASURED: Fields = {
    "coverage": Coverage,
    "repeats": Repeats,
    "kernels": KernelShare,
    "memory": MeasuredMemory,
    "float32_precision": Float32Precision,
    "steady_call": SteadyCall,
}
"""Events that are facts of a recording as they are."""


def read_recording(location: Location, *, guards: bool = False, picture: bool = False) -> Recording:
    """Open and read a recording; a ``GraphDoctorError`` if there is none, or if it is of another
    version of graphdoctor.
    """
    return read_folder(open_folder(location), Wanted(guards=guards, picture=picture))


def read_folder(folder: RecordingFolder, wanted: Wanted) -> Recording:
    """Read an opened recording, or one of its ranks; raises as ``read_recording``."""
    location = folder.location
    try:
        return _read(folder, wanted).replace(
            what_if=read_fact(WhatIf, folder.what_if) if folder.what_if else None,
            treatment=read_fact(Treatment, folder.fixes) if folder.fixes else None,
            declined=read_fact(DeclinedEdits, folder.declined),
        )
    except InvalidFactError as error:
        raise GraphDoctorError(
            f"{location} was written by another version of graphdoctor, or changed since.",
            hint=(
                "Run graphdoctor explain again; the trace log inside can be read by itself:"
                f" graphdoctor report {location}/{TRACE_FOLDER}"
            ),
        ) from error


def _read(folder: RecordingFolder, wanted: Wanted) -> Recording:
    events = folder.events
    run = _reported(folder)
    main_pid = events.fields("process").get("pid")
    if folder.processes is not None:
        processes: Sequence[ProcessLogs] = folder.processes
        main_pid = processes[0].pid
    else:
        # No log at all means one process, in which torch wrote nothing.
        processes = find_processes(folder.logs, main_pid=main_pid) or [
            ProcessLogs((), main_pid, None)
        ]
    contents = read_logs(
        processes, lambda: Section(Intake(run.environment), tuple(_collectors(wanted)))
    )
    named = list(contents.named(main_pid))
    parts: list[tuple[Part, Section]] = []
    for name, process in named:
        is_ours = bool(folder.meta) and (name is None or process.is_ours)
        for reset, section in enumerate(process.sections):
            assembler = Assembler(section.intake, run, is_ours=is_ours)
            parts.append((Part(assembler.finish(is_cut=process.is_cut), name, reset), section))
    merged = _merged(contents, named, [part for part, _ in parts], events)
    merged = with_export(merged, events, run.environment)
    read: Fields = {}
    if wanted.picture:
        from graphdoctor.trace.picture import picture_of

        read["picture"] = picture_of(parts, merged, events, wanted.details)
    if wanted.guards:
        from graphdoctor.trace.guards.trees import guards_of_parts

        guards = read["guards"] = guards_of_parts(parts, cost=events.guard_cost)
        lost = gaps.guard_gaps(guards, merged.gaps, is_measured="guard_cost" in events)
        read["gaps"] = (*merged.gaps, *lost)
    if wanted.marks:
        read["span"] = _span(parts, contents, events, main_pid)
    return with_generated(
        merged.replace(**read), generated_names(section.intake.generated for _, section in parts)
    )


def _collectors(wanted: Wanted) -> Iterator[Collector]:
    # Imported here: most commands need none of them.
    if wanted.guards:
        from graphdoctor.trace.guards.trees import GuardTrees

        yield GuardTrees()
    if wanted.picture:
        from graphdoctor.trace.picture import picture_collectors

        yield from picture_collectors(wanted.details)
    if wanted.marks:
        from graphdoctor.trace.marks import Marks

        yield Marks(wanted.texts_of)


def _reported(folder: RecordingFolder) -> Recording:
    meta = folder.meta
    events = folder.events
    # The tensors that have the batch size that was asked for.
    batched = [dict(tensor) for event in events.of("batch") for tensor in event["tensors"]]
    replay = None
    if "trial" in events or "part" in events:
        made = [{"kind": event["kind"], "name": event["name"]} for event in events.of("part")]
        replay = read_fact(Replay, events.fields("trial") | {"parts": made}).replace(
            attacked=events.fact("attacked", Attacked)
        )
    switches = (
        {"kind": event.get("kind"), "value": event.get("value"), "call_index": event.get("call")}
        for event in events.of("compile_switch")
    )
    measured: Fields = {name: events.fact(name, kind) for name, kind in _MEASURED.items()}
    nothing: Fields = dict.fromkeys(("calls", "frames", "compiles", "graphs", "breaks", "gaps"), ())
    return Recording(
        **nothing,
        environment=read_fact(Environment, events.fields("environment")),
        target=read_fact(
            TargetInfo, (meta.get("target") or {}) | events.fields("target") | {"batched": batched}
        ),
        exit=folder.ended,
        is_partial=False,
        switches=tuple(read_fact(CompileSwitch, switch) for switch in switches),
        replay=replay,
        # The last event, because calls can set values.
        config=events.fields("config").get("values"),
        variations=read_variations(events),
        **measured,
    )


def _merged(
    contents: LogContents,
    named: Sequence[tuple[str | None, ProcessSections]],
    parts: Sequence[Part],
    events: Events,
) -> Recording:
    watch = call_watch((name, process.sections[0].intake.watched) for name, process in named)
    merged = merge(parts)
    intakes = (section.intake for process in contents.processes for section in process.sections)
    merged = merged.replace(
        watch=watch,
        coverage=merged.coverage if watch is None else watch.coverage,
        evidence=merged.evidence.replace(records=record_counts(contents.damage)),
        caches=cache_use(*(part.recording.evidence.cache_answers for part in parts)),
        profiled=profiled_call(
            events, (graph for intake in intakes for graph in intake.inductor_graphs)
        ),
        cuda_graphs=cuda_graphs(events, merged.graphs),
    )
    return merged.replace(gaps=tuple(_gaps(merged, contents, named, parts, events)))


def _gaps(
    merged: Recording,
    contents: LogContents,
    named: Sequence[tuple[str | None, ProcessSections]],
    parts: Sequence[Part],
    events: Events,
) -> list[CaptureGap]:
    is_hooked = "process" in events
    begun = ((name, [section.intake for section in process.sections]) for name, process in named)
    beginning = list(gaps.beginning_gaps(contents.damage.headless_logs, begun, is_ours=is_hooked))
    lost = [
        *gaps.reported_gaps(events),
        *gaps.switch_gaps(merged.switches),
        *gaps.log_gaps(contents.damage, contents.unreadable),
        *beginning,
        *gaps.part_gaps(parts),
    ]
    if merged.target.runs_itself:
        lost += gaps.script_gaps(merged, is_hooked=is_hooked)
    else:
        lost += gaps.lost_call_gaps(merged)
    if merged.is_foreign:
        lost += gaps.foreign_gaps(merged, is_rest=bool(beginning))
    lost += merged.gaps
    if not any(gap.kind == "log_removed" for gap in lost):
        return lost
    # What the log lacks then says nothing about the run.
    untrue = ["unfinished_compile", "nothing_compiled"]
    untrue += ["coverage"] if merged.exit.reason == "finished" else []
    return [gap for gap in lost if gap.kind not in untrue]


def _span(
    parts: Sequence[tuple[Part, Section]], contents: LogContents, events: Events, pid: int | None
) -> LogSpan:
    from graphdoctor.trace.marks import Marks, clock_seconds

    spans = [(part, section.collector(Marks).finish()) for part, section in parts]
    main = contents.processes[0]
    has_begun, is_ended = (
        any(event.get("pid") == pid is not None for event in events.of(kind))
        for kind in ("rank", "process_ended")
    )
    return LogSpan(
        marks=tuple(part.named(mark) for part, span in spans for mark in span.marks),
        first_s=clock_seconds(main.first),
        last_s=clock_seconds(main.last),
        is_ended=is_ended if has_begun else None,
    )
