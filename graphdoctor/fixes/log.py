"""Keeps what was tried and says it as soon as it is known; knows what not to try again and why
findings remain.
"""

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
)
from graphdoctor.fixes.options import treated_findings
from graphdoctor.fixes.patch import Candidate, Options
from graphdoctor.fixes.trials import State, Trials
from graphdoctor.fixes.verdicts import SKIPPED_FRAME, Judgment, SiteChange
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.judge import Observed, attacked_in, compared_with_eager
from graphdoctor.trials.program import Program

_NO_FIX = "no fix is known"
_UNTRIED: dict[UntriedCause, str] = {
    "unsafe": "it's unsafe; --unsafe-fixes tries it",
    "unfinished_run": "the run didn't finish",
    "not_requested": "trials are off",
    "not_repeatable": "the run couldn't be repeated",
}
"""Why a fix wasn't tried, in words."""

_APPLICABLE = WORKING | {"moved"}
"""Verdicts on fixes that more fixes can build on."""

_REPEATABLE = WORKING | {"no effect", "moved"}
"""Verdicts on fixes that may do better beside other fixes."""

_Place = tuple[str, int]
"""A finding's fingerprint and its line in the untouched program. The fingerprint alone isn't
enough: once a fix removes the first of two equal lines, the second has its fingerprint."""


@dataclass
class _Entry:
    tried: TriedFix
    fix: Candidate
    place: _Place
    instead: tuple[str, ...] = ()

    @property
    def mark(self) -> tuple[_Place, str]:
        return self.place, self.fix.title

    def update(self, **more: object) -> None:
        self.tried = self.tried.replace(**more)


