"""Keeps what was tried, what must not be tried again, and why findings are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from graphdoctor.fixes.patch import unified
from graphdoctor.fixes.proposals import TREATED, Options, Proposal
from graphdoctor.fixes.replays import Program
from graphdoctor.fixes.trials import State, Trials
from graphdoctor.fixes.verdicts import Judgement, Seen
from graphdoctor.model.diagnosis import Diagnosis, Finding, Location
from graphdoctor.model.fixes import LeftFinding, PairedTime, TriedFix
from graphdoctor.rules.diagnose import relative

_NO_FIX = "no fix is known for it"
_UNSAFE = "it is unsafe: --unsafe-fixes tries it"


class Casebook:
    """The notes of one treatment.

    Args:
        trials: Knows files and root.
    """

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._tried: list[TriedFix] = []
        self._settled: set[tuple[str, str]] = set()
        self._repeated: set[tuple[str, str]] = set()
        self._reasons: dict[str, str] = {}
        self._declined: dict[str, str] = {}

    @property
    def tried(self) -> tuple[TriedFix, ...]:
        """Every fix that was tried or left out, in order."""
        return tuple(self._tried)

    def open(self, options: Options, state: State, number: int, *, is_unsafe_tried: bool) -> tuple[Proposal, ...]:
        """What is still to be tried for a finding; what is not wanted is noted once."""
        finding = options.finding
        for reason in options.declined[:1]:
            self._declined[finding.fingerprint] = reason
        found = []
        for proposal in options.proposals:
            mark = (finding.fingerprint, proposal.title)
            if mark in self._settled:
                continue
            if proposal.is_safe or is_unsafe_tried:
                found.append(proposal)
            else:
                self._settled.add(mark)
                self.note_untried(finding, proposal, state, number, _UNSAFE)
        return tuple(found)

    def note_untried(self, finding: Finding, proposal: Proposal, state: State, number: int, reason: str) -> None:
        """Note a fix that was not tried, and why."""
        self._reasons[finding.fingerprint] = f"`{proposal.title}` was not tried: {reason}"
        self._tried.append(self._case(finding, proposal, state, number).model_copy(update={"reason": reason}))

    def note(
        self, finding: Finding, proposal: Proposal, state: State, number: int, *, judged: Judgement, after: Seen
    ) -> None:
        """Note a fix that was tried."""
        self._settled.add((finding.fingerprint, proposal.title))
        because = f", {judged.reason}" if judged.reason else ""
        self._reasons[finding.fingerprint] = f"`{proposal.title}`: {judged.verdict}{because}"
        replay = after.recording.replay
        self._tried.append(
            self._case(finding, proposal, state, number).model_copy(
                update={
                    "verdict": judged.verdict,
                    "reason": judged.reason,
                    "before": state.seen.measures,
                    "after": after.measures if after.recording.exit.reason == "finished" else None,
                    "sites_gone": judged.gone,
                    "sites_new": judged.new,
                    "recording": after.name,
                    "compared": replay.compared.get("eager") if replay else None,
                }
            )
        )

    def _case(self, finding: Finding, proposal: Proposal, state: State, number: int) -> TriedFix:
        return TriedFix(
            title=proposal.title,
            kind=proposal.kind,
            snippet=proposal.snippet,
            diff=self._diff(state.program, proposal) or None,
            is_safe=proposal.is_safe,
            code=finding.code,
            fingerprint=finding.fingerprint,
            place=place_of(finding.location),
            round=number,
            is_on_untouched=not state.applied,
            verdict="not tried",
        )

    def _diff(self, before: Program, proposal: Proposal) -> str:
        root = self._trials.root
        return "".join(
            diff_text(self._trials.content(before, path), content, path, root)
            for path, content in proposal.content.items()
        )

    def apply(self, proposals: Sequence[Proposal], number: int) -> None:
        """Note that fixes are in the set; what did not help or fit beside them may be tried once more."""
        for position, case in enumerate(self._tried):
            if case.round != number:
                continue
            is_in = any(_is_of(case, proposal) for proposal in proposals)
            if case.verdict == "verified" and is_in:
                self._tried[position] = case.model_copy(update={"is_applied": True})
            elif case.verdict in ("verified", "no effect"):
                mark = (case.fingerprint, case.title)
                if mark not in self._repeated:
                    self._settled.discard(mark)
                    self._repeated.add(mark)

    def take_back(self, proposals: Sequence[Proposal], reason: str, *, is_final: bool) -> None:
        """Note that fixes left the set again.

        Args:
            proposals: The fixes.
            reason: Why, a clause.
            is_final: They are to blame; else they may be tried again.
        """
        for position, case in enumerate(self._tried):
            if not case.is_applied or not any(_is_of(case, proposal) for proposal in proposals):
                continue
            if is_final:
                update = {"is_applied": False, "verdict": "no effect", "reason": reason}
                self._reasons[case.fingerprint] = f"`{case.title}`: no effect, {reason}"
            else:
                update = {"is_applied": False}
                self._settled.discard((case.fingerprint, case.title))
            self._tried[position] = case.model_copy(update=update)

    def add_times(self, proposal: Proposal, times: tuple[PairedTime, ...]) -> None:
        """Note the times of a fix of the set."""
        for position, case in enumerate(self._tried):
            if case.is_applied and _is_of(case, proposal):
                self._tried[position] = case.model_copy(update={"times": times})

    def left(self, diagnosis: Diagnosis) -> Iterator[LeftFinding]:
        """Findings that are still there, with the reason."""
        for finding in diagnosis.findings:
            if finding.code.startswith(TREATED):
                yield LeftFinding(
                    code=finding.code,
                    place=place_of(finding.location),
                    message=finding.message,
                    reason=self._reason(finding.fingerprint),
                )

    def _reason(self, fingerprint: str) -> str:
        declined, tried = self._declined.get(fingerprint), self._reasons.get(fingerprint)
        told = [f"no edit: {declined}"] if declined else []
        return "; ".join([*told, *([tried] if tried else [])]) or _NO_FIX


def _is_of(case: TriedFix, proposal: Proposal) -> bool:
    return case.title == proposal.title and case.fingerprint in proposal.targets


def place_of(location: Location) -> str:
    """``file:line``, a package's file from the package on."""
    file = location.file.replace("\\", "/")
    if location.package and f"/{location.package}/" in file:
        file = f"{location.package}/{file.rpartition(f'/{location.package}/')[2]}"
    return f"{file}:{location.line}"


def diff_text(before: bytes, after: bytes, path: Path, root: Path) -> str:
    """An edit for people and JSON, which cannot hold bytes that are no text."""
    return unified(before, after, relative(str(path), root)).encode("utf-8", "replace").decode()
