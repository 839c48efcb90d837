"""Says whether a changed program computes what the untouched one computes, and what torch did to
it.

``Reference`` runs the program without torch.compile as often as it takes to tell rounding from
errors; ``Untouched`` knows what it does with torch.compile, too, and needs no more runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from graphdoctor.facts.bench import Correctness
from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.trials import (
    THE_CALL,
    Attacked,
    AttackFailure,
    Comparison,
    Difference,
    ResultKind,
)
from graphdoctor.rules.diagnosed import diagnosis_of
from graphdoctor.trials.launch.request import Measured
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import EAGER, Replays, RoundingNames
from graphdoctor.wording import kind_text, listed

_AGAIN = f"results-{EAGER}-again"
_MAX_SHAKEN = 6
"""Runs with other last digits, before results are called wrong: each takes either side of a step.
Later variants are compared with the same."""

_DROPPED: dict[ResultKind, tuple[str, str]] = {
    "stdout": ("print", "printed lines"),
    "logs": ("log line", "log lines"),
    "stderr": ("line of standard error", "lines of standard error"),
}
"""What a line of text is called, and what several are."""

_FEWER = re.compile(r"(\d+) of (\d+) lines(?:; the first missing one: (.+))?", re.DOTALL)
"""How the detail of a text with lines missing reads."""

EAGER_NUMBERS = RunChange(
    settings=(
        Setting(name="torch._inductor.config.fallback_random", value=True),
        Setting(name="torch._dynamo.config.use_numpy_random_stream", value=True),
    )
)
"""Makes compiled code draw its random numbers as eager mode does, where torch.compile has another
way (``torch/_inductor/config.py`` and ``torch/_dynamo/config.py``, 2.13)."""

_STEPS = "eager mode's results change as much if the last digits of its inputs and parameters do"
_OTHER_NUMBERS = (
    "torch.compile draws other random numbers by design; with eager mode's, results agree"
)


@dataclass(frozen=True)
class Observed:
    """What one replay showed; ``name``: None for the recorded run."""

    recording: Recording
    diagnosis: Diagnosis
    name: str | None = None
    is_compile_counted: bool = True

    @classmethod
    def of(
        cls,
        recording: Recording,
        root: Path,
        *,
        name: str | None = None,
        is_compile_counted: bool = True,
    ) -> Observed:
        """A recording with its whole diagnosis, findings that the user didn't select too: a change
        can cause them.
        """
        return cls(recording, diagnosis_of(recording, root=root), name, is_compile_counted)

    @property
    def measures(self) -> Counts:
        """The counts."""
        summary = self.diagnosis.summary
        return summary if self.is_compile_counted else summary.replace(compile_time_s=None)


@dataclass(frozen=True)
class Repeatability:
    """Which results of the untouched program differ between runs without torch.compile."""

    unstable: frozenset[ResultKind] = frozenset()
    unstable_numbers: frozenset[ResultKind] = frozenset()

    @classmethod
    def of(cls, again: Recording, **more: Any) -> Self:  # noqa: ANN401 - other fields
        """What a second run without torch.compile shows, compared with the first."""
        differing = differences_of(again)
        numbers = {kind for kind, found in differing.items() if found.change == "numbers"}
        return cls(frozenset(differing.keys() - numbers), frozenset(numbers), **more)

    def covers(self, difference: Difference) -> bool:
        """Whether results differ only as they do without torch.compile."""
        is_number = difference.kind in self.unstable_numbers and difference.change == "numbers"
        return difference.kind in self.unstable or is_number

    @property
    def unprovable(self) -> frozenset[ResultKind]:
        """Kinds that differ from run to run and hold results; standard error doesn't."""
        return self.unstable - {"stderr"}


def attacked_in(recording: Recording) -> Attacked | None:
    """What a replay did on inputs made to break it; None if nobody tried them."""
    return recording.replay.attacked if recording.replay else None


def compared_with_eager(recording: Recording) -> Comparison | None:
    """How a replay's results compare with those without torch.compile; None if nobody compared
    them.
    """
    return recording.replay.compared.get("eager") if recording.replay else None


