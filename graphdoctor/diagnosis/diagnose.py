"""A ``Recording`` to a ``Diagnosis``: sites to findings, counts, order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.diagnosis.costs import with_costs
from graphdoctor.diagnosis.frames import described, frame_entry, frame_name
from graphdoctor.diagnosis.recompiles import (
    RecompileEvent,
    RecompileGroup,
    distinct_values,
    hidden_change_count,
    recompile_groups,
)
from graphdoctor.diagnosis.rule import BreakSite, RecompileRule, RecordingView, Rule, RuleBook, RuleMatch
from graphdoctor.diagnosis.sites import view_of
from graphdoctor.diagnosis.verdicts import with_verdicts
from graphdoctor.model.diagnosis import (
    Cost,
    Diagnosis,
    Finding,
    FrameReport,
    FrameState,
    GraphReport,
    Location,
    RecompileReport,
    Severity,
    Summary,
)
from graphdoctor.model.recompiles import GuardChange
from graphdoctor.model.recording import Compile, Frame, Recording
from graphdoctor.model.stack import StackEntry, relative

_LINE_NUMBER = re.compile(r":\d+\b")
_SEVERITY_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Selection:
    """Which findings to show.

    Args:
        select: Code prefixes; empty for all.
        ignore: Code prefixes to leave out.
        is_own_code_only: Leave out what lies in installed packages.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    is_own_code_only: bool = False

    def keeps(self, finding: Finding) -> bool:
        """Whether a finding is shown."""
        if self.select and not finding.code.startswith(self.select):
            return False
        if self.ignore and finding.code.startswith(self.ignore):
            return False
        return not self.is_own_code_only or finding.location.origin == "user"


def diagnose(
    recording: Recording, rules: RuleBook, *, root: Path, version: str, selection: Selection | None = None
) -> Diagnosis:
    """Say what a recording means.

    Args:
        recording: The facts.
        rules: What to look for.
        root: Paths below it are shown relative to it.
        version: graphdoctor's own version.
        selection: Which findings to show; None for all.

    Returns:
        The JSON document's model, findings worst first.
    """
    view = view_of(recording)
    findings = with_verdicts(_findings(view, rules, root), recording.treatment)
    graphs = tuple(_graph_reports(view, findings, root))
    recompiles = tuple(_recompile_reports(view, findings, root))
    findings = sorted(with_costs(findings, recording, graphs, recompiles), key=_rank)
    shown = [finding for finding in findings if (selection or Selection()).keeps(finding)]
    return Diagnosis(
        graphdoctor_version=version,
        is_partial=recording.is_partial,
        environment=recording.environment,
        target=recording.target,
        exit=recording.exit,
        summary=_summary(view, hidden=len(findings) - len(shown)),
        findings=tuple(shown),
        calls=recording.calls,
        compile_calls=tuple(
            call.model_copy(update={"file": relative(call.file, root)}) for call in recording.compile_calls
        ),
        frames=tuple(_frame_reports(recording)),
        compiles=recording.compiles,
        graphs=graphs,
        recompiles=recompiles,
        what_if=recording.what_if,
        guards=recording.guards,
        sensitivity=recording.variations,
        treatment=recording.treatment,
        gaps=recording.gaps,
    )


def _findings(view: RecordingView, rules: RuleBook, root: Path) -> list[Finding]:
    drafts: list[Finding] = []
    for site in view.sites:
        rule = next(rule for rule in rules.breaks if rule.matches(site))
        match = RuleMatch(
            entry=site.entry,
            message=rule.message(site),
            count=len(site.records),
            compile_ids=_compile_ids(site),
            reasons=site.records[0].chain,
            effects=site.effects,
            break_effects=site.break_effects,
            user_stack=_longest_path(site, view.recording),
            fixes=rule.fixes(site),
            severity=_site_severity(rule, site),
        )
        drafts.append(_finding(rule, match, root))
    drafts += _recompile_findings(view, rules.recompiles, root)
    for recording_rule in rules.recordings:
        drafts += [_finding(recording_rule, match, root) for match in recording_rule.findings(view)]
    return distinct(sorted(drafts, key=_order))


