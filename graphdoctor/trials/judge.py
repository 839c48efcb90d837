"""Judges whether a changed program computes what the untouched one computes.

``Reference`` runs the program without torch.compile as often as it takes to tell rounding from
errors; ``Untouched`` knows what it does with torch.compile, too, and needs no more runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from graphdoctor.facts.accuracy import AccuracyVerdict, ComparedKind
from graphdoctor.facts.bench import Correctness
from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.fixes import Reason, because
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import ProbeExit, Setting
from graphdoctor.facts.trials import MESSAGES, TEXTS, Attacked, Comparison, Difference, ResultKind
from graphdoctor.rules.diagnosed import diagnosis_of
from graphdoctor.trials.launch.request import Measured
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import EAGER, Replays, RoundingNames

_AGAIN = f"results-{EAGER}-again"
_MAX_SHAKEN = 6
"""Runs with other last digits, before results are called wrong: each takes either side of a step.
Later variants are compared with the same."""

EAGER_NUMBERS = RunChange(
    settings=(
        Setting(name="torch._inductor.config.fallback_random", value=True),
        Setting(name="torch._dynamo.config.use_numpy_random_stream", value=True),
    )
)
"""Makes compiled code draw its random numbers as eager mode does, where torch.compile has another
way (``torch/_inductor/config.py`` and ``torch/_dynamo/config.py``, 2.13)."""

_NO_ERRORS = Correctness(is_bitwise_equal=False, is_eager_repeatable=False)

_STEPS = "eager mode's results change as much if the last digits of its inputs and parameters do"
_OTHER_NUMBERS = (
    "torch.compile draws other random numbers by design; with eager mode's, results agree"
)


@dataclass(frozen=True)
class Observed:
    """A replay with its whole diagnosis, findings that the user didn't select too: a change can
    cause them. ``name`` is None for the recorded run.
    """

    recording: Recording
    diagnosis: Diagnosis
    name: str | None = None
    is_compile_counted: bool = True

    @classmethod
    def of(cls, recording: Recording, root: Path, **more: Any) -> Self:  # noqa: ANN401 - fields
        """Diagnose a recording."""
        return cls(recording, diagnosis_of(recording, root=root), **more)

    @property
    def measures(self) -> Counts:
        """The counts."""
        summary = self.diagnosis.summary
        return summary if self.is_compile_counted else summary.replace(compile_time_s=None)

    @property
    def is_finished(self) -> bool:
        """Check whether the program ran to its end."""
        return self.recording.exit.reason == "finished"

    @property
    def failure(self) -> Reason:
        """Return why the program ended early."""
        return failure_of(self.recording)

    @property
    def compared(self) -> Comparison | None:
        """Return how its results compare with eager mode's."""
        return compared_with_eager(self.recording)

    @property
    def attacked(self) -> Attacked | None:
        """Return its results on inputs made to break it; None if nobody tried them."""
        replay = self.recording.replay
        return replay.attacked if replay else None


def failure_of(ended: Recording | ProbeExit) -> Reason:
    """Say in the program's words why a run ended early."""
    exit_ = ended.exit if isinstance(ended, Recording) else ended
    return because("message", clause(exit_.message))


def clause(message: str | None) -> str:
    """Write a message as a clause."""
    return (message or "it didn't finish").rstrip(".")


def compared_with_eager(recording: Recording) -> Comparison | None:
    """Find how a replay's results compare with those without torch.compile; None if unknown."""
    return recording.replay.compared.get("eager") if recording.replay else None


def differences_of(recording: Recording) -> dict[ResultKind, Difference]:
    """Find how results differ from those without torch.compile, and from an earlier run's."""
    compared = recording.replay.compared if recording.replay else {}
    comparisons = [compared[name] for name in ("earlier", "eager") if name in compared]
    return {
        difference.kind: difference
        for comparison in comparisons
        for difference in comparison.differences
    }


ResultsVerdict = Literal["verified", "verified with loss", "changes results", "unproven"]


