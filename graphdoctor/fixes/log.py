"""Keeps what was tried; knows what not to try again and why findings remain."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    LOSSY,
    VERIFIED,
    WORKING,
    LeftFinding,
    TriedFix,
    UntriedCause,
    Verdict,
    because,
)
from graphdoctor.facts.stack import parsed
from graphdoctor.fixes.patch import Candidate, Options
from graphdoctor.fixes.trials import State, Trial, Trials
from graphdoctor.fixes.verdicts import (
    BREAK,
    SKIPPED_FRAME,
    Judgment,
    ProgramChange,
    Reasons,
    innermost_function,
    is_still_there,
)
from graphdoctor.trials.program import Program

_APPLICABLE = WORKING | {"moved"}
"""Verdicts on fixes that more fixes can build on."""

_REPEATABLE = _APPLICABLE | {"no effect"}
"""Verdicts on fixes that may do better once the functions around the finding have changed."""

_Place = tuple[str, int]
"""A finding's fingerprint and its line in the untouched program. The fingerprint alone isn't
enough: once a fix removes the first of two equal lines, the second has its fingerprint."""


@dataclass(eq=False)
class _Entry:
    """A fix for one finding, and what became of it."""

    tried: TriedFix
    fix: Candidate
    place: _Place
    around: int
    """Hash of the functions that lead to the finding, as the program had them."""
    instead: tuple[str, ...] = ()
    is_settled: bool = False
    """Whether it isn't to be tried again, at least not on the same functions."""

    @property
    def mark(self) -> tuple[_Place, str]:
        return self.place, self.fix.title

    def update(self, **fields: object) -> None:
        self.tried = self.tried.replace(**fields)


