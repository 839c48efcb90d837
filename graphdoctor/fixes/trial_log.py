"""Keeps what was tried, what must not be tried again, and why findings are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.diagnosis.selection import Selection
from graphdoctor.fixes.patch import FileChange, unified
from graphdoctor.fixes.proposals import Options, Proposal, treated_findings
from graphdoctor.fixes.trials import State, Trials
from graphdoctor.fixes.verdicts import Judgement, Seen
from graphdoctor.model.diagnosis import Finding
from graphdoctor.model.fixes import UNSAFE, LeftFinding, Measures, PairedTime, TriedFix
from graphdoctor.model.stack import relative

_NO_FIX = "no fix is known for it"

_Place = tuple[str, int]
"""A finding by fingerprint and line of the untouched program: once one of two equal lines is mended, the other has its
fingerprint."""


@dataclass
class _Case:
    """One fix for one finding.

    Args:
        told: What is told of it.
        proposal: The fix.
        place: The finding.
    """

    told: TriedFix
    proposal: Proposal
    place: _Place

    @property
    def mark(self) -> tuple[_Place, str]:
        """What is not tried again."""
        return self.place, self.proposal.title

    def is_of(self, proposals: Sequence[Proposal]) -> bool:
        """It is about one of several fixes."""
        return any(self.proposal is proposal for proposal in proposals)


class TrialLog:
    """The notes of one treatment.

    Args:
        trials: Knows files and root.
        selection: Findings to treat.
    """

    def __init__(self, trials: Trials, selection: Selection) -> None:
        self._trials = trials
        self._selection = selection
        self._cases: list[_Case] = []
        self._settled: set[tuple[_Place, str]] = set()
        self._repeated: set[tuple[_Place, str]] = set()
        self._reasons: dict[_Place, str] = {}
        self._declined: dict[_Place, str] = {}

    @property
    def tried(self) -> tuple[TriedFix, ...]:
        """Every fix that was tried or left out, in order."""
        return tuple(case.told for case in self._cases)

    def open(self, options: Options, state: State, number: int, *, is_unsafe_tried: bool) -> tuple[Proposal, ...]:
        """What is still to be tried for a finding; what is not wanted is noted once."""
        finding = options.finding
        place = self._place(finding, state)
        for reason in options.declined[:1]:
            self._declined[place] = reason
        found = []
        for proposal in options.proposals:
            mark = (place, proposal.title)
            if mark in self._settled:
                continue
            if proposal.is_safe or is_unsafe_tried:
                found.append(proposal)
            else:
                self._settled.add(mark)
                self.note_untried(finding, proposal, state, number, UNSAFE)
        return tuple(found)

    def note_untried(self, finding: Finding, proposal: Proposal, state: State, number: int, reason: str) -> None:
        """Note a fix that was not tried, and why."""
        self._add(finding, proposal, state, number, {"reason": reason})
        self._reasons[self._place(finding, state)] = f'"{proposal.title}" was not tried: {reason}'

    def note(
        self, finding: Finding, proposal: Proposal, state: State, number: int, *, judged: Judgement, after: Seen
    ) -> None:
        """Note a fix that was tried."""
        replay = after.recording.replay
        case = self._add(
            finding,
            proposal,
            state,
            number,
            {
                "verdict": judged.verdict,
                "reason": judged.reason,
                "before": state.seen.measures,
                "after": after.measures if after.recording.exit.reason == "finished" else None,
                "sites_gone": judged.gone,
                "sites_new": judged.new,
                "recording": after.name,
                "compared": replay.compared.get("eager") if replay else None,
            },
        )
        self._settled.add(case.mark)
        self._reasons[case.place] = _words(case.told)

    def _add(self, finding: Finding, proposal: Proposal, state: State, number: int, shown: dict[str, object]) -> _Case:
        told = TriedFix(
            title=proposal.title,
            kind=proposal.kind,
            snippet=proposal.snippet,
            diff=None if proposal.edit is None else diff_text(proposal.edit, self._trials.root) or None,
            is_safe=proposal.is_safe,
            code=finding.code,
            fingerprint=finding.fingerprint,
            place=_place_of(finding),
            round=number,
            is_on_untouched=not state.applied,
            verdict="not tried",
        )
        self._cases.append(_Case(told.model_copy(update=shown), proposal, self._place(finding, state)))
        return self._cases[-1]

    def _place(self, finding: Finding, state: State) -> _Place:
        return finding.fingerprint, self._trials.original_line(state.program, finding.location)

    def apply(self, proposals: Sequence[Proposal], number: int) -> None:
        """Note that fixes are in the set; what did not help or fit beside them may be tried once more."""
        for case in self._cases:
            if case.told.round != number:
                continue
            if case.told.verdict == "verified" and case.is_of(proposals):
                case.told = case.told.model_copy(update={"is_applied": True})
            elif case.told.verdict in ("verified", "no effect") and case.mark not in self._repeated:
                self._settled.discard(case.mark)
                self._repeated.add(case.mark)

    def measures_with(self, proposal: Proposal) -> Measures | None:
        """What the trial of a fix alone counted; None where it was not tried."""
        return next((case.told.after for case in self._cases if case.is_of([proposal])), None)

    def take_back(self, proposals: Sequence[Proposal], reason: str, *, is_final: bool) -> None:
        """Note that fixes left the set again.

        Args:
            proposals: The fixes.
            reason: Why, a clause.
            is_final: They are to blame; else they may be tried again.
        """
        for case in self._cases:
            if not case.told.is_applied or not case.is_of(proposals):
                continue
            update: dict[str, object] = {"is_applied": False}
            if is_final:
                update |= {"verdict": "no effect", "reason": reason}
            else:
                self._settled.discard(case.mark)
            case.told = case.told.model_copy(update=update)
            if is_final:
                self._reasons[case.place] = _words(case.told)

    def add_times(self, proposal: Proposal, times: tuple[PairedTime, ...]) -> None:
        """Note the times of a fix of the set."""
        for case in self._cases:
            if case.told.is_applied and case.is_of([proposal]):
                case.told = case.told.model_copy(update={"times": times})

    def left(self, state: State) -> Iterator[LeftFinding]:
        """Findings that a program still has, with the reason."""
        for finding in treated_findings(state.seen, self._selection):
            yield LeftFinding(
                code=finding.code,
                place=_place_of(finding),
                message=finding.message,
                reason=self._reason(self._place(finding, state)),
            )

    def _reason(self, place: _Place) -> str:
        declined = self._declined.get(place)
        # What bounds the break tells more than what was tried in vain beside it.
        applied = (case.told for case in self._cases if case.place == place and case.told.is_applied)
        tried = next(map(_words, applied), self._reasons.get(place))
        told = [f"no edit: {declined}"] if declined else []
        return "; ".join([*told, *([tried] if tried else [])]) or _NO_FIX


def _words(case: TriedFix) -> str:
    because = f", {case.reason}" if case.reason else ""
    return f'"{case.title}": {case.verdict}{because}'


def _place_of(finding: Finding) -> str:
    return f"{finding.location.shown_file}:{finding.location.line}"


def diff_text(change: FileChange, root: Path) -> str:
    """An edit for people and JSON, which cannot hold bytes that are no text."""
    text = unified(change.before, change.after, relative(str(change.path), root))
    return text.encode("utf-8", "replace").decode()
