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
from typing import TYPE_CHECKING

from graphdoctor import __version__
from graphdoctor.facts.bench import EAGER, Noise, Speedup, Variant
from graphdoctor.facts.cure import AS_IT_WAS, CURED, CureReport, CureStep, StepOutcome
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.progress import DecidedStep
from graphdoctor.facts.reading import json_of
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.spec import RunSpec, Timing
from graphdoctor.fixes.kept import SearchOptions, try_fixes
from graphdoctor.fixes.verdicts import REPEATED_BLOCKS
from graphdoctor.probe.wire import CURE_FILE
from graphdoctor.studies.bench.reasons import diagnosed, reasons
from graphdoctor.studies.bench.rounds import judged, noise_of, speedup
from graphdoctor.studies.bench.timings import Measured, SideBySide, Timings, added_s, failure, slug, variant_of
from graphdoctor.studies.bench.variants import VariantSpec, variants_of
from graphdoctor.studies.cure.verdict import best_of, compile_lines, sentence
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.request import Measured as ToMeasure
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import Replays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from graphdoctor.facts.cure import CureReport
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.fixes.patch import FileChange
    from graphdoctor.fixes.search import SearchResult
    from graphdoctor.rules.diagnosis.selection import Selection
    from graphdoctor.trials.launch.child import Setup
    from graphdoctor.trials.launch.request import Request

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

    ``correct``: results are eager mode's, but for rounding; None if that is unknown.
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
    """A way to run the program. ``look``: what its calls compute; None if that wasn't looked at."""

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
    """What the search found. ``cured``: the best way; None if nothing helped."""

    eager: Variant
    as_it_was: Variant
    cured: Variant | None
    best: Way
    steps: tuple[CureStep, ...]
    noise: Noise | None
    call_count: int


class Search:
    """A greedy search."""

    def __init__(self, replays: Replays, base: RunSpec, folder: Path, setup: Setup, *, deadline: float) -> None:
        self._replays = replays
        self._base = base
        self._folder = folder
        self._deadline = deadline
        self._say = setup.watching.on_phase
        self._tell = setup.on_trial
        self._steps: list[CureStep] = []
        self._longest_s = 0.0
        self._number = 0

    def run(self, candidates: Sequence[Candidate]) -> Found:
        """Try each candidate on top of those that were kept."""
        with SideBySide(self._replays, self._folder / _CACHES, self._say) as ways:
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
        findings = reasons(diagnosed(self._folder / name, reference.eager.kernels), recording.kernels)
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


_FOLDER = "cure"
_SHARE_OF_FIXES = 0.5
"""Of the budget, what trials of fixes may take."""


@dataclass(frozen=True)
class Cure:
    """What the search found, and the edits that it needs."""

    report: CureReport
    changes: tuple[FileChange, ...]


@dataclass(frozen=True)
class Curing:
    """How to search. ``budget_s``: seconds after which nothing more is tried."""

    budget_s: float
    is_unsafe_tried: bool
    selection: Selection
    check: Callable[[Sequence[FileChange]], None] | None = None


def cure(request: Request, recording: Path, diagnosis: Diagnosis, asked: Curing, setup: Setup) -> Cure:
    """Search; the recording holds the answer."""
    began = time.monotonic()
    treated = _treated(request, recording, asked, setup, began) if diagnosis.findings else None
    folder = recording / _FOLDER
    with Replays(request, folder, setup.with_limit) as replays:
        search = Search(replays, request.spec, folder, setup, deadline=began + asked.budget_s)
        found = search.run([*_candidates(request, diagnosis, treated)])
    best = best_of(found.eager, found.as_it_was, found.cured, found.noise)
    changes = found.best.changes if best == CURED else {}
    needed = treated if best == CURED and treated and _has_fixes(treated, found.best) else None
    report = CureReport(
        graphdoctor_version=__version__,
        environment=diagnosis.recording.environment,
        target=diagnosis.recording.target.model_copy(update={"compile_arguments": request.spec.compile_arguments()}),
        text=sentence(found.eager, found.as_it_was, found.cured, best, found.steps, found.call_count),
        best=best,
        eager=found.eager,
        as_it_was=found.as_it_was,
        cured=found.cured,
        steps=found.steps,
        diff=needed.treatment.diff if needed else "",
        arguments={} if best in (None, EAGER) else VariantSpec(best, changes).arguments(request.spec),
        compile_lines=compile_lines(changes, request.spec, diagnosis.recording.target.blocks or ()),
        settings=needed.treatment.settings if needed else (),
        calls=needed.treatment.calls if needed else (),
        treatment=treated.treatment if treated else None,
        noise=found.noise,
        verified_calls=found.call_count,
        budget_s=asked.budget_s,
        spent_s=time.monotonic() - began,
        gaps=diagnosis.recording.gaps,
    )
    (recording / CURE_FILE).write_text(json_of(report), encoding="utf-8")
    return Cure(report, needed.changes if needed else ())


def _treated(request: Request, recording: Path, asked: Curing, setup: Setup, began: float) -> SearchResult:
    """Fixes that were verified; what they do to the call's time is measured beside everything else.

    Compiling each block by itself is a candidate of its own.
    """
    selection = replace(asked.selection, ignore=(*asked.selection.ignore, REPEATED_BLOCKS))
    options = SearchOptions(
        selection,
        is_unsafe_tried=asked.is_unsafe_tried,
        timing=Timing.none,
        deadline=began + _SHARE_OF_FIXES * asked.budget_s,
    )
    return try_fixes(request, recording, options, setup, asked.check)


def _has_fixes(treated: SearchResult, way: Way | None = None) -> bool:
    """Whether fixes were verified, and a way has them."""
    return treated.treatment.after is not None and (way is None or way.program == treated.program)


def _candidates(request: Request, diagnosis: Diagnosis, treated: SearchResult | None) -> Iterator[Candidate]:
    """What to try, in order: the program's own trouble first, because every mode suffers from it."""
    base = request.spec
    if treated is not None and _has_fixes(treated):
        yield Candidate("fixes", {}, treated.program)
    if base.backend != "inductor":
        return
    # But for eager mode and the user's own.
    for variant in variants_of((), base, is_all=True, has_blocks=bool(diagnosis.recording.target.blocks))[2:]:
        yield Candidate(variant.name, variant.changes, needs_cuda=variant.needs_cuda(base))