@dataclass(frozen=True)
class Untouched:
    """The untouched program's results that differ: between runs without torch.compile, and with
    it.
    """

    unstable: frozenset[ResultKind] = frozenset()
    unstable_numbers: frozenset[ResultKind] = frozenset()
    compiled_differs: Mapping[ResultKind, Difference] = field(default_factory=dict)
    is_known: bool = True

    @classmethod
    def seen(
        cls, again: Recording, compiled: Recording | None = None, *, is_known: bool = True
    ) -> Self:
        """Learn from a second run without torch.compile and a run with it."""
        differing = differences_of(again)
        numbers = {kind for kind, difference in differing.items() if difference.change == "numbers"}
        return cls(
            frozenset(differing.keys() - numbers),
            frozenset(numbers),
            {} if compiled is None else differences_of(compiled),
            is_known,
        )

    def covers(self, difference: Difference) -> bool:
        """Tell if results differ only as they do without torch.compile."""
        is_number = difference.kind in self.unstable_numbers and difference.change == "numbers"
        return difference.kind in self.unstable or is_number

    @property
    def unprovable(self) -> frozenset[ResultKind]:
        """Kinds that differ from run to run and hold results; standard error doesn't."""
        return self.unstable - {"stderr"}

    def judge(
        self, recording: Recording, *, expected: Mapping[ResultKind, Difference] | None = None
    ) -> tuple[ResultsVerdict, tuple[Reason, ...]]:
        """Judge whether a finished trial computed what the untouched program computes.

        Args:
            recording: The trial.
            expected: Differences of the program that the change was made for.
        """
        eager, replay = compared_with_eager(recording), recording.replay
        if eager is None or replay is None or not self.is_known:
            return "unproven", (because("not_returned"),)
        attacked = replay.attacked
        if failure := attacked and attacked.failure:
            return "changes results", (because("differs_on", failure.text, failure.difference),)
        beside = replay.compared.get("untouched")
        beside_kinds = {item.kind for item in beside.differences} if beside else set()
        dropped, changed = list[Difference](), list[ResultKind]()
        is_redrawn = attacked is not None and attacked.is_own_redrawn
        redrawn = list[ResultKind]()
        for kind, difference in differences_of(recording).items():
            # Standard error holds messages of torch and its compilers, too.
            is_message = kind == "stderr" and "stderr" not in beside_kinds
            if self.covers(difference) or is_message:
                continue
            if is_redrawn and kind not in TEXTS:
                redrawn.append(kind)
                continue
            if self._is_dropped(difference):
                if (expected or {}).get(kind) != difference:
                    dropped.append(difference)
            elif kind not in self.compiled_differs:
                return "changes results", (because("differs", difference),)
            else:
                changed.append(kind)
        doubts, notes = list[Reason](), list[Reason]()
        if self.unprovable:
            doubts.append(because("unstable", *sorted(self.unprovable)))
        if eager.note:
            notes.append(because("message", eager.note))
        if eager.zero_gradients:
            notes.append(because("zero_gradients", *eager.zero_gradients))
        if eager.retyped is not None:
            notes.append(because("retyped", eager.retyped))
        if attacked is not None and attacked.redrawn is not None:
            notes.append(because("redraws", attacked.redrawn.text))
        elif redrawn:
            notes.append(because("redraws_own"))
        if changed:
            first = self.compiled_differs[changed[0]]
            # An edit gives the same without torch.compile, or what the untouched program gives with
            # it.
            is_edited = attacked is not None and attacked.is_edited
            is_excused = beside is not None and (is_edited or beside_kinds.isdisjoint(changed))
            (notes if is_excused else doubts).append(
                because("differs_without_fix", *changed, first)
            )
        if doubts:
            return "unproven", tuple(doubts)
        if attacked is not None and attacked.dropped:
            kinds = {difference.kind for difference in dropped}
            dropped += [item for item in attacked.dropped if item.kind not in kinds]
        # Exceptions that are raised in place of the program's.
        raised = [
            because("message", *(item.raised or ("", "")), int(item.is_compiled))
            for item in (attacked.exceptions if attacked else ())
        ]
        losses = [*_dropped(dropped), *([because("exceptions", *raised)] if raised else [])]
        return "verified with loss" if losses else "verified", (*notes, *losses)

    def _is_dropped(self, difference: Difference) -> bool:
        if difference.kind not in self.unstable_numbers:
            return difference.kind in MESSAGES and difference.change == "fewer"
        return difference.change in ("fewer", "fewer_and_numbers")


def _dropped(dropped: list[Difference]) -> list[Reason]:
    """Name what the program no longer writes; a log that goes to standard error is named once."""
    kinds = {difference.kind: difference for difference in dropped if difference.kind != "state"}
    if "logs" in kinds:
        kinds.pop("stderr", None)
    states = [difference for difference in dropped if difference.kind == "state"]
    return [
        *(because("drops_lines", difference) for difference in kinds.values()),
        *(because("not_kept", difference.where) for difference in states),
    ]


