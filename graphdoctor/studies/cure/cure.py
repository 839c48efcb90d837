"""Looks for the fastest correct way to run a program, one step after the other, until time is up.

Comes in: a program, and changes to try. Goes out: what was kept. Each step is one more change on top of what was kept
before: fixes, a mode, regional compilation. It is kept if its results are right and its calls are measurably faster, or
as fast and quicker to compile. All ways run side by side, as their user runs them, so each is compared with the best
one before it in the same rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphdoctor.facts.bench import Noise, Speedup, Variant
from graphdoctor.facts.cure import AS_IT_WAS, CURED, CureStep, StepOutcome
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.progress import DecidedStep
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.bench.judging import judged, noise_of
from graphdoctor.studies.bench.reasons import reasons
from graphdoctor.studies.bench.rounds import speedup
from graphdoctor.studies.bench.timings import Measured, SideBySide, Timings, added_s, failure, slug, variant_of
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.request import Measured as ToMeasure
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import Replays

_CACHES = "caches"
_QUICKER = 0.8
"""A way that compiles in this share of the time or less is worth having if its calls are as fast."""

_QUICKER_S = 1.0


@dataclass(frozen=True)
class Candidate:
    """One change to try on top of those that were kept.

    Args:
        changes: Fields of ``RunSpec`` with other values; empty for another program.
        program: Another program; None for the best one so far.
    """

    name: str
    changes: Mapping[str, object]
    program: Program | None = None
    needs_cuda: bool = False


@dataclass(frozen=True)
class Look:
    """What the calls of one way compute, and what slows them down.

    Args:
        correct: Results are eager mode's, but for rounding; None if that is unknown.
    """

    correct: bool | None
    reason: str | None
    findings: tuple[Finding, ...]

    def shown(self, variant: Variant) -> Variant:
        """A variant with it."""
        found = {"correct": self.correct, "findings": self.findings}
        if self.correct is not False or variant.status != "ok":
            return variant.model_copy(update=found)
        return variant.model_copy(update={**found, "status": "wrong", "reason": self.reason})


@dataclass(frozen=True)
class Way:
    """A way to run the program.

    Args:
        look: What its calls compute; None if that wasn't looked at.
    """

    program: Program
    changes: Mapping[str, object]
    measured: Measured
    look: Look | None = None

    @property
    def is_usable(self) -> bool:
        """It runs, and isn't known to be wrong."""
        return self.measured.is_steady and (self.look is None or self.look.correct is not False)


@dataclass(frozen=True)
class Found:
    """What the search found.

    Args:
        cured: The best way; None if nothing helped.
    """

    eager: Variant
    as_it_was: Variant
    cured: Variant | None
    best: Way
    steps: tuple[CureStep, ...]
    noise: Noise | None
    call_count: int