def differences_of(recording: Recording) -> dict[ResultKind, Difference]:
    """How a run's results differ from those without torch.compile, by kind, and those of its
    earlier run.
    """
    replay = recording.replay
    if replay is None:
        return {}
    found = [
        compared
        for name in ("earlier", "eager")
        if (compared := replay.compared.get(name)) is not None
    ]
    return {
        difference.kind: difference for compared in found for difference in compared.differences
    }


def described(difference: Difference) -> str:
    """A difference in words, such as ``gradient of x in call 1 differs by 0.3``."""
    if difference.largest is not None:
        return f"{difference.where} differs by {difference.largest:.3g}"
    mark = "" if difference.where == THE_CALL else ":"
    return f"{difference.where}{mark} {difference.detail or 'differs'}"


def clause(message: str | None) -> str:
    """A message as a clause."""
    return (message or "it didn't finish").rstrip(".")


def _kinds_text(kinds: Sequence[ResultKind]) -> str:
    return " and ".join(map(kind_text, kinds))


@dataclass(frozen=True)
class Untouched(Repeatability):
    """What is known about the untouched program's results, with torch.compile too."""

    compiled_differs: Mapping[ResultKind, Difference] = field(default_factory=dict)
    is_known: bool = True

    @classmethod
    def seen(cls, again: Recording, compiled: Recording, *, is_known: bool) -> Self:
        """What a second run without torch.compile and a run with it show."""
        return cls.of(again, compiled_differs=differences_of(compiled), is_known=is_known)

    def judge(
        self,
        recording: Recording,
        *,
        drops_output: bool,
        known: Mapping[ResultKind, Difference] | None = None,
    ) -> tuple[Literal["verified", "changes results", "unproven"], str | None]:
        """Whether a finished trial computed what the untouched program computes, and why."""
        eager = compared_with_eager(recording)
        if eager is None or recording.replay is None or not self.is_known:
            return "unproven", "the program didn't return results in two runs without torch.compile"
        attacked = recording.replay.attacked
        failure = None if attacked is None else attacked.failure if drops_output else attacked.worst
        if failure is not None:
            return "changes results", f"{described(failure.difference)} when {failure.text}"
        beside = recording.replay.compared.get("untouched")
        doubts, dropped, changed = list[str](), list[Difference](), list[ResultKind]()
        for kind, difference in differences_of(recording).items():
            if self.covers(difference) or _is_message(difference, beside):
                continue
            if drops_output and self._is_dropped(difference):
                if (known or {}).get(kind) != difference:
                    dropped.append(difference)
            elif kind not in self.compiled_differs:
                return "changes results", described(difference)
            else:
                changed.append(kind)
        if self.unprovable:
            doubts.append(
                f"{_kinds_text(sorted(self.unprovable))} differ from run to run without torch.compile"
            )
        notes = [eager.note] if eager.note else []
        if eager.zero_gradients:
            names = listed([name.partition("gradient of ")[2] for name in eager.zero_gradients])
            notes.append(f"{names} get a gradient of 0 where they had none")
        if changed:
            first = described(self.compiled_differs[changed[0]])
            own = f"torch.compile changes {_kinds_text(changed)} even without the fix ({first})"
            # An edit gives the same without torch.compile, or what the untouched program gives with
            # it.
            apart = set() if beside is None else {found.kind for found in beside.differences}
            is_excused = (attacked is not None and attacked.is_edited) or apart.isdisjoint(changed)
            (notes if is_excused and beside is not None else doubts).append(own)
        if doubts:
            return "unproven", "; ".join(doubts)
        if attacked is not None and drops_output:
            dropped += [
                one for one in attacked.dropped if one.kind not in {known.kind for known in dropped}
            ]
        elif attacked is not None and attacked.dropped:
            return "changes results", described(attacked.dropped[0])
        told = [*_dropped_text(dropped), *_exceptions_text(attacked.exceptions if attacked else ())]
        return "verified", "; ".join([*notes, *told]) or None

    def _is_dropped(self, difference: Difference) -> bool:
        """Whether nothing but lines is missing, or numbers in modules that differ from run to run,
        such as times.
        """
        if difference.kind not in self.unstable_numbers:
            return difference.kind != "state" and difference.change == "fewer"
        return difference.change in ("fewer", "fewer_and_numbers")


