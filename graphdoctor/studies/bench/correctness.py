"""Says whether a variant computes what the program computes without torch.compile.

Comes in: how replays starts, and a variant's own replay. Goes out: a verdict, with the distances to a float64 run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypedDict

from graphdoctor.facts.bench import Correctness
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.trials import Comparison, Difference
from graphdoctor.facts.wording import kind_text
from graphdoctor.trials.launch.request import Measured
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import EAGER, Replays, RoundingNames
from graphdoctor.trials.results import Repeatability, clause, described, repeatability_of

_EAGER = "results-eager"
_AGAIN = f"{_EAGER}-again"
_FLOAT64 = "results-float64"
_SHAKEN = "results-shaken"
_MAX_SHAKEN = 6
"""Runs with other last digits, before results are called wrong: each takes either side of a step. Later variants are
compared with the same."""


EAGER_NUMBERS = RunChange(
    settings=(
        Setting(name="torch._inductor.config.fallback_random", value=True),
        Setting(name="torch._dynamo.config.use_numpy_random_stream", value=True),
    )
)
"""Makes compiled code draw its random numbers as eager mode does, where torch.compile has another way
(``torch/_inductor/config.py`` and ``torch/_dynamo/config.py``, 2.13)."""

_STEPS = "eager mode's results change as much if the last digits of its inputs and parameters do"
_OTHER_NUMBERS = "torch.compile draws other random numbers by design; with eager mode's, results agree"

Again = Callable[[RunChange, str], Recording]
"""Makes a variant's replay once more, with a change, under a name."""


class ReplayArguments(TypedDict):
    """What ``Replays.replay`` needs to compare a variant with the reference."""

    references: dict[str, str]
    rounding: RoundingNames


@dataclass(frozen=True)
class Verdict:
    """What the comparison of a variant says.

    Args:
        correct: Its results are eager mode's, but for rounding; None if that is unknown.
        correctness: How that was found; None if nothing was compared.
        reason: Why it isn't correct, or why that is unknown, as a clause; None if it is correct.
    """

    correct: bool | None
    correctness: Correctness | None
    reason: str | None


