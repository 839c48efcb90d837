"""Makes of a search what is written and reported: edits of the program's files, and the treatment.

Comes in: the untouched program, the best one and the log of trials. Goes out: the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    GRADES,
    LOSSY,
    VERIFIED,
    Grade,
    LeftFinding,
    SiteCounts,
    Treatment,
    TriedFix,
    WholeRun,
)
from graphdoctor.facts.recording import Recording
from graphdoctor.fixes.entry_file import with_fullgraph, with_settings
from graphdoctor.fixes.log import TrialLog
from graphdoctor.fixes.options import treated_findings
from graphdoctor.fixes.patch import Candidate, FileChange, SearchOptions, SearchResult, diff_text
from graphdoctor.fixes.trials import State, Trials, UserBackend
from graphdoctor.fixes.verdicts import is_break
from graphdoctor.fixes.wrapping import wrapped
from graphdoctor.trials.program import Program
from graphdoctor.trials.timing import faster


@dataclass(frozen=True)
class OwnFiles:
    """The files of the user's program, as it was recorded."""

    trials: Trials
    recording: Recording

    @cached_property
    def entry(self) -> Path | None:
        """The file of the program's own that is imported first."""
        environment = self.recording.environment
        roots = () if environment is None else environment.site_roots
        file = Path(self.recording.target.file or "")
        is_own = file.suffix == ".py" and not any(file.is_relative_to(root) for root in roots)
        return file if is_own and file.is_file() else None

    def changes(self, program: Program) -> tuple[FileChange, ...]:
        """List the edits that a program has."""
        originals = self.trials.originals
        return tuple(
            FileChange(path, originals[path], content) for path, content in program.content.items()
        )

    def writable(self, fixes: Iterable[Candidate]) -> list[FileChange]:
        """List the edits of fixes; for settings, and the call that compiles the target, the file
        that the program starts with.
        """
        edits = [edit for fix in fixes for edit in fix.edits]
        has_settings = any(fix.kind == "config" for fix in fixes)
        if self.entry is not None and (has_settings or self.with_fullgraph(Program())):
            content = self.entry.read_bytes()
            edits.append(FileChange(self.entry, content, content))
        return edits

    def with_fullgraph(self, program: Program) -> FileChange | None:
        """Edit the call that compiles the target, if the first file has it."""
        if (path := self.entry) is None:
            return None
        before = program.content.get(path)
        if before is None:
            before = self.trials.originals.setdefault(path, path.read_bytes())
        after = with_fullgraph(before, self.recording.target)
        return None if after is None else FileChange(path, before, wrapped(before, after, path))

    def with_settings(
        self, changes: tuple[FileChange, ...], settings: Sequence[str]
    ) -> tuple[tuple[FileChange, ...], Path | None]:
        """Add lines of settings to the edits; returns the file that holds them, None if none
        can.
        """
        path = self.entry if settings else None
        if path is None:
            return changes, None
        edited = next((change for change in changes if change.path == path), None)
        before = edited.before if edited else path.read_bytes()
        lines = [line for snippet in settings for line in snippet.splitlines()]
        after = with_settings(edited.after if edited else before, lines)
        if after is None:
            return changes, None
        rest = (change for change in changes if change is not edited)
        return (*rest, FileChange(path, before, after)), path

    def diff(self, changes: Iterable[FileChange]) -> str:
        """Show edits as one diff."""
        return "".join(diff_text(change, self.trials.root) for change in changes)


