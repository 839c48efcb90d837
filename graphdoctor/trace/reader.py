"""Reads a recording from disk: torch's logs, what the probe reported, and what the parent wrote.

``folder.py`` finds the files, ``sections.py`` reads the logs, ``assemble.py`` makes the facts, ``gaps.py`` names what
is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Executor
from graphdoctor.executors.local import ALONE
from graphdoctor.facts.base import InvalidFactError
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.fixes import Treatment
from graphdoctor.facts.kernels import Float32Precision, KernelShare
from graphdoctor.facts.marks import LogSpan
from graphdoctor.facts.profiled import MeasuredMemory
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import CompileSwitch, Environment, Recording, Settling, SteadyCall, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.trials import Replay, WhatIf
from graphdoctor.probe.wire import TRACE_FOLDER
from graphdoctor.trace.assemble import Assembler, RunFacts
from graphdoctor.trace.beginning import signs_of
from graphdoctor.trace.events import Events, read_variations
from graphdoctor.trace.evidence import record_counts
from graphdoctor.trace.folder import RecordingFolder, open_folder
from graphdoctor.trace.gaps import (
    beginning_gaps,
    guard_gaps,
    log_gaps,
    lost_call_gaps,
    part_gaps,
    reported_gaps,
    script_gaps,
    switch_gaps,
    without_dynamo_gaps,
)
from graphdoctor.trace.inductor_runtime import cuda_graphs
from graphdoctor.trace.merge import Part, generated_names, merge, with_generated
from graphdoctor.trace.processes import ProcessLogs, find_processes
from graphdoctor.trace.profiled import profiled_call
from graphdoctor.trace.sections import LogContents, Section, Wanted, read_logs
from graphdoctor.trace.storage.places import Location
from graphdoctor.trace.versions import RUNNABLE, named_version
from graphdoctor.trace.watched import call_watch


def read_recording(
    location: Location, *, guards: bool = False, picture: bool = False, executor: Executor = ALONE
) -> Recording:
    """Read what was recorded.

    Raises:
        GraphDoctorError: There is no recording there, or it is from another version of graphdoctor.
    """
    return read_wanted(location, Wanted(guards=guards, picture=picture), executor)


def read_wanted(location: Location, wanted: Wanted, executor: Executor = ALONE) -> Recording:
    """As ``read_recording``."""
    folder = open_folder(location)
    with other_version(location):
        return _with_trials(read_folder(folder, wanted, executor), folder)


@contextmanager
def other_version(location: Location) -> Iterator[None]:
    """Say that a recording is of another version where something in it doesn't fit.

    Raises:
        GraphDoctorError: It doesn't.
    """
    try:
        yield
    except InvalidFactError as error:
        raise GraphDoctorError(
            f"{location} was written by another version of graphdoctor, or changed since.",
            hint="Run graphdoctor explain again; the trace log inside can be read by itself: graphdoctor report "
            f"{location}/{TRACE_FOLDER}",
        ) from error


def read_folder(folder: RecordingFolder, wanted: Wanted, executor: Executor = ALONE) -> Recording:
    """Read the files of a recording, or of one of its ranks."""
    events = folder.events
    environment = read_fact(Environment, events.fields("environment"))
    main_pid = events.fields("process").get("pid")
    if folder.processes is not None:
        processes: Sequence[ProcessLogs] = folder.processes
        main_pid = processes[0].pid
    else:
        # No log at all means one process, in which torch wrote nothing.
        processes = find_processes(folder.logs, main_pid=main_pid) or [ProcessLogs((), main_pid, None)]
    contents = read_logs(processes, lambda: wanted.first_section(environment), executor)
    _name_torch(contents)
    run = _run_facts(folder)
    parts = list(_parts(contents, run, main_pid, is_ours=bool(folder.meta)))
    merged = _merged(contents, run, [part for part, _ in parts], events, main_pid)
    if "export" in events:
        # Imported here: few recordings have one.
        from graphdoctor.trace.exported import with_export

        merged = with_export(merged, events, environment)
    if wanted.picture:
        merged = _with_picture(merged, parts, events, wanted)
    if wanted.guards:
        merged = _with_guards(merged, parts, events)
    if wanted.marks:
        merged = merged.model_copy(update={"span": _span(parts, contents, events, main_pid)})
    return with_generated(merged, generated_names(section.intake.generated for _, section in parts))


def _name_torch(contents: LogContents) -> None:
    if RUNNABLE not in contents.damage.kinds:
        return
    for process in contents.processes:
        intakes = [section.intake for section in process.sections]
        if all(intake.environment.torch is None for intake in intakes):
            version = named_version(process.process.logs)
            for intake in intakes:
                intake.environment = intake.environment.model_copy(update={"torch": version})


def _parts(
    contents: LogContents, run: RunFacts, main_pid: int | None, *, is_ours: bool
) -> Iterator[tuple[Part, Section]]:
    for name, process in contents.named(main_pid):
        has_our_records = is_ours and (name is None or process.is_ours)
        for reset, section in enumerate(process.sections):
            recording = Assembler(section.intake, is_ours=has_our_records).finish(run, is_cut=process.is_cut)
            yield Part(recording, name, reset), section


def _merged(
    contents: LogContents, run: RunFacts, parts: Sequence[Part], events: Events, main_pid: int | None
) -> Recording:
    switches = tuple(
        read_fact(
            CompileSwitch, {"kind": found.get("kind"), "value": found.get("value"), "call_index": found.get("call")}
        )
        for found in events.of("compile_switch")
    )
    watch = call_watch((name, process.sections[0].intake) for name, process in contents.named(main_pid))
    merged = merge(parts)
    evidence = merged.evidence.model_copy(update={"records": record_counts(contents.damage)})
    merged = merged.model_copy(update={"switches": switches, "watch": watch, "evidence": evidence})
    if watch is not None:
        merged = merged.model_copy(update={"coverage": watch.coverage})
    signs = (
        signs_of(name, process.beginning, [found.intake for found in process.sections], is_ours="process" in events)
        for name, process in contents.named(main_pid)
    )
    beginning = list(beginning_gaps(contents.damage.headless_logs, signs))
    is_foreign = any(gap.kind == "foreign_log" for gap in merged.gaps)
    gaps = [
        *reported_gaps(events.all),
        *switch_gaps(switches),
        *log_gaps(contents.damage, contents.unreadable),
        *beginning,
        *part_gaps(parts),
        *(script_gaps(merged, is_hooked="process" in events) if run.target.runs_itself else lost_call_gaps(merged)),
        *(without_dynamo_gaps(merged, is_rest=bool(beginning)) if is_foreign else ()),
        *merged.gaps,
    ]
    if any(gap.kind == "log_removed" for gap in gaps):
        # What the log lacks then says nothing about the run.
        untrue = {"unfinished_compile", "nothing_compiled"} | (
            {"coverage"} if merged.exit.reason == "finished" else set()
        )
        gaps = [gap for gap in gaps if gap.kind not in untrue]
    sections = [section for process in contents.processes for section in process.sections]
    inductor_graphs = (graph for section in sections for graph in section.intake.inductor_graphs)
    return merged.model_copy(
        update={
            "gaps": tuple(gaps),
            "kernels": events.fact("kernels", KernelShare),
            "memory": events.fact("memory", MeasuredMemory),
            "profiled": profiled_call(events, inductor_graphs),
            "float32_precision": events.fact("float32_precision", Float32Precision),
            "cuda_graphs": cuda_graphs(events, merged.graphs),
            "variations": read_variations(events.all),
            "steady_call": events.fact("steady_call", SteadyCall),
        }
    )


def _run_facts(folder: RecordingFolder) -> RunFacts:
    meta, events = folder.meta, folder.events
    # The tensors that have the batch size that was asked for.
    batched = [dict(found) for event in events.of("batch") for found in event["tensors"]]
    return RunFacts(
        target=read_fact(TargetInfo, (meta.get("target") or {}) | events.fields("target") | {"batched": batched}),
        exit=read_fact(ProbeExit, meta["exit"]) if meta.get("exit") else ProbeExit(status=None),
        coverage=events.fact("coverage", Coverage),
        settling=events.fact("settling", Settling),
        replay=_replay(events),
    )


def _replay(events: Events) -> Replay | None:
    if "trial" not in events and "part" not in events:
        return None
    parts = [{"kind": event["kind"], "name": event["name"]} for event in events.of("part")]
    return read_fact(Replay, events.fields("trial") | {"parts": parts})


def _with_picture(
    recording: Recording, parts: Sequence[tuple[Part, Section]], events: Events, wanted: Wanted
) -> Recording:
    from graphdoctor.trace.picture import picture_of

    found = picture_of(
        [(part, section.picture, section.intake.origins) for part, section in parts if section.picture is not None],
        recording,
        events=events.all,
        details=wanted.details,
    )
    return recording.model_copy(update={"picture": found})


def _with_guards(recording: Recording, parts: Sequence[tuple[Part, Section]], events: Events) -> Recording:
    from graphdoctor.trace.guards.sets import guards_of_parts

    found = guards_of_parts(
        [(part, section.guards.trees, section.intake) for part, section in parts if section.guards is not None],
        cost=events.guard_cost,
    )
    missing = guard_gaps(found, recording.gaps, is_measured="guard_cost" in events)
    return recording.model_copy(update={"guards": found, "gaps": (*recording.gaps, *missing)})


def _span(parts: Sequence[tuple[Part, Section]], contents: LogContents, events: Events, pid: int | None) -> LogSpan:
    from graphdoctor.trace.marks import clock_seconds

    found = [(part, section.marks.finish()) for part, section in parts if section.marks is not None]
    main = contents.processes[0]
    reports = [event for event in events.all if event.get("pid") == pid is not None]
    has_begun = any(event["event"] == "rank" for event in reports)
    return LogSpan(
        marks=tuple(
            mark.model_copy(update={"compile_id": part.prefix + mark.compile_id})
            for part, span in found
            for mark in span.marks
        ),
        first_s=clock_seconds(main.first),
        last_s=clock_seconds(main.last),
        executed=next((span.executed for _, span in found if span.executed is not None), None),
        is_ended=any(event["event"] == "process_ended" for event in reports) if has_begun else None,
    )


def _with_trials(recording: Recording, folder: RecordingFolder) -> Recording:
    return recording.model_copy(
        update={
            "what_if": read_fact(WhatIf, folder.what_if) if folder.what_if else None,
            "treatment": read_fact(Treatment, folder.fixes) if folder.fixes else None,
        }
    )