class Search:
    """A greedy search."""

    def __init__(
        self,
        replays: Replays,
        base: RunSpec,
        folder: Path,
        *,
        deadline: float,
        on_phase: Callable[[str], None],
        on_step: Callable[[DecidedStep], None],
        diagnose: Callable[[Path, KernelShare | None], Diagnosis],
    ) -> None:
        self._replays = replays
        self._base = base
        self._folder = folder
        self._deadline = deadline
        self._say = on_phase
        self._tell = on_step
        self._diagnose = diagnose
        self._steps: list[CureStep] = []
        self._longest_s = 0.0
        self._number = 0

    def run(self, candidates: Sequence[Candidate]) -> Found:
        """Try each candidate on top of those that were kept."""
        with SideBySide(self._replays, self._base, self._folder / _CACHES, self._say) as ways:
            eager = ways.start_eager(Program())
            own = VariantSpec(AS_IT_WAS)
            before = Way(Program(), {}, self._started(ways, own, Program()))
            reference = Reference(self._replays, Program(), on_phase=self._say, measured=ToMeasure(kernels=True))
            if eager.is_steady and before.measured.is_steady:
                before = replace(before, look=self._look(before, reference))
            best = before
            for candidate in _possible(candidates, eager) if eager.is_steady else ():
                best = self._step(ways, eager, best, candidate, reference)
            shown = [before.measured, *([] if best is before else [best.measured])]
            ways.time(eager, shown)
        timings = Timings(eager, shown, noise_of(eager.times, eager.speedup))
        start = eager.warm
        return Found(
            eager=variant_of(eager, timings, self._base),
            as_it_was=self._shown(before, timings),
            cured=None if best is before else self._shown(best, timings).model_copy(update={"name": CURED}),
            best=best,
            steps=tuple(self._steps),
            noise=timings.noise,
            call_count=0 if start is None else start["call_count"],
        )

    def _shown(self, way: Way, timings: Timings) -> Variant:
        variant = variant_of(way.measured, timings, self._base)
        return variant if way.look is None else way.look.shown(variant)

    def _started(self, ways: SideBySide, spec: VariantSpec, program: Program) -> Measured:
        one = ways.compile(spec, program)
        ways.restart(one, program)
        return one

    def _step(self, ways: SideBySide, eager: Measured, best: Way, candidate: Candidate, reference: Reference) -> Way:
        """Try one candidate; the better of the two ways."""
        began = time.monotonic()
        if began + self._longest_s > self._deadline:
            return self._decided(eager, candidate, best, "skipped", "time was up", is_late=True)
        program = candidate.program or best.program
        changes = {**best.changes, **candidate.changes}
        self._number += 1
        measured = self._started(ways, VariantSpec(f"{self._number} {candidate.name}", changes), program)
        way, outcome, reason, ratio = self._outcome(ways, eager, best, Way(program, changes, measured), reference)
        self._longest_s = max(self._longest_s, time.monotonic() - began)
        compile_s = added_s(measured.cold, eager.warm), added_s(best.measured.cold, eager.warm)
        kept = self._decided(eager, candidate, way if outcome == "kept" else best, outcome, reason, ratio, compile_s)
        # The user's own way stays until the end, to be timed beside the best one.
        over = way if kept is best else best
        if over.measured.spec.name != AS_IT_WAS:
            ways.end([over.measured])
        return kept

    def _outcome(
        self, ways: SideBySide, eager: Measured, best: Way, way: Way, reference: Reference
    ) -> tuple[Way, StepOutcome, str | None, Speedup | None]:
        if not way.measured.is_steady:
            return way, "failed", failure(way.measured), None
        ratio = None
        if best.measured.is_steady:
            ways.time(eager, [best.measured, way.measured])
            mine, other = way.measured.turns, best.measured.turns
            ratio = None if mine is None or other is None else speedup(mine, other)
        # If the best way until now is wrong or fails, any that is right is better.
        if best.is_usable:
            verdict = judged(ratio, noise_of(eager.times, eager.speedup))
            if verdict == "slower":
                return way, "slower", None, ratio
            if verdict != "faster" and not self._is_quicker(eager, best, way):
                return way, "no gain", None, ratio
        look = self._look(way, reference)
        if not look.correct:
            return way, "wrong", look.reason or "its results couldn't be compared", ratio
        return replace(way, look=look), "kept", None, ratio

    def _is_quicker(self, eager: Measured, best: Way, way: Way) -> bool:
        """It compiles measurably quicker."""
        mine, other = added_s(way.measured.cold, eager.warm), added_s(best.measured.cold, eager.warm)
        return mine is not None and other is not None and mine <= _QUICKER * other and other - mine >= _QUICKER_S

    def _look(self, way: Way, reference: Reference) -> Look:
        """Run a way once more with the instrumented backend."""
        self._say("comparing results")
        name = f"check-{slug(way.measured.spec.name)}"

        def again(change: RunChange, name: str) -> Recording:
            program = Program(way.program.content, way.program.change.joined(change))
            return self._replays.replay(
                program,
                name,
                spec=way.changes,
                measured=ToMeasure(coverage=True, guard_cost=True, kernels=True),
                is_counted=False,
                **reference.arguments,
            )

        recording = again(RunChange(), name)
        findings = reasons(self._diagnose(self._folder / name, reference.eager.kernels), recording.kernels)
        if recording.exit.reason != "finished":
            return Look(None, (recording.exit.message or "it failed").rstrip("."), findings)
        found = reference.judge(recording, name, again)
        return Look(found.correct, found.reason, findings)

    def _decided(
        self,
        eager: Measured,
        candidate: Candidate,
        way: Way,
        outcome: StepOutcome,
        reason: str | None,
        ratio: Speedup | None = None,
        compile_s: tuple[float | None, float | None] = (None, None),
        *,
        is_late: bool = False,
    ) -> Way:
        step = CureStep(
            name=candidate.name,
            outcome=outcome,
            reason=reason,
            is_late=is_late,
            speedup=ratio,
            compile_cold_s=compile_s[0],
            compile_before_s=compile_s[1],
        )
        self._steps.append(step)
        self._tell(DecidedStep(step, _median_us(way.measured), _median_us(eager)))
        return way


def _possible(candidates: Sequence[Candidate], eager: Measured) -> Sequence[Candidate]:
    """Those that differ from others on the program's device."""
    uses_cuda = eager.warm is not None and eager.warm["uses_cuda"]
    return [candidate for candidate in candidates if uses_cuda or not candidate.needs_cuda]


def _median_us(one: Measured) -> float | None:
    return None if one.times is None else one.times.median