class Reference:
    """The program without torch.compile: twice as it is, and once in float64.

    Args:
        replays: Starts the probes.
        program: What all variants run.
        on_phase: Called with what is run.
        measured: What to measure after the calls of the first run; None for nothing.
        prefix: What the names of its replays begin with.
    """

    def __init__(
        self,
        replays: Replays,
        program: Program,
        *,
        on_phase: Callable[[str], None],
        measured: Measured | None = None,
        prefix: str = "",
    ) -> None:
        on_phase("running without torch.compile")
        self._name, self._again, self._float64 = (f"{prefix}{name}" for name in (_EAGER, _AGAIN, _FLOAT64))
        self._prefix = prefix
        self.eager = replays.replay(program, self._name, is_eager=True, measured=measured)
        """The first run as it is."""
        self._replays, self._program, self._on_phase = replays, program, on_phase
        self._failure = _failure(self.eager)
        self._rounding = RoundingNames(None, judged="variant")
        self._shaken: list[str] = []
        self._repeats, self._is_repeated = Repeatability(), False
        self._lacks_float64: str | None = None
        if self._failure is not None:
            return
        on_phase("running in float64")
        precise = replays.replay(program, self._float64, is_eager=True, is_float64=True)
        if precise.exit.reason == "finished":
            self._rounding = RoundingNames(self._float64, (self._again,), judged="variant")
        else:
            self._lacks_float64 = f"the program doesn't run in float64: {clause(precise.exit.message)}"
        on_phase("running without torch.compile again")
        rounding = replace(self._rounding, judged="untouched")
        again = replays.replay(program, self._again, is_eager=True, references={EAGER: self._name}, rounding=rounding)
        self._failure = _failure(again)
        self._repeats = repeatability_of(again)
        compared = _compared(again)
        self._is_repeated = bool(compared and compared.is_bitwise_equal)

    @property
    def own(self) -> Verdict:
        """Eager mode's own results, beside those of its second run."""
        repeated = Correctness(is_bitwise_equal=self._is_repeated, is_eager_repeatable=self._is_repeated)
        return Verdict(None if self._failure else True, None if self._failure else repeated, self._failure)

    @property
    def arguments(self) -> ReplayArguments:
        """What a variant's replay must be given."""
        return ReplayArguments(references={EAGER: self._name}, rounding=self._rounding)

    def judge(self, recording: Recording, name: str, again: Again) -> Verdict:
        """Judge a variant.

        Args:
            recording: Its replay, which finished and was given ``arguments``.
            name: The replay's name.
            again: Makes that replay once more; called only if results differ and the program draws random numbers.
        """
        compared = _compared(recording)
        if self._failure is not None or compared is None:
            return Verdict(None, None, self._failure or "its results weren't compared")
        differing = self._differing(compared)
        notes: list[str] = []
        if differing and self._is_random:
            name = f"{name}-eager-numbers"
            repeated = again(EAGER_NUMBERS, name)
            if (found := _compared(repeated)) is not None:
                recording, differing = repeated, self._differing(found)
                notes += [] if any(not one.may_be_rounding for one in differing) else [_OTHER_NUMBERS]
        if differing and all(one.may_be_rounding for one in differing):
            differing = self._beside_shaken(name, differing)
            notes += [] if differing else [_STEPS]
        worst = min(differing, key=lambda difference: difference.may_be_rounding, default=None)
        reason = None if worst is None else described(worst)
        correct: bool | None = worst is None
        if worst is None or worst.may_be_rounding:
            unknown = self._unknown(compared, worst)
            correct, reason = (correct, reason) if unknown is None else (None, unknown)
        notes += [note for note in (compared.note, self._precision(recording)) if note]
        correctness = Correctness(
            is_bitwise_equal=bool(compared.is_bitwise_equal),
            is_eager_repeatable=self._is_repeated,
            errors=() if recording.replay is None else recording.replay.errors,
            where=worst.where if worst else None,
            largest=worst.largest if worst else None,
            note="; ".join(notes) or None,
        )
        return Verdict(correct, correctness, reason)

    @property
    def _is_random(self) -> bool:
        return self.eager.replay is not None and self.eager.replay.draws_random

    def _beside_shaken(self, name: str, differing: list[Difference]) -> list[Difference]:
        """What still differs when eager mode's own results are known for other last digits of what it begins with."""
        for _ in range(max(_MAX_SHAKEN - len(self._shaken), 1)):
            seed = len(self._shaken) + 1
            self._on_phase(f"running without torch.compile with other last digits, {seed}")
            self._shaken.append(f"{self._prefix}{_SHAKEN}-{seed}")
            recording = self._replays.replay(
                self._program,
                self._shaken[-1],
                is_eager=True,
                shaken=seed,
                references={EAGER: self._name},
                rounding=replace(self._rounding, others=(*self._rounding.others, *self._shaken)),
                earlier=name,
            )
            compared = recording.replay.compared.get("earlier") if recording.replay else None
            if compared is None or not (differing := self._differing(compared)):
                break
        return differing

    def _differing(self, compared: Comparison) -> list[Difference]:
        """What differs that doesn't differ between two runs in eager mode."""
        return [difference for difference in compared.results if not self._repeats.covers(difference)]

    def _precision(self, recording: Recording) -> str | None:
        """What a float64 run doesn't say about a variant's results; None if it says all."""
        if self._lacks_float64 is not None or recording.replay is None:
            return self._lacks_float64
        if apart := recording.replay.kinds_apart:
            kinds = " and ".join(map(kind_text, apart))
            if self._is_random:
                return f"in float64, {kinds} come from other random numbers"
            return f"in float64, {kinds} are computed in another way"
        return None if recording.replay.errors else "no result is a floating-point number"

    def _unknown(self, compared: Comparison, worst: Difference | None) -> str | None:
        """Why it can't be said whether results are right, though none is certainly wrong; None if they are right."""
        if worst is not None:
            return f"{described(worst)}, which may be rounding"
        if unstable := [kind for kind in compared.kinds if kind in self._repeats.unstable - {"stderr"}]:
            kinds = " and ".join(map(kind_text, unstable))
            return f"{kinds} differ from run to run in eager mode too"
        return None if "outputs" in compared.kinds else "its outputs are too large to compare"


def _compared(recording: Recording) -> Comparison | None:
    return recording.replay.compared.get("eager") if recording.replay else None


def _failure(eager: Recording) -> str | None:
    if eager.exit.reason == "finished":
        return None
    return f"the program fails without torch.compile: {clause(eager.exit.message)}"