def _is_message(difference: Difference, beside: Comparison | None) -> bool:
    """Whether a text differs only as torch's and its compilers' messages do."""
    is_error = difference.kind == "stderr"
    return is_error and (
        beside is None or all(found.kind != "stderr" for found in beside.differences)
    )


def _dropped_text(dropped: Sequence[Difference]) -> list[str]:
    """What the program no longer writes; a log that goes to standard error is named once."""
    kinds = {difference.kind: difference.detail for difference in dropped}
    if "logs" in kinds:
        kinds.pop("stderr", None)
    lost = [
        f"{difference.where} isn't kept" for difference in dropped if difference.kind == "state"
    ]
    kinds.pop("state", None)
    return [
        *(
            f"drops {_lines_text(kind, detail or '')} while compiling"
            for kind, detail in kinds.items()
        ),
        *lost,
    ]


def _exceptions_text(changed: Sequence[AttackFailure]) -> list[str]:
    """Which exceptions are raised in place of the program's."""
    types, is_reworded, kind = list[str](), False, ""
    for one in changed:
        (was, _, old), (now, _, new) = (text.partition(": ") for text in one.raised or ("", ""))
        kind, is_reworded = was, is_reworded or new != old
        types += [f"{now}{' when compiled' * one.is_compiled}"] if now != was else []
    if types:
        return [
            f"changes the exception{' and its message' * is_reworded}: {kind} → {', '.join(types)}"
        ]
    return ["changes the exception's message"] if changed else []


def _lines_text(kind: ResultKind, detail: str) -> str:
    one, several = _DROPPED[kind]
    found = _FEWER.fullmatch(detail)
    if found is None:
        return several
    count = int(found[2]) - int(found[1])
    return f"{count} {one if count == 1 else several}{f' ({found[3]})' if found[3] else ''}"


@dataclass(frozen=True)
class Verdict:
    """Whether a variant's results are eager mode's but for rounding, None if unknown; how that was
    found; why not.

    ``change``: what the run that was compared needed besides the variant's own.
    """

    correct: bool | None
    correctness: Correctness | None
    reason: str | None
    change: RunChange = field(default_factory=RunChange)


