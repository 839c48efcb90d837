"""Compares programs under the backend that the user chose, where their fixes were tried under a quicker one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphdoctor.facts.fixes import Measures, Verdict
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.trials import Comparison
from graphdoctor.fixes.trials import AGAIN, UNTOUCHED, Trials
from graphdoctor.probe.wire import Judged
from graphdoctor.trials.judge import clause
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER


@dataclass(frozen=True)
class Check:
    """What a program does under the user's backend.

    Args:
        verdict: ``verified``, ``changes results``, ``unproven`` or ``failed``.
        reason: Why, as a clause; None if the verdict says it all.
        compared: Its results compared with those without torch.compile; None if it failed.
        measures: Its counts; None if it failed.
    """

    verdict: Verdict
    reason: str | None
    compared: Comparison | None = None
    measures: Measures | None = None


class UserBackend:
    """The user's backend in one treatment.

    Args:
        trials: Know which backend trials compile with.
    """

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._name = f"{UNTOUCHED}-{trials.backend}"
        self._untouched: Recording | None = None
        self._others: tuple[str, ...] = ()
        self._known: list[tuple[Program, Check]] = []

    @property
    def name(self) -> str:
        """The backend's name."""
        return self._trials.backend

    @property
    def is_another(self) -> bool:
        """Whether trials compile with another one."""
        return self._trials.trial_backend != self.name

    @property
    def untouched_measures(self) -> Measures | None:
        """The counts of the untouched program; None if it wasn't run there."""
        return None if self._untouched is None else self._measures(self._untouched)

    def known(self, program: Program) -> Check | None:
        """What a program does there, if that was looked at."""
        return next((check for other, check in self._known if other == program), None)

    def check(self, program: Program, *, drops_output: bool) -> Check:
        """Run a program there, and the untouched one if it hasn't been; if results differ, both once more.

        Args:
            program: The program.
            drops_output: Whether it writes less on purpose.
        """
        known = self.known(program)
        if known is not None:
            return known
        self._trials.on_phase(f"comparing under {self.name}")
        if self._untouched is None:
            self._untouched = self._replay(Program(), self._name)
        name = f"{self.name}-{len(self._known) + 1}"
        found = self._judged(self._replay(program, name), drops_output=drops_output)
        if found.verdict in ("changes results", "unproven"):
            self._settle()
            again = self._replay(program, f"{name}{AGAIN}", earlier=name)
            if again.exit.reason == "finished":
                found = self._judged(again, drops_output=drops_output)
        self._known.append((program, found))
        return found

    def _settle(self) -> None:
        """Find out what rounding is, and run the untouched program there once more; once."""
        self._trials.settle()
        if not self._others:
            again = f"{self._name}{AGAIN}"
            self._others = (self._name, again)
            self._untouched = self._replay(Program(), again, earlier=self._name)

    def _replay(self, program: Program, name: str, *, earlier: str | None = None) -> Recording:
        rounding = self._trials.rounding
        if rounding is not None:
            judged: Judged = "untouched" if program == Program() else "changed"
            rounding = replace(rounding, others=(*rounding.others, *self._others), judged=judged)
        return self._trials.replays.replay(
            program,
            name,
            references={EAGER: EAGER, UNTOUCHED: self._name},
            rounding=rounding,
            earlier=earlier,
            coverage=True,
            backend=self.name,
            is_counted=False,
            decisive=() if self._untouched is None else self._trials.reference_beside(self._untouched).decisive,
        )

    def _judged(self, recording: Recording, *, drops_output: bool) -> Check:
        untouched = self._untouched
        if untouched is None or untouched.exit.reason != "finished":
            message = clause(untouched.exit.message if untouched is not None else None)
            return Check("unproven", f"the program fails there without fixes: {message}")
        if recording.exit.reason != "finished":
            return Check("failed", clause(recording.exit.message))
        reference = self._trials.reference_beside(untouched)
        verdict, reason = reference.judge(recording, drops_output=drops_output)
        compared = recording.replay.compared.get("eager") if recording.replay else None
        return Check(verdict, reason, compared, self._measures(recording))

    def _measures(self, recording: Recording) -> Measures:
        # Inductor may have found what it compiled before.
        return self._trials.observe(recording).measures.model_copy(update={"compile_time_s": None})
