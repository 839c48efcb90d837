"""Tries fixes for what blocks an export, one blocker after the other.

torch stops at the first thing that it can't export, so the next one shows only with a fix for it. A
fix counts only once the export succeeds and the program that comes out computes what the untouched
one does in eager mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import libcst as cst

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.export import ExportBlocker, WayStatus
from graphdoctor.facts.fixes import Fix, Reason, TriedFix, Verdict, because
from graphdoctor.fixes.options import Sources, options_for
from graphdoctor.fixes.patch import Candidate, FileChange, LineMap, diff_text, with_fixes
from graphdoctor.fixes.source.extraction import splits
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.diagnosis.verdicts import fixes_with
from graphdoctor.studies.export.attempts import Attempt, Exporter
from graphdoctor.trials.program import ExportPlan, Program, RunChange

_MAX_BLOCKERS = 8
_MAX_TRIALS = 24
_VERDICTS: dict[WayStatus, Verdict] = {
    "exported": "verified",
    "different": "changes results",
    "unknown": "unproven",
    "blocked": "failed",
    "failed": "failed",
}


@dataclass
class _Trial:
    proposal: Candidate
    attempt: Attempt
    verdict: Verdict
    reasons: tuple[Reason, ...]


@dataclass
class Cure:
    """What came of the trials.

    Args:
        blockers: What torch stopped at, in order, with what was tried.
        program: The program with the fixes that were kept; the untouched one if the export doesn't
            succeed with them.
        attempt: Its export; None if no fix works.
    """

    blockers: list[ExportBlocker] = field(default_factory=list)
    program: Program = field(default_factory=Program)
    attempt: Attempt | None = None
    changes: tuple[FileChange, ...] = ()
    settings: tuple[str, ...] = ()


@dataclass
class ExportTrials:
    """Tries fixes for one way to export."""

    _exporter: Exporter
    _plan: ExportPlan
    _originals: dict[Path, bytes] = field(default_factory=dict)
    _count: int = 0

    def run(self, untouched: Attempt, program: Program) -> Cure:
        """Try fixes until the export succeeds, or no fix helps."""
        cure = Cure(program=program)
        now, applied = untouched, program
        kept: list[Candidate] = []
        while (finding := now.blocker) is not None and len(cure.blockers) < _MAX_BLOCKERS:
            trials = self._try_each(finding, now, applied, len(cure.blockers) + 1)
            best = next(
                (
                    one
                    for verdict in ("verified", "moved")
                    for one in trials
                    if one.verdict == verdict
                ),
                None,
            )
            cure.blockers.append(
                self._blocker(finding, now, applied, trials, number=len(cure.blockers) + 1)
            )
            if best is None:
                break
            kept.append(best.proposal)
            applied = with_fixes(applied, (best.proposal,))
            now = best.attempt
        if now.status != "exported" or not kept:
            return cure
        cure.blockers = [self._settled(*pair) for pair in zip(cure.blockers, kept, strict=True)]
        cure.program, cure.attempt = applied, now
        cure.changes = tuple(
            FileChange(path, self._originals[path], text) for path, text in applied.content.items()
        )
        cure.settings = tuple(
            dict.fromkeys(one.snippet for one in kept if not one.edits and one.snippet)
        )
        return cure

    def described(self, attempt: Attempt) -> ExportBlocker | None:
        """What blocks an export, without trials; None if torch named nothing."""
        finding = attempt.blocker
        return None if finding is None else self._blocker(finding, attempt, Program(), (), number=1)

    def diff(self, cure: Cure) -> str:
        """The edits of a cure as one unified diff."""
        return "".join(diff_text(change, self._exporter.root) for change in cure.changes)

    def _try_each(
        self, finding: Finding, now: Attempt, program: Program, number: int
    ) -> list[_Trial]:
        proposals = self._proposals(finding, now, program)[: max(_MAX_TRIALS - self._count, 0)]
        name = f"{'strict' if self._plan.is_strict else 'non-strict'}-{number}"
        self._count += len(proposals)
        found: list[_Trial] = []
        for first in range(0, len(proposals), self._exporter.jobs):
            wave = list(enumerate(proposals, start=1))[first : first + self._exporter.jobs]
            self._exporter.on_phase(
                f"trying fixes for {finding.location.shown}, trial {wave[-1][0]} of {len(proposals)}"
            )

            for _, proposal in wave:
                self._exporter.reference(with_fixes(program, (proposal,)).change)

            def run(numbered: tuple[int, Candidate]) -> _Trial:
                at, proposal = numbered
                edited = with_fixes(program, (proposal,))
                reference = self._exporter.reference(edited.change)
                attempt = self._exporter.attempt(edited, self._plan, f"{name}-fix-{at}", reference)
                return _Trial(proposal, attempt, *self._judged(finding, attempt, edited))

            found += self._exporter.replays.in_parallel(run, wave, jobs=self._exporter.jobs)
            if any(one.verdict == "verified" for one in found):
                break
        return found

    def _proposals(self, finding: Finding, now: Attempt, program: Program) -> list[Candidate]:
        """What can be tried for a blocker: whatever removes it, but nothing that only contains a
        break.
        """
        sources = Sources(program, self._exporter.root, self._originals)
        options = options_for(now.observed, sources, Selection())
        edits = [
            one
            for found in options
            if found.finding.fingerprint == finding.fingerprint
            for one in found.fixes
        ]
        calls = [
            Candidate(
                **values_of(fix, "title", "kind", "is_safe", "snippet", "place"),
                targets=(finding.fingerprint,),
                change=RunChange(setup=(fix.snippet,)),
            )
            for fix in finding.fixes
            if fix.snippet is not None
            and fix.place is not None
            and fix.place.function == "torch.export.export"
        ]
        # Settings are of torch.compile: export has its own. And it takes the function as a whole.
        found = [
            one
            for one in (*edits, *calls)
            if not one.contains
            and one.kind != "config"
            and not any(splits(edit.before, edit.after) for edit in one.edits)
        ]
        return found or self._snippets(finding, sources)

    @staticmethod
    def _snippets(finding: Finding, sources: Sources) -> list[Candidate]:
        if finding.location.origin != "user":
            return []
        try:
            source = sources.file_of(finding)
        except DeclinedError:
            return []
        return [
            Candidate(
                title=fix.title,
                kind="code",
                is_safe=False,
                targets=(finding.fingerprint,),
                edits=(edit,),
            )
            for fix in finding.fixes
            if (edit := written(fix, source)) is not None
        ]

    def _blocker(
        self,
        finding: Finding,
        now: Attempt,
        program: Program,
        trials: Sequence[_Trial],
        *,
        number: int,
    ) -> ExportBlocker:
        failure = now.export.failure if now.export is not None else None
        tried = tuple(self._tried(finding, one, program, number) for one in trials)
        # That it raised is what this is about, and settings are torch.compile's.
        fixes = (fix for fix in fixes_with(finding, tried, None) if fix.setting is None)
        shown = replace(finding, fixes=tuple(fixes), break_effects=(), compile_ids=())
        return ExportBlocker(
            finding=self._original(shown, program),
            type="" if failure is None else failure.type,
            message="" if failure is None else failure.message,
            tried=tried,
            is_behind=number > 1,
        )

    def _tried(self, finding: Finding, one: _Trial, program: Program, number: int) -> TriedFix:
        return one.proposal.tried(
            finding,
            self._exporter.root,
            finding_place=self._original(finding, program).location.shown,
            round=number,
            is_on_untouched=number == 1,
            verdict=one.verdict,
            reasons=one.reasons,
            recording=one.attempt.observed.name,
        )

    def _original(self, finding: Finding, program: Program) -> Finding:
        """A finding of an edited program at the line that it has in the file on disk."""
        path = self._exporter.root / finding.location.file
        if path not in program.content:
            return finding
        line = LineMap(self._originals[path], program.content[path]).to_before(
            finding.location.line
        )
        return replace(finding, location=replace(finding.location, line=line))

    def _judged(
        self, finding: Finding, attempt: Attempt, program: Program
    ) -> tuple[Verdict, tuple[Reason, ...]]:
        left = attempt.blocker
        if left is None:
            said = attempt.reason
            reasons = () if said is None else (because("message", said),)
            return _VERDICTS[attempt.status], reasons
        if left.fingerprint == finding.fingerprint:
            return "no effect", (because("stops_there"),)
        place = self._original(left, program).location.shown
        return "moved", (because("stops_at", place),)

    @staticmethod
    def _settled(blocker: ExportBlocker, kept: Candidate) -> ExportBlocker:
        """A blocker once the export succeeds: what was kept on the way is verified too."""
        tried = tuple(
            replace(fix, verdict="verified", reasons=())
            if fix.verdict == "moved" and fix.title == kept.title
            else fix
            for fix in blocker.tried
        )
        fixes = fixes_with(blocker.finding, tried, None)
        return replace(blocker, tried=tried, finding=replace(blocker.finding, fixes=fixes))


def written(fix: Fix, source: SourceFile) -> FileChange | None:
    """A suggestion as an edit; None if it has no code for a statement, or the statement shares its
    lines.
    """
    place = fix.place
    if (
        fix.snippet is None
        or place is None
        or place.line is None
        or place.where not in ("before", "instead")
    ):
        return None
    statement = source.statement_at(place.line)
    if statement is None or (
        isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1
    ):
        return None
    at = source.position(statement)
    if (at.start.line, at.end.line) != (place.line, place.end_line):
        return None
    try:
        added = list(cst.parse_module(fix.snippet).body)
        kept = [statement.deep_clone()] if place.where == "before" else []
        return FileChange(
            source.path, source.content, source.replaced((statement, [*added, *kept]))
        )
    except (cst.ParserSyntaxError, UnicodeEncodeError):
        return None