class TrialLog:
    """The trials of one treatment."""

    def __init__(self, trials: Trials, selection: Selection) -> None:
        self._trials = trials
        self._selection = selection
        self._entries: list[_Entry] = []
        self._settled: set[tuple[_Place, str]] = set()
        self._repeated: set[tuple[_Place, str]] = set()
        self._declined: dict[_Place, str] = {}
        self.declined: dict[str, str] = {}

    @property
    def tried(self) -> tuple[TriedFix, ...]:
        """Every fix that was tried or left out, in order."""
        return tuple(entry.tried for entry in self._entries)

    def open(
        self, options: Options, state: State, number: int, *, is_unsafe_tried: bool
    ) -> tuple[Candidate, ...]:
        """What is still to be tried for a finding; an unsafe fix that isn't wanted is noted
        once.
        """
        finding = options.finding
        place = self._place(finding, state.program)
        for reason in options.declined[:1]:
            self._declined[place] = reason
            if not state.applied and not any(fix.edits for fix in options.fixes):
                self.declined.setdefault(finding.fingerprint, reason)
        found = []
        for fix in options.fixes:
            mark = (place, fix.title)
            if mark in self._settled:
                continue
            if fix.is_safe or is_unsafe_tried:
                found.append(fix)
            else:
                self._settled.add(mark)
                self.note_untried(finding, fix, state, number, "unsafe")
        return tuple(found)

    def note_untried(
        self, finding: Finding, fix: Candidate, state: State, number: int, cause: UntriedCause
    ) -> None:
        """Note a fix that wasn't tried, and why."""
        self._add(finding, fix, state, number).update(untried_cause=cause, reason=_UNTRIED[cause])

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
            reason=judged.reason,
            before=state.observed.measures,
            after=after.measures if after.recording.exit.reason == "finished" else None,
            sites_gone=judged.gone,
            sites_new=judged.new,
            recording=after.name,
            backend=self._trials.trial_backend if cold_compile is None else cold_compile.backend,
            cold_compile=cold_compile,
            compared=compared_with_eager(after.recording),
            attacked=attacked_in(after.recording),
        )
        self._settled.add(entry.mark)

    def _add(self, finding: Finding, fix: Candidate, state: State, number: int) -> _Entry:
        told = fix.tried(
            finding,
            self._trials.root,
            snippet_place=fix.place and self._trials.original_place(state.program, fix.place),
            setting=next(iter(fix.change.settings), None) if fix.kind == "config" else None,
            place=self.shown_place(finding, state.program),
            round=number,
            is_on_untouched=not state.applied,
            verdict="not tried",
        )
        self._entries.append(_Entry(told, fix, self._place(finding, state.program)))
        return self._entries[-1]

    def _place(self, finding: Finding, program: Program) -> _Place:
        return finding.fingerprint, self._trials.original_line(program, finding.location)

    def shown_place(self, finding: Finding, program: Program) -> str:
        """The line in the file on disk, whatever edits the program has."""
        return (
            f"{finding.location.shown_file}:{self._trials.original_line(program, finding.location)}"
        )

    def apply(self, fixes: Sequence[Candidate], number: int) -> None:
        """Note that fixes were applied; those of the round that weren't may be tried beside them.

        If they didn't work, once.
        """
        for entry in (entry for entry in self._entries if entry.tried.round == number):
            if entry.tried.verdict in _APPLICABLE and entry.fix in fixes:
                entry.update(is_applied=True)
            elif entry.tried.verdict in _APPLICABLE or (
                entry.tried.verdict in _REPEATABLE and entry.mark not in self._repeated
            ):
                self._settled.discard(entry.mark)
                self._repeated.add(entry.mark)

    def measures_with(self, fix: Candidate) -> Counts | None:
        """What the trial of a fix alone counted; None if it wasn't tried."""
        return next((entry.tried.after for entry in self._entries if entry.fix is fix), None)

    def settle_moved(self, state: State) -> None:
        """Note which applied fixes that moved a break are good after all: other fixes removed the
        new one.
        """
        left = {finding.fingerprint for finding in state.observed.diagnosis.findings}
        for entry in self._entries:
            if (
                entry.tried.is_applied
                and entry.tried.verdict == "moved"
                and not left.intersection(entry.instead)
            ):
                entry.update(
                    verdict="verified",
                    reason=f"{entry.tried.reason}, until other fixes are applied too",
                )

    def has_moved_break(self, state: State) -> bool:
        """Whether a program has a break that one of its fixes only moved there."""
        left = {finding.fingerprint for finding in state.observed.diagnosis.findings}
        applied = [fix for fix, _ in state.applied]
        return any(
            entry.fix in applied and left.intersection(entry.instead) for entry in self._entries
        )

    def reopen(self, ending: str) -> bool:
        """Let fixes whose reason ends so be tried once more; whether there are any."""
        found = {
            entry.mark for entry in self._entries if (entry.tried.reason or "").endswith(ending)
        }
        self._settled -= found
        return bool(found)

    def broken_again(self, fix: Candidate, sites: SiteChange) -> list[Finding]:
        """What an applied fix's calls break for now; empty unless each of them does so for another
        reason.
        """
        names = {
            entry.tried.fingerprint
            for entry in self._entries
            if entry.fix is fix and entry.tried.is_applied and entry.tried.is_on_untouched
        }
        found = [
            sites.at_same_call(target)
            for target in sites.before.values()
            if target.fingerprint in names
        ]
        return list(itertools.chain.from_iterable(found)) if all(found) else []

    def is_doubled(self, fix: Candidate) -> bool:
        """Whether another applied fix removed a break by itself that this one removed."""
        applied = [entry for entry in self._entries if entry.tried.is_applied]
        mine, others = (
            {
                site
                for entry in applied
                if (entry.fix is fix) is is_mine
                for site in entry.tried.sites_gone
            }
            for is_mine in (True, False)
        )
        return not mine.isdisjoint(others)

    def is_step(self, fix: Candidate) -> bool:
        """Whether a fix is only good together with later ones."""
        return any(entry.instead and entry.fix is fix for entry in self._entries)

    def is_unresolved(self, finding: Finding) -> bool:
        """Whether the fixes that are applied for a finding of the untouched program contain or move
        its break.
        """
        place = (finding.fingerprint, finding.location.line)
        applied = [
            entry.tried.verdict
            for entry in self._entries
            if entry.place == place and entry.tried.is_applied
        ]
        return bool(applied) and "verified" not in applied

    def take_back(
        self,
        fixes: Sequence[Candidate],
        verdict: Verdict | None = None,
        reason: str = "",
        *,
        backend: str | None = None,
    ) -> None:
        """Note that fixes are no longer applied."""
        for entry in self._entries:
            if not entry.tried.is_applied or entry.fix not in fixes:
                continue
            entry.update(is_applied=False)
            if verdict is None:
                self._settled.discard(entry.mark)
            elif entry.tried.verdict != verdict:
                entry.update(verdict=verdict, reason=reason, backend=backend or entry.tried.backend)

    def doubt_unapplied(self, backend: str) -> None:
        """Note that fixes which worked in their trials, but aren't applied, were never run under
        the user's backend.
        """
        applied = {entry.mark for entry in self._entries if entry.tried.is_applied}
        for entry in self._entries:
            if entry.mark not in applied and entry.tried.verdict in WORKING:
                reason = f"it works under {entry.tried.backend}, but wasn't run under {backend}"
                entry.update(verdict="unproven", reason=reason)

    def add_times(self, fix: Candidate, times: tuple[PairedTime, ...]) -> None:
        """Note the times of an applied fix."""
        for entry in self._entries:
            if entry.tried.is_applied and entry.fix is fix:
                entry.update(times=times)

    def left(self, state: State) -> Iterator[LeftFinding]:
        """The findings that a program still has, each with the reason."""
        for finding in treated_findings(state.observed, self._selection):
            yield self.left_finding(finding, state.program)

    def left_finding(self, finding: Finding, program: Program) -> LeftFinding:
        """A finding that a program still has, with the reason."""
        return LeftFinding(
            code=finding.code,
            place=self.shown_place(finding, program),
            message=finding.message,
            reason=self._reason(self._place(finding, program)),
        )

    def _reason(self, place: _Place) -> str:
        declined = self._declined.get(place)
        tried = [entry.tried for entry in self._entries if entry.place == place]
        # A fix that contains the break says more than what didn't help.
        telling = next((fix for fix in tried if fix.is_applied), tried[-1] if tried else None)
        parts = [f"no edit: {declined}"] if declined else []
        return "; ".join([*parts, *([_outcome(telling)] if telling else [])]) or _NO_FIX