def _recompile_findings(view: RecordingView, rules: Sequence[RecompileRule], root: Path) -> Iterator[Finding]:
    by_code = {rule.code: rule for rule in rules}

    def rule_of(change: GuardChange, event: RecompileEvent) -> str:
        return next(rule.code for rule in rules if rule.matches(change, event))

    for code, group in recompile_groups(view.events, rule_of):
        rule = by_code[code]
        count = group.compile_count
        if not count:
            continue  # over the limit each time: GD201 says so
        match = RuleMatch(
            entry=_blamed_line(group),
            message=rule.message(group),
            count=count,
            compile_ids=group.compile_ids,
            related=tuple(_call_sites(group)),
            torch_reason="\n".join(dict.fromkeys(_torch_words(group))) or None,
            user_stack=group.events[0].compiles[0].stack,
            fixes=rule.fixes(group),
            # A value that was carried over a break is named by the break's place: its line moves.
            subject=_LINE_NUMBER.sub("", group.first.expression),
            changes=distinct_values(change for changes in group.changes for change in changes),
            hidden_change_count=hidden_change_count(group.events),
        )
        yield _finding(rule, match, root)


def _blamed_line(group: RecompileGroup) -> StackEntry:
    """The user's line that made torch guard on the value; the function itself where that is none of the user's."""
    location = group.first.guard_location
    return location if location is not None and location.origin in ("user", "third_party") else frame_entry(group.frame)


def _call_sites(group: RecompileGroup) -> Iterator[tuple[StackEntry, str]]:
    """The user's lines that made the calls, each once, with the calls' numbers."""
    sites: dict[tuple[str, int], tuple[StackEntry, list[str]]] = {}
    for event in group.events:
        site = event.call_site
        if site is not None:
            number = [] if event.call_index is None else [str(event.call_index)]
            sites.setdefault((site.file, site.line), (site, []))[1].extend(number)
    for site, numbers in sites.values():
        calls = f"in call {', '.join(dict.fromkeys(numbers))}" if numbers else ""
        yield site, f"called here {calls}".rstrip()


def _torch_words(group: RecompileGroup) -> Iterator[str]:
    for event in group.events:
        yield from event.compiles[0].recompile_reasons[:1]


def _recompile_reports(view: RecordingView, findings: Sequence[Finding], root: Path) -> Iterator[RecompileReport]:
    by_compile = {
        compile_id: finding
        for finding in reversed(findings)
        if finding.code.startswith("GD2")
        for compile_id in finding.compile_ids
    }
    for event in view.events:
        first = event.compiles[0]
        cause = first.cause
        finding = by_compile.get(first.compile_id)
        yield RecompileReport(
            compile_ids=tuple(compile_.compile_id for compile_ in event.compiles),
            function=described(event.frame),
            cause=cause.changes if cause else (),
            hidden_change_count=cause.hidden_change_count if cause else 0,
            followed_in=tuple(dict.fromkeys(described(frame) for frame in event.frames[1:])),
            call_index=event.call_index,
            call_site=location_of(event.call_site, root) if event.call_site else None,
            loop_values=cause.loop_values if cause else {},
            nearest=cause.nearest if cause else None,
            cost_s=event.cost_s,
            backend_s=event.backend_s,
            is_over_limit=event.is_over_limit,
            is_exact=cause.is_exact if cause else False,
            fingerprint=finding.fingerprint if finding else None,
        )


def _site_severity(rule: Rule, site: BreakSite) -> Severity:
    """A break that leaves a function to eager mode, or that raises, is an error whatever its cause."""
    return rule.severity if set(site.break_effects) <= {"resumed"} else "error"


def _rank(finding: Finding) -> tuple[int, float, float]:
    """By severity, then by what was measured; what costs the same stays in the order of ``_order``."""
    cost = finding.cost or Cost()
    return (_SEVERITY_ORDER[finding.severity], -(cost.call_us or 0.0), -(cost.compile_s or 0.0))


