"""Tries to compile each of the modules that repeat by itself, once nothing else is left to try.

It removes no break and no recompile, so counts don't judge it: it is worth having if results stay the same, compiling
takes less time, under the user's backend and with an empty cache, and the call doesn't take longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphdoctor.facts.fixes import ColdCompile, Verdict
from graphdoctor.facts.progress import DecidedTrial
from graphdoctor.facts.recording import Recording
from graphdoctor.fixes.proposals import FindingOptions, Proposal
from graphdoctor.fixes.rule_codes import REPEATED_BLOCKS
from graphdoctor.fixes.trial_log import TrialLog
from graphdoctor.fixes.trials import State, Trials, with_proposals
from graphdoctor.fixes.user_backend import UserBackend
from graphdoctor.fixes.verdicts import Judgment
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.judge import Observed, clause
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.timing import slower

_PAIRS = 2
"""How many pairs of processes must agree."""

_LESS = 0.9
"""The most that compiling may take, beside what it takes without the fix."""


def regional_options(observed: Observed, selection: Selection) -> FindingOptions | None:
    """What can be tried for modules that repeat in one graph; None if none do.

    Args:
        observed: The program as the user runs it.
        selection: Findings to treat.
    """
    for finding in observed.diagnosis.findings:
        if finding.code == REPEATED_BLOCKS and selection.keeps(finding):
            (fix,) = finding.fixes
            proposal = Proposal(
                title=fix.title,
                kind="call",
                is_safe=fix.is_safe,
                targets=(finding.fingerprint,),
                change=RunChange(regional=True),
                snippet=fix.snippet,
                place=fix.place,
            )
            return FindingOptions(finding, (proposal,), ())
    return None


@dataclass(frozen=True)
class _Start:
    """A program's calls in a new process with an empty cache.

    Args:
        compiling_s: Seconds of compiling, as torch measured them.
        calls_s: Seconds of the calls, with all that they compile: torch leaves out backward passes.
    """

    compiling_s: float
    calls_s: float

    def is_quicker(self, other: _Start) -> bool:
        """Whether it takes certainly less than another one."""
        return self.compiling_s < _LESS * other.compiling_s and self.calls_s < _LESS * other.calls_s


class Regional:
    """Regional compilation in one treatment.

    Args:
        trials: Makes trials.
        log: Keeps what was tried.
        backend: The user's backend.
        is_timed: Whether calls are timed.
    """

    def __init__(self, trials: Trials, log: TrialLog, backend: UserBackend, *, is_timed: bool) -> None:
        self._trials = trials
        self._log = log
        self._backend = backend
        self._is_timed = is_timed

    def tried(self, options: FindingOptions, best: State, number: int) -> State | None:
        """Try it on the best program so far.

        Args:
            options: The finding and its only fix.
            best: That program.
            number: The number of the round.

        Returns:
            The program with it; None if it isn't worth having.
        """
        (proposal,) = options.proposals
        numbers: list[int] = []
        [observed] = self._trials.run_each(
            [proposal], best, f"{number}.regional", lambda _index, trial, _observed: numbers.append(trial)
        )
        judged, cold = self._judged(proposal, best, observed)
        self._log.note(options.finding, proposal, best, number, judged=judged, after=observed, cold_compile=cold)
        place = self._log.shown_place(options.finding, best.program)
        self._trials.pace.report(DecidedTrial(numbers[0], proposal.title, ((place, judged.verdict),)))
        if judged.verdict != "verified":
            return None
        self._log.apply([proposal], number)
        # Less of it is in graphs, on purpose.
        return best.joined([proposal], observed, mended_count=1, is_outweighed=True)

    def _judged(self, proposal: Proposal, best: State, observed: Observed) -> tuple[Judgment, ColdCompile | None]:
        verdict, reason = self._results(best, proposal, observed)
        if verdict != "verified":
            return Judgment(verdict, reason), None
        before, after, name = best.program, with_proposals(best.program, (proposal,)), self._trials.backend
        pairs: list[tuple[_Start, _Start]] = []
        for number in range(1, _PAIRS + 1):
            found = self._started(before, after, f"cold-{number}")
            if isinstance(found, str):
                return Judgment("failed", f"with an empty cache, under {name}: {found}"), None
            pairs.append(found)
        was, now = (min(start.compiling_s for start in starts) for starts in zip(*pairs, strict=True))
        cold = ColdCompile(backend=name, before_s=was, after_s=now)
        took = f"with an empty cache, compiling takes {was:.1f} s → {now:.1f} s under {name}"
        if not all(quick.is_quicker(slow) for slow, quick in pairs):
            return Judgment("no effect", took), cold
        if self._is_timed and (change := self._slower(before, after)) is not None:
            return Judgment("makes it worse", f"{took}, but the steady call is {change}"), cold
        return Judgment("verified", took), cold

    def _results(self, best: State, proposal: Proposal, observed: Observed) -> tuple[Verdict, str | None]:
        """Whether it computes the same in its trial, and under the user's backend."""
        recording = observed.recording
        if recording.exit.reason != "finished":
            return "failed", clause(recording.exit.message)
        verdict, reason = self._trials.reference.judge(recording, drops_output=best.drops_output)
        if verdict == "verified" and observed.measures.frames_over_limit > best.observed.measures.frames_over_limit:
            return "makes it worse", "a block hits its recompile limit with it"
        if verdict == "verified" and self._backend.is_another:
            check = self._backend.check(with_proposals(best.program, (proposal,)), drops_output=best.drops_output)
            return check.verdict, check.reason and f"under {self._backend.name}: {check.reason}"
        return verdict, reason

    def _started(self, before: Program, after: Program, name: str) -> tuple[_Start, _Start] | str:
        """Start two programs side by side, each with an empty cache; or why that failed, a clause."""
        self._trials.on_phase("compiling with an empty cache")

        def run(item: tuple[Program, str]) -> Recording:
            program, which = item
            return self._trials.replays.replay(program, f"{name}-{which}", backend=self._trials.backend, is_cold=True)

        pair = [(before, "before"), (after, "after")]
        found = [_start(one) for one in self._trials.replays.in_parallel(run, pair, jobs=self._trials.jobs)]
        (first, second) = found
        if isinstance(first, str) or isinstance(second, str):
            return next(reason for reason in found if isinstance(reason, str))
        return first, second

    def _slower(self, before: Program, after: Program) -> str | None:
        """How much longer the call takes, if two pairs of processes say so."""
        if before != Program():
            self._trials.time(Program(), after)
        if slower(self._trials.time(before, after)) is None:
            return None
        return slower(self._trials.time(before, after, is_again=True))


def _start(recording: Recording) -> _Start | str:
    """What a start took, or why that isn't known, as a clause."""
    if recording.exit.reason != "finished":
        return clause(recording.exit.message)
    compiling = [one.duration_s for one in recording.compiles if one.duration_s is not None]
    if not compiling:
        return "torch doesn't say what compiling takes"
    return _Start(sum(compiling), sum(call.duration_s or 0.0 for call in recording.calls))