class Reference:
    """The program without torch.compile: twice as it is, the first time ``measured``, and once in
    float64.

    ``is_judging``: False for the first run alone, so that no results are compared.
    """

    def __init__(
        self,
        replays: Replays,
        program: Program,
        *,
        on_phase: Callable[[str], None],
        measured: Measured | None = None,
        prefix: str = "",
        is_judging: bool = True,
    ) -> None:
        on_phase("running without torch.compile")
        self.is_judging = is_judging
        self._name, again_name = f"{prefix}results-{EAGER}", f"{prefix}{_AGAIN}"
        self._prefix = prefix
        self.eager = replays.replay(program, self._name, is_eager=True, measured=measured)
        """The first run as it is."""
        self._replays, self._program, self._on_phase = replays, program, on_phase
        self._failure = _failure(self.eager)
        self._rounding = RoundingNames(None, judged="variant")
        self._shaken: list[str] = []
        self._repeats, self._is_repeated = Repeatability(), False
        self._lacks_float64: str | None = None
        if self._failure is not None or not is_judging:
            return
        on_phase("running in float64")
        float64 = f"{prefix}results-float64"
        precise = replays.replay(program, float64, is_eager=True, is_float64=True)
        if precise.exit.reason == "finished":
            self._rounding = RoundingNames(float64, (again_name,), judged="variant")
        else:
            self._lacks_float64 = (
                f"the program doesn't run in float64: {clause(precise.exit.message)}"
            )
        on_phase("running without torch.compile again")
        rounding = replace(self._rounding, judged="untouched")
        again = replays.replay(
            program, again_name, is_eager=True, references={EAGER: self._name}, rounding=rounding
        )
        self._failure = _failure(again)
        self._repeats = Repeatability.of(again)
        compared = compared_with_eager(again)
        self._is_repeated = bool(compared and compared.is_bitwise_equal)

    @property
    def own(self) -> Verdict:
        """Eager mode's own results, beside those of its second run."""
        if self._failure is not None or not self.is_judging:
            return Verdict(None, None, self._failure)
        repeated = Correctness(
            is_bitwise_equal=self._is_repeated, is_eager_repeatable=self._is_repeated
        )
        return Verdict(True, repeated, None)

    def replay(self, program: Program, name: str, **given: Any) -> Recording:  # noqa: ANN401 - passed on
        """Run a variant that is to be judged; ``given``: what else ``Replays.replay`` takes."""
        return self._replays.replay(
            program, name, references={EAGER: self._name}, rounding=self._rounding, **given
        )

    def judge(self, recording: Recording, program: Program, name: str, **given: Any) -> Verdict:  # noqa: ANN401
        """Judge a variant that was replayed so."""
        if not self.is_judging:
            return Verdict(None, None, None)
        compared = compared_with_eager(recording)
        if self._failure is not None or compared is None:
            return Verdict(None, None, self._failure or "its results weren't compared")
        differing = self._differing(compared)
        notes: list[str] = []
        change = RunChange()
        if differing and self._is_random:
            name, change, numbered = (
                f"{name}-eager-numbers",
                EAGER_NUMBERS,
                program.changed(EAGER_NUMBERS),
            )
            repeated = recording if numbered == program else self.replay(numbered, name, **given)
            if (found := compared_with_eager(repeated)) is not None:
                recording, differing = repeated, self._differing(found)
                notes += (
                    [] if any(not one.may_be_rounding for one in differing) else [_OTHER_NUMBERS]
                )
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
        place: dict[str, Any] = (
            {} if worst is None else {"where": worst.where, "largest": worst.largest}
        )
        correctness = Correctness(
            is_bitwise_equal=bool(compared.is_bitwise_equal),
            is_eager_repeatable=self._is_repeated,
            errors=() if recording.replay is None else recording.replay.errors,
            note="; ".join(notes) or None,
            **place,
        )
        return Verdict(correct, correctness, reason, change)

    @property
    def _is_random(self) -> bool:
        return self.eager.replay is not None and self.eager.replay.draws_random

    def _beside_shaken(self, name: str, differing: list[Difference]) -> list[Difference]:
        """What still differs when eager mode's own results are known for other last digits of what
        it begins with.
        """
        for _ in range(max(_MAX_SHAKEN - len(self._shaken), 1)):
            seed = len(self._shaken) + 1
            self._on_phase(f"running without torch.compile with other last digits, {seed}")
            self._shaken.append(f"{self._prefix}results-shaken-{seed}")
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
        return [
            difference for difference in compared.results if not self._repeats.covers(difference)
        ]

    def _precision(self, recording: Recording) -> str | None:
        """What a float64 run doesn't say about a variant's results; None if it says all."""
        if self._lacks_float64 is not None or recording.replay is None:
            return self._lacks_float64
        if apart := recording.replay.kinds_apart:
            way = (
                "come from other random numbers"
                if self._is_random
                else "are computed in another way"
            )
            return f"in float64, {_kinds_text(apart)} {way}"
        return None if recording.replay.errors else "no result is a floating-point number"

    def _unknown(self, compared: Comparison, worst: Difference | None) -> str | None:
        """Why it can't be said whether results are right, though none is certainly wrong; None if
        they are right.
        """
        if worst is not None:
            return f"{described(worst)}, which may be rounding"
        if unstable := [kind for kind in compared.kinds if kind in self._repeats.unprovable]:
            return f"{_kinds_text(unstable)} differ from run to run in eager mode too"
        return None if "outputs" in compared.kinds else "its outputs are too large to compare"


def _failure(eager: Recording) -> str | None:
    if eager.exit.reason == "finished":
        return None
    return f"the program fails without torch.compile: {clause(eager.exit.message)}"