def _order(finding: Finding) -> tuple[int, int, int, int]:
    effects = finding.effects
    lost = len(effects.skipped_frames) + len(effects.rest_eager_frames)
    return (_SEVERITY_ORDER[finding.severity], -lost, -len(effects.graphs), -finding.count)


def _compile_ids(site: BreakSite) -> tuple[str, ...]:
    return tuple(dict.fromkeys(record.compile_id for record in site.records if record.compile_id))


def _longest_path(site: BreakSite, recording: Recording) -> tuple[StackEntry, ...]:
    """The longest call path to the site: how its frame was reached, then how the break was reached from there."""
    compiles = {compile_.compile_id: compile_ for compile_ in recording.compiles}
    paths = []
    for record in site.records:
        compile_ = compiles.get(record.compile_id or "")
        above = compile_.stack[:-1] if compile_ and record.is_stack_exact else ()
        paths.append((*above, *record.stack))
    return max(paths, key=lambda path: sum(entry.origin in ("user", "third_party") for entry in path))


def _finding(rule: Rule, match: RuleMatch, root: Path) -> Finding:
    location = location_of(match.entry, root)
    cause = match.reasons[0] if match.reasons else None
    torch_id = cause.torch_id if cause else None
    return Finding(
        code=rule.code,
        rule=rule.name,
        severity=match.severity or rule.severity,
        message=match.message,
        location=location,
        related=tuple(location_of(entry, root, note=note) for entry, note in match.related),
        count=match.count,
        changes=match.changes,
        hidden_change_count=match.hidden_change_count,
        torch_id=torch_id,
        torch_reason=match.torch_reason or (_reason_text(cause.gb_type, cause.explanation) if cause else None),
        hints=cause.hints if cause else (),
        reasons=match.reasons,
        break_effects=match.break_effects,
        effects=match.effects,
        compile_ids=match.compile_ids,
        user_stack=match.user_stack,
        fixes=match.fixes,
        fingerprint=fingerprint(rule.code, match.entry, root, torch_id or (cause.gb_type if cause else match.subject)),
    )


def _reason_text(gb_type: str, explanation: str | None) -> str:
    return f"{gb_type}: {explanation}" if explanation else gb_type


def location_of(entry: StackEntry, root: Path, *, note: str | None = None) -> Location:
    """A stack entry as a finding's place.

    Args:
        entry: The line.
        root: Paths below it are shown relative to it.
        note: For a related place: what it is.
    """
    return Location(
        file=relative(entry.file, root),
        line=entry.line,
        column=entry.column,
        end_column=entry.end_column,
        function=entry.qualname or entry.function,
        package=entry.package,
        origin=entry.origin,
        text=entry.text,
        indent=entry.indent,
        note=note,
    )