def _outcome(fix: TriedFix) -> str:
    if fix.untried_cause is not None:
        return f'"{fix.title}" wasn\'t tried: {fix.reason}'
    because = f", {fix.reason}" if fix.reason else ""
    return f'"{fix.title}": {fix.verdict}{because}'


def gone(
    trials: Trials, log: TrialLog, untouched: State, best: State, findings: Sequence[Finding]
) -> tuple[str, ...]:
    """Fingerprints of findings that the best program no longer has."""
    sites = trials.sites(untouched, best)
    skipped = {
        name for found in best.observed.diagnosis.findings for name in found.effects.skipped_frames
    }
    rest = list(findings)
    for finding in best.observed.diagnosis.findings:
        line = trials.original_line(best.program, finding.location)
        same = [
            one
            for one in rest
            if one.fingerprint == finding.fingerprint or _cause(one) == _cause(finding)
        ]
        if same:
            # Of equal lines, the one that is still there; the fingerprint says only which of them
            # comes first.
            by_distance = {
                (abs(one.location.line - line), one.fingerprint != finding.fingerprint): one
                for one in same
            }
            rest.remove(by_distance[min(by_distance)])
    return tuple(
        finding.fingerprint
        for finding in rest
        if not (sites.replacements(finding) or log.is_unresolved(finding))
        and (finding.code != SKIPPED_FRAME or skipped.isdisjoint(finding.effects.skipped_frames))
    )


def _cause(finding: Finding) -> tuple[str, str, str, str | None, str | None]:
    place = finding.location
    return finding.code, place.file, place.function, place.text, finding.torch_id