@dataclass(frozen=True)
class Verdict:
    """A judgement whether a variant's results are eager mode's but for rounding, None if unknown,
    with its method and reasons.

    ``change``: what the run that was compared needed besides the variant's own.
    """

    correct: bool | None
    correctness: Correctness | None
    reason: Reason | None
    change: RunChange = field(default_factory=RunChange)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reason, if there is one."""
        return () if self.reason is None else (self.reason,)


@dataclass(frozen=True)
class Accuracy:
    """What a variant's results are beside eager mode's, kind by kind.

    ``change``: what the run that was compared needed besides the variant's own.
    """

    verdict: AccuracyVerdict
    reasons: tuple[Reason, ...] = ()
    correctness: Correctness | None = None
    kinds: tuple[ComparedKind, ...] = ()
    differences: tuple[Difference, ...] = ()
    strides: Difference | None = None
    """How strides differ that don't count."""
    is_drawn_as_eager: bool = False
    change: RunChange = field(default_factory=RunChange)

    @property
    def is_right(self) -> bool:
        """Return whether results are eager mode's, but for rounding."""
        return self.verdict in ("same bits", "rounding")

    @property
    def first_call(self) -> int | None:
        """The first call with another result; None if there is none, or it isn't known."""
        calls = [item.call for item in self.differences if item.call is not None]
        return min(calls, default=None)


