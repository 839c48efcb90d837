"""Reports on frames, graphs and recompiles, and costs of findings: a recording and its findings in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import (
    Cost,
    Finding,
    FrameReport,
    FrameState,
    GraphReport,
    RecompileReport,
)
from graphdoctor.facts.fixes import TriedFix
from graphdoctor.facts.guards import RecompileCause
from graphdoctor.facts.recording import Compile, CompileOutcome, Recording
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosis.sites import RecordingView, left_eager

_BREAK = "GD1"
_RECOMPILE = "GD2"
_UNKNOWN = RecompileCause(nearest=None, entry_count=None, changes=(), is_exact=False)
_GRAVEST_FIRST: tuple[tuple[CompileOutcome, FrameState], ...] = (
    ("limit", "over_limit"),
    ("skipped", "skipped"),
    ("failed", "failed"),
    ("unfinished", "unfinished"),
)


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
        yield FrameReport(
            frame_id=frame.frame_id,
            state=_state(compiles, rest_eager),
            compile_ids=tuple(compile_.compile_id for compile_ in compiles),
            call_path=compiles[0].stack[:-1],
        )


def _state(compiles: Sequence[Compile], rest_eager: set[str | None]) -> FrameState:
    outcomes = {compile_.outcome for compile_ in compiles}
    for outcome, state in _GRAVEST_FIRST:
        if outcome in outcomes:
            return state
    if any(compile_.compile_id in rest_eager for compile_ in compiles):
        return "partly_eager"
    return "compiled" if "compiled" in outcomes else "empty"


def graph_reports(
    view: RecordingView, findings: Sequence[Finding], root: Path
) -> Iterator[GraphReport]:
    """Yield each graph and what ended it, in order.

    Args:
        view: The recording with its break sites.
        findings: All findings, none left out.
        root: Paths below it are shown relative to it.
    """
    # torch generated the code of a compile for its last record.
    ends = {
        record.compile_id: site
        for site in view.sites
        for record in site.records
        if record.effect in ("resumed", "rest_eager")
    }
    # Of the first finding about a break at each line, and of each of torch's ids.
    fingerprints = {
        (finding.location.file, finding.location.line, finding.torch_id): finding.fingerprint
        for finding in reversed(findings)
        if finding.code.startswith(_BREAK)
    }
    for graph in view.recording.graphs:
        compile_, site = view.compiles.get(graph.compile_id), ends.get(graph.compile_id)
        if site is None:
            ended_by = (
                "return" if compile_ is None or compile_.outcome == "compiled" else compile_.outcome
            )
            yield GraphReport(index=graph.index, ended_by=ended_by)
            continue
        file, line, cause = relative(site.entry.file, root), site.entry.line, site.cause
        yield GraphReport(
            index=graph.index,
            ended_by=f"{file}:{line} ({cause.torch_id or cause.gb_type})",
            ended_by_fingerprint=fingerprints.get((file, line, cause.torch_id)),
        )


def recompile_reports(
    view: RecordingView, findings: Sequence[Finding], root: Path
) -> Iterator[RecompileReport]:
    """Yield each recompile event and the finding it belongs to, in order.

    Args:
        view: The recording with its recompile events.
        findings: All findings, none left out.
        root: Paths below it are shown relative to it.
    """
    by_compile = {
        compile_id: finding
        for finding in reversed(findings)
        if finding.code.startswith(_RECOMPILE)
        for compile_id in finding.compile_ids
    }
    for event in view.events:
        first = event.compiles[0]
        cause = first.cause or _UNKNOWN
        finding = by_compile.get(first.compile_id)
        yield RecompileReport(
            compile_ids=tuple(compile_.compile_id for compile_ in event.compiles),
            function=event.frame.described,
            cause=cause.changes,
            hidden_change_count=cause.hidden_change_count,
            followed_in=tuple(dict.fromkeys(frame.described for frame in event.frames[1:])),
            call_index=event.call_index,
            call_site=event.call_site and event.call_site.located(root),
            loop_values=cause.loop_values,
            also_changed=cause.also_changed,
            nearest=cause.nearest,
            cost_s=event.cost_s,
            backend_s=event.backend_s,
            is_over_limit=event.is_over_limit,
            is_exact=cause.is_exact,
            fingerprint=finding.fingerprint if finding else None,
        )


def with_costs(
    findings: Sequence[Finding],
    recording: Recording,
    graphs: Sequence[GraphReport],
    recompiles: Sequence[RecompileReport],
) -> list[Finding]:
    """Return the findings, each with what it costs."""
    is_limited = any(compile_.outcome == "limit" for compile_ in recording.compiles)
    # What a function over its limit does in a call is no break's doing, and it leaves no trace
    # there.
    gaps = (
        {} if is_limited else _gaps(recording, graphs, findings) or _whole_call(recording, findings)
    )
    steady_us = recording.steady_call.call_us if recording.steady_call else None
    fixed = _fixed(recording.treatment.tried) if recording.treatment else {}
    compiled = _compile_seconds(recompiles)
    gap_kind: Literal["gap", "host_gap"] = "host_gap" if _is_on_accelerator(recording) else "gap"
    with_cost = []
    for finding in findings:
        cost, gap = fixed.get(finding.fingerprint), gaps.get(finding.fingerprint)
        if finding.fingerprint not in fixed and gap is not None and steady_us:
            cost = Cost(call_us=gap, call_from=gap_kind, share=gap / steady_us)
        if (seconds := compiled.get(finding.fingerprint)) is not None:
            cost = (cost or Cost()).replace(compile_s=seconds)
        with_cost.append(finding.replace(cost=cost) if cost else finding)
    return with_cost


def _is_on_accelerator(recording: Recording) -> bool:
    """Return whether a device other than the CPU runs the graphs, so that the host doesn't wait for
    each of them.
    """
    inputs = (item for graph in recording.graphs for item in graph.inputs or ())
    devices = {item.device for item in inputs} | {recording.target.call_options.get("device")}
    return any(
        isinstance(device, str) and device.partition(":")[0] not in ("cpu", "meta")
        for device in devices
    )


def _gaps(
    recording: Recording, graphs: Iterable[GraphReport], findings: Iterable[Finding]
) -> Mapping[str, float]:
    """Microseconds from the end of each graph that a break ends to the start of the next graph, by
    finding.

    A graph that ends with a return belongs to a function called after a break: the gap after it
    counts for the break before.
    """
    if recording.steady_call is None:
        return {}
    ended_by = {graph.index: graph.ended_by_fingerprint for graph in graphs}
    gaps_us: dict[str, float] = {}
    current: str | None = None
    runs = recording.steady_call.runs
    for run, following in pairwise(runs):
        current = ended_by.get(run.graph) or current
        if current is not None:
            gaps_us[current] = gaps_us.get(current, 0.0) + following.start_us - run.end_us
    last = ended_by.get(runs[-1].graph) if runs else None
    is_skipped = any(finding.effects.eager_frames for finding in findings)
    if last is not None and not is_skipped:
        # No graph follows and no function runs eagerly, so the rest of the call belongs to the last
        # break.
        gaps_us[last] = gaps_us.get(last, 0.0) + recording.steady_call.call_us - runs[-1].end_us
    return gaps_us


def _whole_call(recording: Recording, findings: Iterable[Finding]) -> Mapping[str, float]:
    """Return the whole call, if no graph runs in it and one line is the only cause."""
    if recording.steady_call is None or recording.steady_call.runs:
        return {}
    causes = [finding for finding in findings if finding.effects.skipped_frames]
    if len({finding.location.at for finding in causes}) != 1:
        return {}
    return {finding.fingerprint: recording.steady_call.call_us for finding in causes}


def _fixed(tried: Iterable[TriedFix]) -> dict[str, Cost | None]:
    """Return what verified fixes save, by finding of the unchanged program; None where timing shows
    no difference.
    """
    saved_by: dict[str, Cost | None] = {}
    for fix in tried:
        if fix.verdict != "verified" or not fix.is_on_untouched or not fix.times:
            continue
        times = fix.times[0]
        saved = Cost(
            call_us=times.before_us * (1 - times.ratio), call_from="fix", share=1 - times.ratio
        )
        saved_by[fix.fingerprint] = saved if times.is_clear else None
    return saved_by


def _compile_seconds(recompiles: Iterable[RecompileReport]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for report in recompiles:
        if (
            report.fingerprint is not None
            and report.cost_s is not None
            and not report.is_over_limit
        ):
            seconds[report.fingerprint] = seconds.get(report.fingerprint, 0.0) + report.cost_s
    return seconds