def result_of(
    files: OwnFiles,
    options: SearchOptions,
    log: TrialLog,
    backend: UserBackend,
    untouched: State,
    best: State,
    *,
    whole: WholeRun | None,
) -> SearchResult:
    """Say what a search came to.

    Args:
        files: The program's files.
        options: The search's.
        log: What was tried.
        backend: What ran under the user's backend.
        untouched: The program without fixes.
        best: The program with the applied ones.
        whole: What torch said of the best program under ``fullgraph=True``.
    """
    trials, selection = files.trials, options.selection
    settings, calls = (
        tuple(dict.fromkeys(fix.snippet for fix in best.fixes if fix.kind == kind and fix.snippet))
        for kind in ("config", "call")
    )
    changes, settings_file = files.with_settings(files.changes(best.program), settings)
    log.settle(best, backend.name if backend.is_another else None)
    times = trials.times_of(Program(), best.program)
    is_one_graph = whole is not None and whole.is_one_graph
    tried = log.tried(best, is_one_graph=is_one_graph, is_faster=faster(times) is not None)
    before, after = untouched.observed.measures, best.observed.measures
    compared, check = best.observed.compared, backend.checks.get(best.program)
    if check is not None:
        compared = check.compared
        before, after = backend.untouched_measures or before, check.measures or after
    left = treated_findings(best.observed, selection)
    gone: list[str] = []
    if best.applied:
        findings = [
            finding for finding in untouched.observed.diagnosis.findings if selection.keeps(finding)
        ]
        gone += log.gone(trials.change(untouched, best.observed, best.program), best, findings)
    diff, still_there = files.diff(changes), tuple(log.left(best, left))
    sites = treated_findings(untouched.observed, selection)
    treatment = Treatment(
        tried=tried,
        before=before,
        after=after if best.applied else None,
        diff=diff,
        settings=settings,
        settings_file=None if settings_file is None else str(settings_file),
        calls=calls,
        compared=compared if best.applied else None,
        attacked=best.observed.attacked if best.applied else None,
        backend=backend.name if best.applied and compared else None,
        times=times,
        whole=whole,
        sites=count_sites(sites, gone, tried, still_there, diff),
        gone=tuple(gone),
        declined=log.declined,
        left=still_there,
        choices=options.choices,
        trial_count=trials.replays.count,
        notes=tuple(dict.fromkeys(trials.notes)),
    )
    return SearchResult(treatment, changes, program=best.program)


def count_sites(
    findings: Iterable[Finding],
    gone: Sequence[str],
    tried: Iterable[TriedFix],
    left: Iterable[LeftFinding],
    diff: str,
) -> SiteCounts:
    """Count break sites by the worst grade of the fixes that a site needed.

    Args:
        findings: Findings of the untouched program, as shown.
        gone: Fingerprints of those that are gone.
        tried: All fixes that were tried.
        left: Findings of the program with the applied fixes.
        diff: The edits.
    """
    sites = [finding for finding in findings if is_break(finding)]
    applied = [fix for fix in tried if fix.is_applied]
    counts = Counter[Grade | None]()
    lossy = 0
    for site in sites:
        fixes = [fix for fix in applied if fix.fingerprint == site.fingerprint] or [
            fix for fix in applied if site.site in fix.sites_gone
        ]
        if site.fingerprint in gone:
            counts[_worst(fixes or applied)] += 1
            lossy += any(fix.verdict == LOSSY for fix in fixes)
        else:
            is_contained = any(fix.verdict == "contained" for fix in fixes)
            counts["contained" if is_contained else None] += 1
    # What showed once these were gone.
    later: dict[str, list[TriedFix]] = {}
    places = {place for site in sites for place in _places(site)}
    for fix in applied:
        if is_break(fix) and not fix.is_on_untouched and fix.finding_place not in places:
            later.setdefault(fix.finding_place, []).append(fix)
    for place, fixes in later.items():
        is_gone = any(fix.verdict in VERIFIED for fix in fixes)
        counts[_worst(fixes) if is_gone else "contained"] += 1
        lossy += any(fix.verdict == LOSSY for fix in fixes)
        places.add(place)
    counts[None] += sum(is_break(finding) and finding.place not in places for finding in left)
    lines = (line for line in diff.splitlines() if line.startswith(("+", "-")))
    return SiteCounts(
        **{grade: counts[grade] for grade in GRADES},
        left=counts[None],
        lossy=lossy,
        changed_lines=sum(not line.startswith(("+++ ", "--- ")) for line in lines),
    )


def _places(finding: Finding) -> tuple[str, ...]:
    place = finding.location
    return tuple(f"{file}:{place.line}" for file in {place.file, place.shown_file} if file)


def _worst(fixes: Sequence[TriedFix]) -> Grade:
    grades = [GRADES.index(fix.grade) for fix in fixes if fix.grade is not None]
    return GRADES[max(grades, default=0)]