class TrialLog:
    """The trials of one treatment."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._entries: list[_Entry] = []
        self._declined: dict[_Place, str] = {}
        self.declined: dict[str, str] = {}

    def open(
        self, options: Options, state: State, number: int, *, is_unsafe_tried: bool
    ) -> list[Candidate]:
        """List what is still to be tried for a finding; an unsafe fix that isn't to be tried is
        noted once.
        """
        finding = options.finding
        place = self._place(finding, state.program)
        for reason in options.declined[:1]:
            self._declined[place] = reason
            if not state.applied and not any(fix.edits for fix in options.fixes):
                self.declined.setdefault(finding.fingerprint, reason)
        around = self._around(finding, state.program)
        settled = {
            entry.mark
            for entry in self._entries
            if entry.is_settled
            and (entry.around == around or entry.tried.verdict not in _REPEATABLE)
        }
        fixes = [fix for fix in options.fixes if (place, fix.title) not in settled]
        for fix in fixes:
            if not fix.is_safe and not is_unsafe_tried:
                self.note_untried(finding, fix, state, number, "unsafe")
        return [fix for fix in fixes if fix.is_safe or is_unsafe_tried]

    def _around(self, finding: Finding, program: Program) -> int:
        """Hash the functions that lead to a finding: in one that changed, a fix may do better."""
        entries = finding.user_stack or (finding.location,)
        places = ((self._trials.root / entry.file, entry.line) for entry in entries)
        return hash(
            tuple(
                _function_at(program.content.get(path, self._trials.originals.get(path)), line)
                for path, line in places
            )
        )

    def note_untried(
        self, finding: Finding, fix: Candidate, state: State, number: int, cause: UntriedCause
    ) -> None:
        """Note a fix that wasn't tried, and why."""
        entry = self._add(finding, fix, state, number)
        entry.update(untried_cause=cause)
        entry.is_settled = True

    def note(
        self, finding: Finding, fix: Candidate, trial: Trial, number: int, judged: Judgment
    ) -> None:
        """Note a fix that was tried."""
        entry = self._add(finding, fix, trial.state, number)
        entry.instead = judged.instead
        entry.update(
            **trial.outcome(judged),
            before=trial.state.observed.measures,
            backend=self._trials.trial_backend,
        )
        entry.is_settled = True

    def _add(self, finding: Finding, fix: Candidate, state: State, number: int) -> _Entry:
        tried = fix.tried(
            finding,
            self._trials.root,
            setting=next(iter(fix.change.settings), None) if fix.kind == "config" else None,
            finding_place=self.shown_place(finding, state.program),
            round=number,
            is_on_untouched=not state.applied,
        )
        around = self._around(finding, state.program)
        self._entries.append(_Entry(tried, fix, self._place(finding, state.program), around))
        return self._entries[-1]

    def _place(self, finding: Finding, program: Program) -> _Place:
        return finding.fingerprint, self._trials.original_line(program, *finding.location.at)

    def shown_place(self, finding: Finding, program: Program) -> str:
        """Show the line in the file on disk, whatever edits the program has."""
        return f"{finding.location.shown_file}:{self._place(finding, program)[1]}"

    def reopen(self) -> None:
        """Let fixes that moved a break be tried again, beside more that could remove what they
        left.
        """
        for entry in self._entries:
            entry.is_settled &= entry.tried.verdict != "moved"

    def reopen_untimed(self) -> None:
        """Let fixes be tried once more that contain a break, and whose calls weren't timed."""
        for entry in self._entries:
            parts = (part for why in entry.tried.reasons for part in why.parts)
            entry.is_settled &= all(part.kind != "call_untimed" for part in parts)

    def _applied(self, fixes: Iterable[Candidate]) -> list[_Entry]:
        """List the entries of fixes that a program has; one fix can be in vain for another
        finding.
        """
        applied = set(fixes)
        return [
            entry
            for entry in self._entries
            if entry.fix in applied and entry.tried.verdict in _APPLICABLE
        ]

    def take_back(
        self,
        fixes: Sequence[Candidate],
        verdict: Verdict | None = None,
        reasons: Reasons = (),
        *,
        backend: str | None = None,
    ) -> None:
        """Note why fixes are no longer applied; without a verdict, they may be tried again."""
        for entry in self._applied(fixes):
            if verdict is None:
                entry.is_settled = False
            elif entry.tried.verdict != verdict:
                backend = backend or entry.tried.backend
                entry.update(verdict=verdict, reasons=reasons, backend=backend)

    # What the trials of applied fixes showed.

    def complete(self, fixes: Sequence[Candidate], count: int) -> int:
        """Count so many of some fixes, and those without which the last of them is no good."""
        steps = [entry.fix for entry in self._entries if entry.instead]
        while count < len(fixes) and fixes[count - 1] in steps:
            count += 1
        return count

    def moving(self, fixes: Sequence[Candidate], state: State) -> list[Candidate]:
        """List those of some applied fixes that only moved a break, which a program still has."""
        left = _fingerprints(state)
        entries = self._applied(fixes)
        return [entry.fix for entry in entries if left.intersection(entry.instead)]

    def broken_again(self, fix: Candidate, change: ProgramChange) -> list[Finding]:
        """List what an applied fix's calls break for now; empty unless each of them does so for
        another reason.
        """
        targets = {
            entry.tried.fingerprint for entry in self._applied([fix]) if entry.tried.is_on_untouched
        }
        broken = [
            change.at_same_call(finding)
            for finding in change.sites.values()
            if finding.fingerprint in targets
        ]
        return list(chain.from_iterable(broken)) if all(broken) else []

    # The end of the treatment.

    def settle(self, state: State, user_backend: str | None) -> None:
        """Settle verdicts once the best program is known.

        Applied fixes are verified that moved a break which other fixes removed since. Fixes that
        worked in their trials, but aren't applied, were never run under the user's backend if that
        is another one.
        """
        left, applied = _fingerprints(state), self._applied(state.fixes)
        for entry in applied:
            if entry.tried.verdict == "moved" and left.isdisjoint(entry.instead):
                until = because("until_others", *entry.tried.reasons)
                verdict = LOSSY if entry.fix.drops_output else "verified"
                entry.update(verdict=verdict, reasons=(until,))
        marks = {entry.mark for entry in applied}
        for entry in self._entries if user_backend else ():
            if entry.mark not in marks and entry.tried.verdict in WORKING:
                reason = because("runs_elsewhere", entry.tried.backend or "", user_backend)
                entry.update(verdict="unproven", reasons=(reason,))

    def tried(self, state: State, *, is_one_graph: bool, is_faster: bool) -> tuple[TriedFix, ...]:
        """List every fix that was tried or left out, in order, with those that a program has as
        applied.

        Args:
            state: The program.
            is_one_graph: Whether its calls run in one graph.
            is_faster: Whether they take less time.
        """
        applied = self._applied(state.fixes)
        return tuple(
            entry.tried.replace(
                is_applied=(is_applied := entry in applied),
                is_one_graph=is_applied and is_one_graph and entry.tried.code.startswith(BREAK),
                is_faster=is_applied and is_faster,
            )
            for entry in self._entries
        )

    def left(self, state: State, findings: Sequence[Finding]) -> Iterator[LeftFinding]:
        """Say why a program still has findings."""
        applied = self._applied(state.fixes)
        for finding in findings:
            place = self._place(finding, state.program)
            entries = [entry for entry in self._entries if entry.place == place]
            # A fix that contains the break says more than what didn't help.
            telling = [entry.tried for entry in entries if entry in applied]
            telling += [entry.tried for entry in entries[-1:]]
            shared = ("title", "verdict", "grade", "untried_cause", "reasons")
            yield LeftFinding(
                code=finding.code,
                place=self.shown_place(finding, state.program),
                message=finding.message,
                declined=self._declined.get(place),
                suggestions=tuple(fix.title for fix in finding.fixes if fix.kind == "code"),
                **values_of(telling[0], *shared) if telling else {},
            )

    def gone(
        self, change: ProgramChange, best: State, findings: Sequence[Finding]
    ) -> Iterator[str]:
        """Yield fingerprints of the untouched program's findings that the best program no longer
        has.
        """
        left = best.observed.diagnosis.findings
        skipped = {name for finding in left for name in finding.effects.skipped_frames}
        rest = list(findings)
        for finding in left:
            line = self._place(finding, best.program)[1]
            # Another rule may name the same recompiles: a changed value tells. Of equal lines, the
            # one that is still there; the fingerprint says only which of them comes first.
            same = {
                (
                    other.code != finding.code,
                    abs(other.location.line - line),
                    other.fingerprint != finding.fingerprint,
                ): other
                for other in rest
                if is_still_there(other, finding) or _cause(other) == _cause(finding)
            }
            if same:
                rest.remove(same[min(same)])
        applied = self._applied(best.fixes)
        for finding in rest:
            place = (finding.fingerprint, finding.location.line)
            verdicts = [entry.tried.verdict for entry in applied if entry.place == place]
            # Else the fixes applied for it contain or move its break.
            is_resolved = not verdicts or not VERIFIED.isdisjoint(verdicts)
            is_skipped = finding.code == SKIPPED_FRAME and not skipped.isdisjoint(
                finding.effects.skipped_frames
            )
            if is_resolved and not is_skipped and not change.replacements(finding):
                yield finding.fingerprint


def _function_at(content: bytes | None, line: int) -> str | None:
    """Return the innermost function around a line, without its place; None if nobody knows it."""
    tree = None if content is None else parsed(content)
    function = None if tree is None else innermost_function(tree, line)
    return None if function is None else ast.dump(function)


def _fingerprints(state: State) -> set[str]:
    return {finding.fingerprint for finding in state.observed.diagnosis.findings}


def _cause(finding: Finding) -> tuple[str | None, ...]:
    place = finding.location
    return finding.code, place.file, place.function, place.text, finding.torch_id
