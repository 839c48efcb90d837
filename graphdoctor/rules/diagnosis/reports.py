"""What happened to each frame, graph and recompile, for the JSON document: a recording and its findings in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from graphdoctor.facts.diagnosis import Finding, FrameReport, FrameState, GraphReport, RecompileReport
from graphdoctor.facts.recording import Compile, CompileOutcome, Recording
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosis.findings import location_of
from graphdoctor.rules.diagnosis.rule import BreakSite, RecordingView

_BREAK = "GD1"
_RECOMPILE = "GD2"
_GRAVEST_FIRST: tuple[tuple[CompileOutcome, FrameState], ...] = (
    ("limit", "over_limit"),
    ("skipped", "skipped"),
    ("failed", "failed"),
    ("unfinished", "unfinished"),
)


def frame_reports(recording: Recording) -> Iterator[FrameReport]:
    """Each frame and its state, in the order of first compiles."""
    rest_eager = {record.compile_id for record in recording.breaks if record.effect == "rest_eager"}
    of_frame: dict[int, list[Compile]] = defaultdict(list)
    for compile_ in recording.compiles:
        of_frame[compile_.frame_id].append(compile_)
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


def graph_reports(view: RecordingView, findings: Sequence[Finding], root: Path) -> Iterator[GraphReport]:
    """Each graph and what ended it, in order.

    Args:
        view: The recording with its break sites.
        findings: All findings, none left out.
        root: Paths below it are shown relative to it.
    """
    compiles = {compile_.compile_id: compile_ for compile_ in view.recording.compiles}
    # torch generated the code of a compile for its last record.
    ends = {
        record.compile_id: site
        for site in view.sites
        for record in site.records
        if record.effect in ("resumed", "rest_eager")
    }
    fingerprints = _fingerprints_of_breaks(findings)
    for graph in view.recording.graphs:
        compile_ = compiles.get(graph.compile_id)
        site = ends.get(graph.compile_id)
        yield GraphReport(
            index=graph.index,
            ended_by=_ended_by(site, compile_, root),
            ended_by_fingerprint=fingerprints.get(_place(site, root)) if site else None,
        )


def _ended_by(site: BreakSite | None, compile_: Compile | None, root: Path) -> str:
    if site is not None:
        return f"{relative(site.entry.file, root)}:{site.entry.line} ({site.cause.torch_id or site.cause.gb_type})"
    return compile_.outcome if compile_ is not None and compile_.outcome != "compiled" else "return"


def _fingerprints_of_breaks(findings: Sequence[Finding]) -> Mapping[tuple[str, int, str | None], str]:
    """The fingerprint of the first finding about a break at each line, and of each of torch's ids."""
    return {
        (finding.location.file, finding.location.line, finding.torch_id): finding.fingerprint
        for finding in reversed(findings)
        if finding.code.startswith(_BREAK)
    }


def _place(site: BreakSite, root: Path) -> tuple[str, int, str | None]:
    return relative(site.entry.file, root), site.entry.line, site.cause.torch_id


def recompile_reports(view: RecordingView, findings: Sequence[Finding], root: Path) -> Iterator[RecompileReport]:
    """Each recompile event and the finding it belongs to, in order.

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
        cause = first.cause
        finding = by_compile.get(first.compile_id)
        yield RecompileReport(
            compile_ids=tuple(compile_.compile_id for compile_ in event.compiles),
            function=event.frame.described,
            cause=cause.changes if cause else (),
            hidden_change_count=cause.hidden_change_count if cause else 0,
            followed_in=tuple(dict.fromkeys(frame.described for frame in event.frames[1:])),
            call_index=event.call_index,
            call_site=location_of(event.call_site, root) if event.call_site else None,
            loop_values=cause.loop_values if cause else {},
            also_changed=cause.also_changed if cause else (),
            nearest=cause.nearest if cause else None,
            cost_s=event.cost_s,
            backend_s=event.backend_s,
            is_over_limit=event.is_over_limit,
            is_exact=cause.is_exact if cause else False,
            fingerprint=finding.fingerprint if finding else None,
        )
