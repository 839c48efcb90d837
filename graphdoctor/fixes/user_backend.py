"""Runs programs with fixes under the user's backend, where trials compile with another one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.fixes import Verdict, because
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.trials import Comparison, Judged
from graphdoctor.fixes.trials import AGAIN, UNTOUCHED, Trials, digest_of, holds, twice
from graphdoctor.fixes.verdicts import Reasons
from graphdoctor.trials.judge import compared_with_eager, differences_of, failure_of
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER


@dataclass(frozen=True)
class Check:
    """A program's counts and results under the user's backend."""

    verdict: Verdict
    reasons: Reasons = ()
    compared: Comparison | None = None
    measures: Counts | None = None


class UserBackend:
    """The user's backend in one treatment; ``checks`` has what ran there."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self.name = trials.backend
        self.checks: dict[Program, Check] = {}
        self._untouched_name = f"{UNTOUCHED}-{self.name}"
        self._untouched: Recording | None = None
        self._others: tuple[str, ...] = ()

    @property
    def is_another(self) -> bool:
        """Check whether trials compile with another backend."""
        return self._trials.trial_backend != self.name

    @property
    def untouched_measures(self) -> Counts | None:
        """The counts of the untouched program; None if it wasn't run there."""
        return None if self._untouched is None else self._measures(self._untouched)

    def check(self, program: Program, *, drops_output: bool) -> Check:
        """Run a program there, and the untouched one if it hasn't been; if results differ, both
        once more. Nothing is to be checked if trials compile with it.
        """
        if not self.is_another:
            return Check("verified")
        if program in self.checks:
            return self.checks[program]
        self._trials.on_phase(f"comparing under {self.name}")
        if self._untouched is None:
            self._untouched = self._replay(Program(), self._untouched_name)

        def is_settled(first: Recording) -> bool:
            verdict = self._judged(first).verdict
            # Where the untouched program's results differ there, nobody may know yet whether by
            # rounding alone.
            untouched = self._untouched if self._trials.rounding is None else None
            may_round = untouched is not None and bool(differences_of(untouched))
            is_held = verdict == "failed" or holds(verdict, drops_output=drops_output)
            return is_held and not may_round

        name = f"{self.name}-{digest_of(program)}"
        recording = twice(partial(self._replay, program), name, is_settled, self._settle)
        self.checks[program] = self._judged(recording)
        return self.checks[program]

    def _settle(self) -> None:
        """Learn what rounding is, and run the untouched program there once more; once."""
        self._trials.settle()
        if not self._others:
            again = f"{self._untouched_name}{AGAIN}"
            self._others = (self._untouched_name, again)
            self._untouched = self._replay(Program(), again, earlier=self._untouched_name)

    def _replay(self, program: Program, name: str, *, earlier: str | None = None) -> Recording:
        rounding = self._trials.rounding
        if rounding is not None:
            judged: Judged = "untouched" if program == Program() else "changed"
            rounding = replace(rounding, others=(*rounding.others, *self._others), judged=judged)
        return self._trials.replays.replay(
            program,
            name,
            references={EAGER: EAGER, UNTOUCHED: self._untouched_name},
            rounding=rounding,
            earlier=earlier,
            coverage=True,
            backend=self.name,
            is_counted=False,
        )

    def _judged(self, recording: Recording) -> Check:
        untouched = self._untouched
        if untouched is None or untouched.exit.reason != "finished":
            parts = () if untouched is None else (failure_of(untouched),)
            return Check("unproven", (because("fails_there", *parts),))
        if recording.exit.reason != "finished":
            return Check("failed", (failure_of(recording),))
        reference = self._trials.reference_beside(untouched)
        verdict, reasons = reference.judge(recording)
        return Check(verdict, reasons, compared_with_eager(recording), self._measures(recording))

    def _measures(self, recording: Recording) -> Counts:
        # Inductor may have found what it compiled before.
        return self._trials.observe(recording).measures.replace(compile_time_s=None)
