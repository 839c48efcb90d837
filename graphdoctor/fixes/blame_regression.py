"""Finds the fix to blame where the steady call takes longer: the program before and after in, a fix and why out."""

from __future__ import annotations

from graphdoctor.facts.fixes import deciding
from graphdoctor.fixes.proposals import Proposal
from graphdoctor.fixes.trial_log import TrialLog
from graphdoctor.fixes.trials import State, Trials, with_proposals
from graphdoctor.trials.program import Program
from graphdoctor.trials.timing import slower

_MAX_TIMED = 6
"""How many fixes are timed one by one; all together are always timed."""


class Slowness:
    """Times the fixes of a treatment.

    Args:
        trials: Makes trials.
        log: What is known of each fix; times are added to it.
        is_each: Whether each fix is timed by itself, not only to find one to blame.
    """

    def __init__(self, trials: Trials, log: TrialLog, *, is_each: bool) -> None:
        self._trials = trials
        self._log = log
        self._is_each = is_each

    def blamed(self, untouched: State, best: State) -> tuple[Proposal, str] | None:
        """The fix to take back, and why; None if no fix makes the call longer, by itself or with the others.

        Args:
            untouched: The program without fixes.
            best: The program with those that work.
        """
        self._trials.time(Program(), best.program)
        found = self._slow_alone(best) if self._is_each else None
        found = found or self._slow(untouched, best)
        self._note_times(best)
        return found

    def _slow(self, untouched: State, best: State) -> tuple[Proposal, str] | None:
        """The fix to blame if all of them make the call longer, and why; None if the call takes no longer."""
        change = self._confirmed_slower(untouched.program, best.program)
        if change is None:
            return None
        if len(best.applied) == 1:
            return best.applied[0][0], f"with it, the steady call is {change}"
        alone = self._slow_alone(best)
        if alone is not None:
            return alone
        slowest, _ = max(best.applied[:_MAX_TIMED], key=lambda pair: self._ratio(*_added(*pair)))
        return slowest, f"all verified fixes together make the steady call {change}, and it slows the call most"

    def _slow_alone(self, best: State) -> tuple[Proposal, str] | None:
        """The first fix that makes the call longer by itself, and why; None if none does."""
        timed = best.applied[:_MAX_TIMED]
        if self._is_each:
            for pair in timed:
                self._trials.time(*_added(*pair))
        for proposal, before in timed:
            # A step counts together with what follows it.
            if not self._log.is_step(proposal):
                change = self._confirmed_slower(*_added(proposal, before))
                if change is not None:
                    return proposal, f"with it, the steady call is {change}"
        return None

    def _confirmed_slower(self, before: Program, after: Program) -> str | None:
        """How much longer the second program's call takes, if two pairs of processes say so."""
        if slower(self._trials.time(before, after)) is None:
            return None
        return slower(self._trials.time(before, after, is_again=True))

    def _ratio(self, before: Program, after: Program) -> float:
        pair = deciding(self._trials.time(before, after))
        return pair.ratio if pair else 1.0

    def _note_times(self, best: State) -> None:
        """Note the times of the applied fixes that were timed by themselves."""
        for pair in best.applied:
            self._log.add_times(pair[0], self._trials.times_of(*_added(*pair)) or ())
        if self._is_each and len(best.applied) > _MAX_TIMED:
            self._trials.notes.append(f"only the first {_MAX_TIMED} fixes are timed one by one")


def _added(proposal: Proposal, before: Program) -> tuple[Program, Program]:
    """A program without a fix and with it."""
    return before, with_proposals(before, (proposal,))
