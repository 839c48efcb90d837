"""The counts: a recording with its break sites and recompile events in, a ``Summary`` out."""

from __future__ import annotations

from collections.abc import Iterable

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.recording import Compile, CompileOutcome, Recording
from graphdoctor.rules.diagnosis.rule import RecordingView
from graphdoctor.rules.diagnosis.steadiness import steadiness_of


def summary_of(view: RecordingView, *, hidden_findings: int) -> Counts:
    """Count what happened in a recording.

    Args:
        view: The recording with its break sites and recompile events.
        hidden_findings: How many findings the selection leaves out.
    """
    recording = view.recording
    compiled = [compile_ for compile_ in recording.compiles if compile_.outcome == "compiled"]
    return Counts(
        calls=len(recording.calls),
        calls_failed=sum(call.outcome != "ok" for call in recording.calls),
        compiles=len(compiled),
        graphs=len(recording.graphs),
        break_sites=len({(site.entry.file, site.entry.line) for site in view.sites}),
        break_records=sum(record.effect != "raised" for record in recording.breaks),
        skipped_frames=_frame_count(recording.compiles, "skipped"),
        recompiles=sum(compile_.is_recompile for compile_ in recording.compiles),
        recompile_causes=_cause_count(view),
        frames_over_limit=_frame_count(recording.compiles, "limit"),
        coverage=recording.coverage.share if recording.coverage else None,
        coverage_detail=recording.coverage,
        compile_time_s=_compile_time_s(recording.compiles),
        steady_call_us=_steady_call_us(recording),
        graphs_per_call=_graphs_per_call(recording),
        steadiness=steadiness_of(view),
        cuda_graphs=None if recording.cuda_graphs is None else recording.cuda_graphs.captured,
        hidden_findings=hidden_findings,
    )


def _steady_call_us(recording: Recording) -> float | None:
    if recording.steady_call is not None:
        return recording.steady_call.call_us
    return None if recording.watch is None else recording.watch.steady_us


def _graphs_per_call(recording: Recording) -> int | None:
    if recording.steady_call is not None:
        return len(recording.steady_call.runs)
    return None if recording.watch is None else recording.watch.graph_runs


def _frame_count(compiles: Iterable[Compile], outcome: CompileOutcome) -> int:
    return len({compile_.frame_id for compile_ in compiles if compile_.outcome == outcome})


def _cause_count(view: RecordingView) -> int:
    """Distinct functions with distinct sets of changed values."""
    causes = {
        (event.frame.frame_id, frozenset((change.kind, change.expression) for change in event.changes))
        for event in view.events
        if not event.is_over_limit
    }
    return len(causes)


def _compile_time_s(compiles: tuple[Compile, ...]) -> float | None:
    """None if there were compiles and torch reported the time of none of them."""
    durations = [compile_.duration_s for compile_ in compiles if compile_.duration_s is not None]
    return sum(durations) if durations or not compiles else None
