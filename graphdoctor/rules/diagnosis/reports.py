"""Reports on frames, graphs and recompiles, and costs of findings: a recording and its findings
in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from graphdoctor.facts.base import grouped, sum_of_known, values_of
from graphdoctor.facts.diagnosis import (
    Cost,
    Finding,
    FrameReport,
    FrameState,
    GraphReport,
    RecompileReport,
)
from graphdoctor.facts.guards import RecompileCause
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosis.sites import RecordingView, left_eager

_UNKNOWN = RecompileCause(nearest=None, changes=(), is_exact=False)
_STATES: Mapping[str, FrameState] = {
    "limit": "over_limit",
    "skipped": "skipped",
    "failed": "failed",
    "unfinished": "unfinished",
    "rest_eager": "partly_eager",
    "compiled": "compiled",
}
"""By outcomes of compiles, the gravest first; ``rest_eager`` is of a break."""


def frame_reports(view: RecordingView) -> Iterator[FrameReport]:
    """Yield each frame and its state, in the order of first compiles."""
    recording = view.recording
    rest_eager = {
        record.compile_id
        for record in recording.breaks
        if (frame := view.frame(record.compile_id)) is not None
        and frame.name in left_eager(record, frame, view)
    }
    of_frame = grouped((compile_.frame_id, compile_) for compile_ in recording.compiles)
    for frame in recording.frames:
        compiles = of_frame[frame.frame_id]
        ids = tuple(compile_.compile_id for compile_ in compiles)
        outcomes: set[str] = {compile_.outcome for compile_ in compiles}
        if not rest_eager.isdisjoint(ids):
            outcomes.add("rest_eager")
        yield FrameReport(
            frame_id=frame.frame_id,
            state=next((_STATES[outcome] for outcome in _STATES if outcome in outcomes), "empty"),
            compile_ids=ids,
            call_path=compiles[0].stack[:-1],
        )


def graph_reports(view: RecordingView, findings: Sequence[Finding]) -> Iterator[GraphReport]:
    """Yield each graph and what ended it, in order; of all findings, none left out."""
    # torch generated the code of a compile for its last record.
    ends = {
        record.compile_id: site
        for site in view.sites
        for record in site.records
        if record.effect in ("resumed", "rest_eager")
    }
    # Of the first finding about a break at each line, and of each of torch's ids.
    fingerprints = {
        (*finding.location.at, finding.torch_id): finding.fingerprint
        for finding in reversed(findings)
        if finding.code.startswith("GD1")
    }
    for graph in view.recording.graphs:
        compile_, site = view.compiles.get(graph.compile_id), ends.get(graph.compile_id)
        ended_by, end = "return", None
        if site is not None:
            file, line, cause = relative(site.entry.file, view.root), site.entry.line, site.cause
            ended_by = f"{file}:{line} ({cause.torch_id or cause.gb_type})"
            end = fingerprints.get((file, line, cause.torch_id))
        elif compile_ is not None and compile_.outcome != "compiled":
            ended_by = compile_.outcome
        yield GraphReport(index=graph.index, ended_by=ended_by, ended_by_fingerprint=end)


def recompile_reports(
    view: RecordingView, findings: Sequence[Finding]
) -> Iterator[RecompileReport]:
    """Yield each recompile event and the finding it belongs to, in order; of all findings, none
    left out.
    """
    fingerprints = {
        compile_id: finding.fingerprint
        for finding in reversed(findings)
        if finding.code.startswith("GD2")
        for compile_id in finding.compile_ids
    }
    for event in view.events:
        first = event.compiles[0]
        cause = first.cause or _UNKNOWN
        yield RecompileReport(
            compile_ids=tuple(compile_.compile_id for compile_ in event.compiles),
            function=event.frame.described,
            cause=cause.changes,
            followed_in=tuple(dict.fromkeys(frame.described for frame in event.frames[1:])),
            call_site=event.call_site and event.call_site.located(view.root),
            backend_s=sum_of_known(compile_.backend_s for compile_ in event.compiles),
            fingerprint=fingerprints.get(first.compile_id),
            **values_of(event, "call_index", "cost_s", "is_over_limit"),
            **values_of(cause, "hidden_change_count", "also_changed"),
            **values_of(cause, "nearest", "is_exact"),
        )


def with_costs(
    findings: Sequence[Finding],
    recording: Recording,
    graphs: Sequence[GraphReport],
    recompiles: Sequence[RecompileReport],
) -> Iterator[Finding]:
    """Yield the findings, each with what it costs."""
    steady_us = recording.steady_call.call_us if recording.steady_call else None
    gaps_us = _gaps(recording, graphs, findings)
    # Where a device other than the CPU runs the graphs, the host doesn't wait for each of them.
    inputs = (item for graph in recording.graphs for item in graph.inputs or ())
    devices = {item.device for item in inputs} | {recording.target.call_options.get("device")}
    types = {device.partition(":")[0] for device in devices if isinstance(device, str)}
    is_on_accelerator = not types <= {"cpu", "meta"}
    compile_s: defaultdict[str | None, float] = defaultdict(float)
    for report in recompiles:
        if report.cost_s is not None and not report.is_over_limit:
            compile_s[report.fingerprint] += report.cost_s
    for finding in findings:
        name = finding.fingerprint
        measured, gap_us = None, gaps_us.get(name)
        if gap_us is not None and steady_us:
            measured = Cost(
                call_us=gap_us,
                call_from="host_gap" if is_on_accelerator else "gap",
                share=gap_us / steady_us,
            )
        if name in compile_s:
            measured = (measured or Cost()).replace(compile_s=compile_s[name])
        yield finding.replace(cost=measured) if measured else finding


def _gaps(
    recording: Recording, graphs: Sequence[GraphReport], findings: Sequence[Finding]
) -> Mapping[str, float]:
    """Add up the microseconds from the end of each graph that a break ends to the start of the next
    graph, by finding; the whole call, if no graph runs in it and one line is the only cause.

    A graph that ends with a return belongs to a function called after a break: the gap after it
    counts for the break before.
    """
    call = recording.steady_call
    # What a function over its limit does in a call is no break's doing, and it leaves no trace
    # there.
    if call is None or any(compile_.outcome == "limit" for compile_ in recording.compiles):
        return {}
    if not call.runs:
        causes = [finding for finding in findings if finding.effects.skipped_frames]
        is_only = len({finding.location.at for finding in causes}) == 1
        return {finding.fingerprint: call.call_us for finding in causes if is_only}
    ended_by = {graph.index: graph.ended_by_fingerprint for graph in graphs}
    gaps_us: defaultdict[str, float] = defaultdict(float)
    current: str | None = None
    for run, following in pairwise(call.runs):
        current = ended_by.get(run.graph) or current
        if current is not None:
            gaps_us[current] += following.start_us - run.end_us
    last = ended_by.get(call.runs[-1].graph)
    if last is not None and not any(finding.effects.eager_frames for finding in findings):
        # No graph follows and no function runs eagerly, so the rest of the call belongs to the last
        # break.
        gaps_us[last] += call.call_us - call.runs[-1].end_us
    return gaps_us