_COUNTING_TEXTS: frozenset[ResultKind] = frozenset({"stdout", "logs", "files"})
"""Texts that are results of a program; torch's own warnings and errors are among the others."""


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
        has_forms: bool = False,
        counts_strides: bool = False,
    ) -> None:
        on_phase("running without torch.compile")
        self.is_judging, self._has_forms = is_judging, has_forms
        self.counts_strides = counts_strides
        self._name, again_name = f"{prefix}results-{EAGER}", f"{prefix}{_AGAIN}"
        self._prefix = prefix
        self.eager = replays.replay(
            program, self._name, is_eager=True, measured=measured, has_forms=self._has_forms
        )
        """The first run as it is."""
        self._replays, self._program, self._on_phase = replays, program, on_phase
        self._failure = _failure(self.eager)
        self._rounding = RoundingNames(None, judged="variant")
        self._shaken: list[str] = []
        self._repeats, self._is_repeated = Untouched(), False
        self._lacks_float64: str | None = None
        if self._failure is not None or not is_judging:
            return
        on_phase("running in float64")
        float64 = f"{prefix}results-float64"
        precise = replays.replay(
            program, float64, is_eager=True, is_float64=True, has_forms=self._has_forms
        )
        if precise.exit.reason == "finished":
            self._rounding = RoundingNames(float64, (again_name,), judged="variant")
        else:
            self._lacks_float64 = (
                f"the program doesn't run in float64: {clause(precise.exit.message)}"
            )
        on_phase("running without torch.compile again")
        rounding = replace(self._rounding, judged="untouched")
        again = replays.replay(
            program,
            again_name,
            is_eager=True,
            references={EAGER: self._name},
            rounding=rounding,
            has_forms=self._has_forms,
        )
        self._failure = _failure(again)
        self._repeats = Untouched.seen(again)
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

    def replay(self, program: Program, name: str, **options: Any) -> Recording:  # noqa: ANN401 - passed on
        """Run a variant that is to be judged; ``given``: what else ``Replays.replay`` takes."""
        return self._replays.replay(
            program,
            name,
            references={EAGER: self._name},
            rounding=self._rounding,
            has_forms=self._has_forms,
            **options,
        )

    def judge(self, recording: Recording, program: Program, name: str, **options: Any) -> Verdict:  # noqa: ANN401
        """Judge a variant that was replayed so."""
        return self._judged(recording, program, name, **options)[0]

    def accuracy(self, recording: Recording, program: Program, name: str) -> Accuracy:
        """Judge a variant that was replayed so, each kind of its results on its own."""
        verdict, compared = self._judged(recording, program, name)
        if compared is None:
            return Accuracy("unknown", verdict.reasons, verdict.correctness)
        errors = {error.kind: error for error in (verdict.correctness or _NO_ERRORS).errors}
        texts = {kind for kind in compared.kinds if kind in TEXTS} - _COUNTING_TEXTS
        differing = {
            item.kind: item
            for item in compared.differences
            if item.kind not in texts and not self._repeats.covers(item)
        }
        strides = None if self.counts_strides else differing.pop("strides", None)
        if verdict.correct:
            # What may be rounding was found to be.
            differing = {kind: item for kind, item in differing.items() if kind in TEXTS}
        counts = dict(compared.counts)
        kinds = [
            ComparedKind(
                kind=kind,
                verdict=self._of_kind(kind, compared, differing.get(kind), verdict),
                count=counts.get(kind, 1),
                variant=errors[kind].variant if kind in errors else None,
                eager=errors[kind].eager if kind in errors else None,
            )
            for kind in compared.kinds
            if kind not in texts and counts.get(kind, 1)
            if kind != "strides" or strides is None
        ]
        of_kinds = {kind.verdict for kind in kinds}
        decided: AccuracyVerdict = "same bits"
        if verdict.correct is False or "different" in of_kinds:
            decided = "different"
        elif verdict.correct is None or "unknown" in of_kinds:
            decided = "unknown"
        elif not compared.is_bitwise_equal:
            decided = "rounding"
        reasons = verdict.reasons
        if decided == "unknown" and not reasons:
            unstable = (item.kind for item in kinds if item.verdict == "unknown")
            reasons = (because("unstable_in_eager", *sorted(unstable)),)
        return Accuracy(
            decided,
            reasons if decided in ("different", "unknown") else (),
            verdict.correctness,
            tuple(kinds),
            tuple(differing.values()) if decided == "different" else (),
            strides=strides,
            is_drawn_as_eager=verdict.change == EAGER_NUMBERS,
            change=verdict.change,
        )

    def _of_kind(
        self,
        kind: ResultKind,
        compared: Comparison,
        difference: Difference | None,
        verdict: Verdict,
    ) -> AccuracyVerdict:
        if difference is not None:
            judged = {reason.difference.kind for reason in verdict.reasons if reason.difference}
            is_wrong = verdict.correct is False and kind in judged
            return "different" if is_wrong or not difference.may_be_rounding else "unknown"
        if kind in self._repeats.unstable | self._repeats.unstable_numbers:
            return "unknown"
        return "rounding" if kind in compared.rounded else "same bits"

    def _judged(
        self,
        recording: Recording,
        program: Program,
        name: str,
        **options: Any,  # noqa: ANN401
    ) -> tuple[Verdict, Comparison | None]:
        if not self.is_judging:
            return Verdict(None, None, None), None
        compared = compared_with_eager(recording)
        if self._failure is not None or compared is None:
            return Verdict(None, None, self._failure or because("not_compared")), None
        differing = self._differing(compared)
        notes: list[str] = []
        change = RunChange()
        if differing and self._is_random:
            name, change, numbered = (
                f"{name}-eager-numbers",
                EAGER_NUMBERS,
                program.changed(EAGER_NUMBERS),
            )
            repeated = recording if numbered == program else self.replay(numbered, name, **options)
            if (comparison := compared_with_eager(repeated)) is not None:
                recording, compared, differing = repeated, comparison, self._differing(comparison)
                is_agreed = all(difference.may_be_rounding for difference in differing)
                notes += [_OTHER_NUMBERS] if is_agreed else []
        if differing and all(item.may_be_rounding for item in differing):
            differing = self._beside_shaken(name, differing)
            notes += [] if differing else [_STEPS]
        worst = min(differing, key=lambda difference: difference.may_be_rounding, default=None)
        reason = None if worst is None else because("differs", worst)
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
        return Verdict(correct, correctness, reason, change), compared

    @property
    def _is_random(self) -> bool:
        return self.eager.replay is not None and self.eager.replay.draws_random

    def _beside_shaken(self, name: str, differing: list[Difference]) -> list[Difference]:
        """Find the differences that remain after perturbing inputs in the last digit."""
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
            difference
            for difference in compared.results
            if not self._repeats.covers(difference)
            and (self.counts_strides or difference.kind != "strides")
        ]

    def _precision(self, recording: Recording) -> str | None:
        """Say what a float64 run leaves open about a variant's results; None if it says all."""
        if self._lacks_float64 is not None or recording.replay is None:
            return self._lacks_float64
        if apart := recording.replay.kinds_apart:
            is_one = apart == ("state",)
            way = (
                f"{'comes' if is_one else 'come'} from other random numbers"
                if self._is_random
                else f"{'is' if is_one else 'are'} computed in another way"
            )
            return f"in float64, {' and '.join(apart)} {way}"
        return None if recording.replay.errors else "no result is a floating-point number"

    def _unknown(self, compared: Comparison, worst: Difference | None) -> Reason | None:
        """Say why nobody knows if results are right, though none is certainly wrong; None if they
        are right.
        """
        if worst is not None:
            return because("may_be_rounding", worst)
        if unstable := [kind for kind in compared.kinds if kind in self._repeats.unprovable]:
            return because("unstable_in_eager", *unstable)
        # Of a call that raised there are no outputs; values that are too large are noted.
        is_raised = "exceptions" in compared.kinds and compared.note is None
        return None if is_raised or "outputs" in compared.kinds else because("too_large")


def _failure(eager: Recording) -> Reason | None:
    is_finished = eager.exit.reason == "finished"
    return None if is_finished else because("fails_in_eager", failure_of(eager))
