"""Keeps what was tried; knows what not to try again and why findings remain."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    WORKING,
    ColdCompile,
    LeftFinding,
    PairedTime,
    TriedFix,
    UntriedCause,
    Verdict,
    because,
)
from graphdoctor.fixes.options import treated_findings
from graphdoctor.fixes.patch import Candidate, Options
from graphdoctor.fixes.trials import State, Trials
from graphdoctor.fixes.verdicts import SKIPPED_FRAME, Judgment, Reasons, SiteChange
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.judge import Observed
from graphdoctor.trials.program import Program

_APPLICABLE = WORKING | {"moved"}
"""Verdicts on fixes that more fixes can build on."""

_REPEATABLE = _APPLICABLE | {"no effect"}
"""Verdicts on fixes that may do better beside other fixes."""

_Place = tuple[str, int]
"""A finding's fingerprint and its line in the untouched program. The fingerprint alone isn't
enough: once a fix removes the first of two equal lines, the second has its fingerprint."""

_Mark = tuple[_Place, str]
"""A finding and the title of a fix for it."""


@dataclass
class _Entry:
    tried: TriedFix
    fix: Candidate
    place: _Place
    instead: tuple[str, ...] = ()

    @property
    def mark(self) -> _Mark:
        return self.place, self.fix.title

    def update(self, **fields: object) -> None:
        self.tried = self.tried.replace(**fields)


class TrialLog:
    """The trials of one treatment."""

    def __init__(self, trials: Trials, selection: Selection) -> None:
        self._trials = trials
        self._selection = selection
        self._entries: list[_Entry] = []
        self._settled: set[_Mark] = set()
        self._repeated: set[_Mark] = set()
        self._declined: dict[_Place, str] = {}
        self.declined: dict[str, str] = {}

    @property
    def tried(self) -> tuple[TriedFix, ...]:
        """Every fix that was tried or left out, in order."""
        return tuple(entry.tried for entry in self._entries)

    @property
    def _applied(self) -> list[_Entry]:
        return [entry for entry in self._entries if entry.tried.is_applied]

    def open(
        self, options: Options, state: State, number: int, *, is_unsafe_tried: bool
    ) -> list[Candidate]:
        """List what is still to be tried for a finding; an unsafe fix that isn't wanted is noted
        once.
        """
        finding = options.finding
        place = self._place(finding, state.program)
        for reason in options.declined[:1]:
            self._declined[place] = reason
            if not state.applied and not any(fix.edits for fix in options.fixes):
                self.declined.setdefault(finding.fingerprint, reason)
        fixes = []
        for fix in options.fixes:
            if (place, fix.title) in self._settled:
                continue
            if fix.is_safe or is_unsafe_tried:
                fixes.append(fix)
            else:
                self._settled.add((place, fix.title))
                self.note_untried(finding, fix, state, number, "unsafe")
        return fixes

    def note_untried(
        self, finding: Finding, fix: Candidate, state: State, number: int, cause: UntriedCause
    ) -> None:
        """Note a fix that wasn't tried, and why."""
        self._add(finding, fix, state, number).update(untried_cause=cause)

    def note(
        self,
        finding: Finding,
        fix: Candidate,
        state: State,
        number: int,
        *,
        judged: Judgment,
        after: Observed,
        cold_compile: ColdCompile | None = None,
    ) -> None:
        """Note a fix that was tried."""
        entry = self._add(finding, fix, state, number)
        entry.instead = judged.instead
        entry.update(
            verdict=judged.verdict,
            reasons=judged.reasons,
            before=state.observed.measures,
            after=after.measures if after.is_finished else None,
            sites_gone=judged.gone,
            sites_new=judged.new,
            recording=after.name,
            backend=cold_compile.backend if cold_compile else self._trials.trial_backend,
            cold_compile=cold_compile,
            compared=after.compared,
            attacked=after.attacked,
        )
        self._settled.add(entry.mark)

    def _add(self, finding: Finding, fix: Candidate, state: State, number: int) -> _Entry:
        tried = fix.tried(
            finding,
            self._trials.root,
            place=fix.place and self._trials.original_place(state.program, fix.place),
            setting=next(iter(fix.change.settings), None) if fix.kind == "config" else None,
            finding_place=self.shown_place(finding, state.program),
            round=number,
            is_on_untouched=not state.applied,
        )
        self._entries.append(_Entry(tried, fix, self._place(finding, state.program)))
        return self._entries[-1]

    def _place(self, finding: Finding, program: Program) -> _Place:
        return finding.fingerprint, self._trials.original_line(program, finding.location)

    def shown_place(self, finding: Finding, program: Program) -> str:
        """Show the line in the file on disk, whatever edits the program has."""
        line = self._trials.original_line(program, finding.location)
        return f"{finding.location.shown_file}:{line}"

    def apply(self, fixes: Sequence[Candidate], number: int) -> None:
        """Note that fixes were applied; those of the round that weren't may be tried beside them.

        If they didn't work, once.
        """
        for entry in self._entries:
            if entry.tried.round != number:
                continue
            is_applicable = entry.tried.verdict in _APPLICABLE
            is_new = entry.tried.verdict in _REPEATABLE and entry.mark not in self._repeated
            if is_applicable and entry.fix in fixes:
                entry.update(is_applied=True)
            elif is_applicable or is_new:
                self._settled.discard(entry.mark)
                self._repeated.add(entry.mark)

    def measures_with(self, fix: Candidate) -> Counts | None:
        """Find what the trial of a fix alone counted; None if it wasn't tried."""
        return next((entry.tried.after for entry in self._entries if entry.fix is fix), None)

    def settle_moved(self, state: State) -> None:
        """Call applied fixes verified that moved a break which other fixes removed since."""
        left = _fingerprints(state)
        for entry in self._applied:
            if entry.tried.verdict == "moved" and left.isdisjoint(entry.instead):
                until = because("until_others", *entry.tried.reasons)
                entry.update(verdict="verified", reasons=(until,))

    def has_moved_break(self, state: State) -> bool:
        """Tell if a program has a break that one of its fixes only moved there."""
        left, fixes = _fingerprints(state), state.fixes
        return any(
            entry.fix in fixes and left.intersection(entry.instead) for entry in self._entries
        )

    def reopen_untimed(self) -> bool:
        """Let fixes be tried once more that contain a break, and whose calls weren't timed; whether
        there are any.
        """
        marks = {
            entry.mark
            for entry in self._entries
            for reason in entry.tried.reasons
            if any(part.kind == "call_untimed" for part in reason.parts)
        }
        self._settled -= marks
        return bool(marks)

    def broken_again(self, fix: Candidate, sites: SiteChange) -> list[Finding]:
        """List what an applied fix's calls break for now; empty unless each of them does so for
        another reason.
        """
        fingerprints = {
            entry.tried.fingerprint
            for entry in self._applied
            if entry.fix is fix and entry.tried.is_on_untouched
        }
        broken = [
            sites.at_same_call(target)
            for target in sites.before.values()
            if target.fingerprint in fingerprints
        ]
        return list(itertools.chain.from_iterable(broken)) if all(broken) else []

    def is_doubled(self, fix: Candidate) -> bool:
        """Tell if another applied fix removed a break by itself that this one removed."""
        mine, others = set[str](), set[str]()
        for entry in self._applied:
            (mine if entry.fix is fix else others).update(entry.tried.sites_gone)
        return not mine.isdisjoint(others)

    def is_step(self, fix: Candidate) -> bool:
        """Tell if a fix is only good together with later ones."""
        return any(entry.instead and entry.fix is fix for entry in self._entries)

    def is_unresolved(self, finding: Finding) -> bool:
        """Tell if the fixes applied for a finding of the untouched program contain or move its
        break.
        """
        place = (finding.fingerprint, finding.location.line)
        verdicts = [entry.tried.verdict for entry in self._applied if entry.place == place]
        return bool(verdicts) and "verified" not in verdicts

    def take_back(
        self,
        fixes: Sequence[Candidate],
        verdict: Verdict | None = None,
        reasons: Reasons = (),
        *,
        backend: str | None = None,
    ) -> None:
        """Note that fixes are no longer applied; without a verdict, they may be tried again."""
        for entry in self._applied:
            if entry.fix not in fixes:
                continue
            entry.update(is_applied=False)
            if verdict is None:
                self._settled.discard(entry.mark)
            elif entry.tried.verdict != verdict:
                entry.update(
                    verdict=verdict, reasons=reasons, backend=backend or entry.tried.backend
                )

    def doubt_unapplied(self, backend: str) -> None:
        """Note that fixes which worked in their trials, but aren't applied, were never run under
        the user's backend.
        """
        applied = {entry.mark for entry in self._applied}
        for entry in self._entries:
            if entry.mark not in applied and entry.tried.verdict in WORKING:
                reason = because("runs_elsewhere", entry.tried.backend or "", backend)
                entry.update(verdict="unproven", reasons=(reason,))

    def add_times(self, fix: Candidate, times: tuple[PairedTime, ...]) -> None:
        """Note the times of an applied fix."""
        for entry in self._applied:
            if entry.fix is fix:
                entry.update(times=times)

    def left(self, state: State) -> Iterator[LeftFinding]:
        """List the findings that a program still has."""
        for finding in treated_findings(state.observed, self._selection):
            yield self.left_finding(finding, state.program)

    def left_finding(self, finding: Finding, program: Program) -> LeftFinding:
        """Say why a program still has a finding."""
        place = self._place(finding, program)
        tried = [entry.tried for entry in self._entries if entry.place == place]
        # A fix that contains the break says more than what didn't help.
        telling = next((fix for fix in tried if fix.is_applied), tried[-1] if tried else None)
        left = LeftFinding(
            code=finding.code,
            place=self.shown_place(finding, program),
            message=finding.message,
            declined=self._declined.get(place),
        )
        return (
            left
            if telling is None
            else left.replace(
                title=telling.title,
                verdict=telling.verdict,
                untried_cause=telling.untried_cause,
                reasons=telling.reasons,
            )
        )

    def gone(self, untouched: State, best: State, findings: Sequence[Finding]) -> tuple[str, ...]:
        """List fingerprints of findings that the best program no longer has."""
        sites = self._trials.sites(untouched, best)
        left = best.observed.diagnosis.findings
        skipped = {name for finding in left for name in finding.effects.skipped_frames}
        rest = list(findings)
        for finding in left:
            line = self._trials.original_line(best.program, finding.location)
            same = [
                other
                for other in rest
                if other.fingerprint == finding.fingerprint or _cause(other) == _cause(finding)
            ]
            if same:
                # Of equal lines, the one that is still there; the fingerprint says only which of
                # them comes first.
                by_distance = {
                    (
                        abs(other.location.line - line),
                        other.fingerprint != finding.fingerprint,
                    ): other
                    for other in same
                }
                rest.remove(by_distance[min(by_distance)])
        return tuple(
            finding.fingerprint
            for finding in rest
            if not (sites.replacements(finding) or self.is_unresolved(finding))
            and (
                finding.code != SKIPPED_FRAME or skipped.isdisjoint(finding.effects.skipped_frames)
            )
        )


def _fingerprints(state: State) -> set[str]:
    return {finding.fingerprint for finding in state.observed.diagnosis.findings}


def _cause(finding: Finding) -> tuple[str, str, str, str | None, str | None]:
    place = finding.location
    return finding.code, place.file, place.function, place.text, finding.torch_id