def fingerprint(code: str, entry: StackEntry, root: Path, subject: str) -> str:
    """Rule, file, qualified name, normalised line and torch's id or the changed value: what stays when lines move.

    A package's file is named from the package on, so that another environment gives the same value.
    """
    file = relative(entry.file, root)
    if entry.package and f"/{entry.package}/" in file:
        file = entry.package + file.rpartition(f"/{entry.package}/")[2]
    text = re.sub(r"\s+", " ", re.sub(r"\s+#.*$", "", entry.text or "")).strip()
    parts = (code, Path(file).as_posix(), entry.qualname or entry.function, text, subject)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Number equal fingerprints, in the order of lines: two equal lines in one function are two findings."""
    seen: dict[str, int] = {}
    renamed: dict[int, str] = {}
    for index, finding in sorted(enumerate(findings), key=lambda item: item[1].location.line):
        number = seen.get(finding.fingerprint, 0)
        seen[finding.fingerprint] = number + 1
        if number:
            text = f"{finding.fingerprint}\0{number}"
            renamed[index] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return [
        finding.model_copy(update={"fingerprint": renamed[index]}) if index in renamed else finding
        for index, finding in enumerate(findings)
    ]


def _summary(view: RecordingView, *, hidden: int) -> Summary:
    recording = view.recording
    compiled = [compile_ for compile_ in recording.compiles if compile_.outcome == "compiled"]
    durations = [compile_.duration_s for compile_ in recording.compiles if compile_.duration_s is not None]
    return Summary(
        calls=len(recording.calls),
        calls_failed=sum(call.outcome != "ok" for call in recording.calls),
        compiles=len(compiled),
        graphs=len(recording.graphs),
        break_sites=len({(site.entry.file, site.entry.line) for site in view.sites}),
        break_records=sum(record.effect != "raised" for record in recording.breaks),
        skipped_frames=len(_frames_with(recording.compiles, "skipped")),
        recompiles=sum(compile_.is_recompile for compile_ in compiled),
        recompile_causes=len(
            {
                (event.frame.frame_id, frozenset((change.kind, change.expression) for change in event.changes))
                for event in view.events
                if not event.is_over_limit
            }
        ),
        frames_over_limit=len(_frames_with(recording.compiles, "limit")),
        coverage=recording.coverage.share if recording.coverage else None,
        coverage_detail=recording.coverage,
        compile_time_s=sum(durations) if durations or not recording.compiles else None,
        steady_call_us=recording.steady_call.call_us if recording.steady_call else None,
        hidden_findings=hidden,
    )


def _frames_with(compiles: Iterable[Compile], outcome: str) -> set[int]:
    return {compile_.frame_id for compile_ in compiles if compile_.outcome == outcome}


def _frame_reports(recording: Recording) -> Iterable[FrameReport]:
    rest_eager = {record.compile_id for record in recording.breaks if record.effect == "rest_eager"}
    for frame in recording.frames:
        compiles = [compile_ for compile_ in recording.compiles if compile_.frame_id == frame.frame_id]
        yield FrameReport(
            **frame.model_dump(),
            state=_state(compiles, rest_eager),
            compile_ids=tuple(compile_.compile_id for compile_ in compiles),
            call_path=compiles[0].stack[:-1],
        )


def _state(compiles: Sequence[Compile], rest_eager: set[str | None]) -> FrameState:
    outcomes = {compile_.outcome for compile_ in compiles}
    if "limit" in outcomes:
        return "over_limit"
    if "skipped" in outcomes:
        return "skipped"
    if "failed" in outcomes:
        return "failed"
    if "unfinished" in outcomes:
        return "unfinished"
    if any(compile_.compile_id in rest_eager for compile_ in compiles):
        return "partly_eager"
    return "compiled" if "compiled" in outcomes else "empty"


def _graph_reports(view: RecordingView, findings: Sequence[Finding], root: Path) -> Iterable[GraphReport]:
    compiles = {compile_.compile_id: compile_ for compile_ in view.recording.compiles}
    frames = {frame.frame_id: frame for frame in view.recording.frames}
    # The last record of a compile is the one its code was generated for.
    ends = {
        record.compile_id: site
        for site in view.sites
        for record in site.records
        if record.effect in ("resumed", "rest_eager")
    }
    for graph in view.recording.graphs:
        compile_ = compiles.get(graph.compile_id)
        frame = frames.get(compile_.frame_id) if compile_ else None
        site = ends.get(graph.compile_id)
        ended_by, fingerprint = "return", None
        if site is not None:
            file = relative(site.entry.file, root)
            ended_by = f"{file}:{site.entry.line} ({site.cause.torch_id or site.cause.gb_type})"
            fingerprint = next(
                (
                    finding.fingerprint
                    for finding in findings
                    if finding.location.file == file
                    and finding.location.line == site.entry.line
                    and finding.torch_id == site.cause.torch_id
                    and finding.code.startswith("GD1")
                ),
                None,
            )
        elif compile_ is not None and compile_.outcome != "compiled":
            ended_by = compile_.outcome
        yield GraphReport(
            **graph.model_dump(),
            function=_graph_function(frame),
            resumes_at=frame.resumes_at if frame else None,
            ended_by=ended_by,
            ended_by_fingerprint=fingerprint,
        )


def _graph_function(frame: Frame | None) -> str:
    if frame is None:
        return "?"
    name = frame_name(frame)
    return f"{name} from line {frame.resumes_at}" if frame.resumes_at is not None else name
