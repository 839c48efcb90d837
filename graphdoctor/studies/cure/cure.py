"""Looks for the fastest correct way to run a program, one step after the other, until time is up.

Comes in: a program, and changes to try. Goes out: what was kept. Each step is one more change on
top of what was kept
before: fixes, a mode, regional compilation. It is kept if its results are right and its calls are
    measurably faster,
or, where cold starts are measured, as fast and quicker to compile. All ways run side by side, as
their user runs them, so each is compared with the best one before it in the same rounds. Where
eager mode's call is shorter than any compiled one, nothing is tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from graphdoctor import __version__
from graphdoctor.facts.base import values_of
from graphdoctor.facts.bench import EAGER, Noise, Speedup, Variant
from graphdoctor.facts.command import block_lines
from graphdoctor.facts.cure import AS_IT_WAS, CURED, Best, CureReport, CureStep, StepOutcome
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.progress import DecidedStep
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import RepeatedBlocks
from graphdoctor.facts.spec import RunSpec
from graphdoctor.fixes.kept import SearchOptions, try_fixes
from graphdoctor.fixes.patch import FileChange
from graphdoctor.fixes.search import SearchResult
from graphdoctor.fixes.verdicts import REPEATED_BLOCKS
from graphdoctor.probe.wire import CURE_FILE
from graphdoctor.studies.bench.reasons import Look, look_at, reasons
from graphdoctor.studies.bench.rounds import judged, noise_of, speedup
from graphdoctor.studies.bench.timings import (
    Measured,
    SideBySide,
    Timings,
    added_s,
    failure,
    slug,
    variant_of,
)
from graphdoctor.studies.bench.variants import VariantSpec, variants_of
from graphdoctor.studies.bench.verdict import pays_off
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Measured as ToMeasure
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.views.measures import is_too_noisy, seconds_text
from graphdoctor.wording import duration, factor_text

_CACHES = "caches"
_QUICKER = 0.8
"""A way that compiles in this share of the time or less is worth having if its calls are as
fast."""

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
class Way:
    """A way to run the program. ``look``: what its calls compute; None if that wasn't looked at."""

    program: Program
    changes: Mapping[str, object]
    measured: Measured
    look: Look | None = None

    def shown(self, timings: Timings, base: RunSpec) -> Variant:
        """Its times, with what its calls compute."""
        variant, look = variant_of(self.measured, timings, base), self.look
        if look is None:
            return variant
        variant = replace(variant, correct=look.verdict.correct, findings=look.findings)
        is_wrong = look.verdict.correct is False and variant.status == "ok"
        return replace(variant, status="wrong", reason=look.verdict.reason) if is_wrong else variant

    @property
    def is_usable(self) -> bool:
        """It runs, and isn't known to be wrong."""
        return self.measured.is_steady and (
            self.look is None or self.look.verdict.correct is not False
        )


@dataclass
class Search:
    """A greedy search."""

    replays: Replays
    base: RunSpec
    folder: Path
    setup: Setup
    deadline: float
    is_cold: bool
    steps: list[CureStep] = field(default_factory=list)
    longest_s: float = 0.0
    floor_us: float | None = None
    """What a compiled call takes at least, if that is more than eager mode's call."""

    def run(self, candidates: Callable[[], Iterable[Candidate]]) -> tuple[Way, Way, Timings]:
        """Try each candidate on top of those that were kept: the user's own way, the best one, and
        their times.
        """
        with SideBySide(self.replays, self.folder / _CACHES, self.setup.on_phase) as ways:
            own = Measured(VariantSpec(AS_IT_WAS))
            if self.is_cold:
                eager = ways.start_eager(Program())
                own = self._started(ways, own.spec, Program())
            else:
                eager = ways.start_eager(Program(), partial(ways.start, own, Program()))
            before = best = Way(Program(), {}, own)
            if eager.is_steady:
                ways.compare(eager, [own], Program())
                floor_us = ways.floor_us(own)
                if (
                    floor_us is not None
                    and eager.times is not None
                    and eager.times.median < floor_us
                ):
                    self.floor_us = floor_us
                else:
                    best = self._tried(ways, eager, before, candidates())
            shown = [own, *([] if best is before else [best.measured])]
            if best is not before:
                ways.compare(eager, shown, Program())
        noise = noise_of(eager.times, eager.speedup)
        if eager.is_steady and best is before and judged(own.speedup, noise) == "faster":
            # Nobody looked whether what it computes is right.
            best = before = replace(before, look=self._look(before))
        return before, best, Timings(eager, shown, noise)

    @cached_property
    def reference(self) -> Reference:
        """The program without torch.compile, to judge results by."""
        return Reference(
            self.replays,
            Program(),
            on_phase=self.setup.on_phase,
            measured=ToMeasure(kernels=True),
            prefix="judged-",
        )

    def _tried(
        self, ways: SideBySide, eager: Measured, best: Way, candidates: Iterable[Candidate]
    ) -> Way:
        for candidate in candidates:
            # Without CUDA, some are the same as others.
            if eager.uses_cuda or not candidate.needs_cuda:
                best = self._step(ways, eager, best, candidate)
        return best

    def _started(self, ways: SideBySide, spec: VariantSpec, program: Program) -> Measured:
        if self.is_cold:
            one = ways.compile(spec, program)
            ways.restart(one, program)
        else:
            ways.start(one := Measured(spec), program)
        return one

    def _step(self, ways: SideBySide, eager: Measured, best: Way, candidate: Candidate) -> Way:
        began = time.monotonic()
        if began + self.longest_s > self.deadline:
            step = CureStep(
                name=candidate.name, outcome="skipped", reason="time was up", is_late=True
            )
            return self._decided(step, best, eager)
        program = candidate.program or best.program
        changes = {**best.changes, **candidate.changes}
        spec = VariantSpec(f"{len(self.steps) + 1} {candidate.name}", changes)
        measured = self._started(ways, spec, program)
        way, outcome, reason, ratio = self._outcome(
            ways, eager, best, Way(program, changes, measured)
        )
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        step = CureStep(
            name=candidate.name,
            outcome=outcome,
            reason=reason,
            speedup=ratio,
            compile_cold_s=added_s(measured.cold, eager.warm),
            compile_before_s=added_s(best.measured.cold, eager.warm),
        )
        kept = self._decided(step, way if outcome == "kept" else best, eager)
        # The user's own way stays until the end, to be timed beside the best one.
        over = way if kept is best else best
        if over.measured.spec.name != AS_IT_WAS:
            ways.end([over.measured])
        return kept

    def _outcome(
        self, ways: SideBySide, eager: Measured, best: Way, way: Way
    ) -> tuple[Way, StepOutcome, str | None, Speedup | None]:
        if not way.measured.is_steady:
            return way, "failed", failure(way.measured), None
        ratio = None
        if best.measured.is_steady:
            ways.compare(eager, [best.measured, way.measured], Program())
            mine, other = way.measured.turns, best.measured.turns
            ratio = None if mine is None or other is None else speedup(mine, other)
        # If the best way until now is wrong or fails, any that is right is better.
        if best.is_usable:
            verdict = judged(ratio, noise_of(eager.times, eager.speedup))
            if verdict == "slower":
                return way, "slower", None, ratio
            if verdict != "faster" and not self._is_quicker(eager, best, way):
                return way, "no gain", None, ratio
        look = self._look(way)
        if not look.verdict.correct:
            return way, "wrong", look.verdict.reason or "its results couldn't be compared", ratio
        return replace(way, look=look), "kept", None, ratio

    def _is_quicker(self, eager: Measured, best: Way, way: Way) -> bool:
        mine, other = (
            added_s(way.measured.cold, eager.warm),
            added_s(best.measured.cold, eager.warm),
        )  # none if warm
        return (
            mine is not None
            and other is not None
            and mine <= _QUICKER * other
            and other - mine >= _QUICKER_S
        )

    def _look(self, way: Way) -> Look:
        self.setup.on_phase("comparing results")
        name, reference = f"check-{slug(way.measured.spec.name)}", self.reference
        return look_at(
            reference, way.program, name, way.changes, self.folder, beside=reference.eager.kernels
        )

    def _decided(self, step: CureStep, way: Way, eager: Measured) -> Way:
        self.steps.append(step)
        medians = [None if one.times is None else one.times.median for one in (way.measured, eager)]
        self.setup.on_trial(DecidedStep(step, *medians))
        return way


_FOLDER = "cure"
_SHARE_OF_FIXES = 0.5
"""Of the budget, what trials of fixes may take."""


@dataclass(frozen=True)
class Cure:
    """What the search found, and the edits that it needs."""

    report: CureReport
    changes: tuple[FileChange, ...]


def cure(
    request: Request,
    recording: Path,
    diagnosis: Diagnosis,
    options: SearchOptions,
    setup: Setup,
    check: Callable[[Sequence[FileChange]], None] | None,
    *,
    budget_s: float,
    is_cold: bool = False,
) -> Cure:
    """Search; the recording holds the answer.

    ``options``: which fixes to try.
    ``budget_s``: seconds after which nothing more is tried.
    ``is_cold``: with starts from an empty cache.
    """
    began, base = time.monotonic(), request.spec
    # Compiling each block by itself is a candidate of its own, and what fixes do to the call's time
    # is measured beside everything else.
    selection = replace(options.selection, ignore=(*options.selection.ignore, REPEATED_BLOCKS))
    options = replace(
        options, selection=selection, timing="none", deadline=began + _SHARE_OF_FIXES * budget_s
    )
    folder = recording / _FOLDER
    treated: SearchResult | None = None

    def candidates() -> Iterator[Candidate]:
        nonlocal treated
        treated = (
            try_fixes(request, recording, options, setup, check) if diagnosis.findings else None
        )
        yield from _candidates(request, diagnosis, treated)

    with Replays(request, folder, setup.with_limit) as replays:
        search = Search(replays, base, folder, setup, began + budget_s, is_cold)
        before, best_way, timings = search.run(candidates)
    eager, as_it_was = variant_of(timings.eager, timings, base), before.shown(timings, base)
    if before.look is None:
        as_it_was = replace(as_it_was, findings=reasons(diagnosis, None))
    cured = None if best_way is before else replace(best_way.shown(timings, base), name=CURED)
    best = best_of(eager, as_it_was, cured, timings.noise)
    changes = best_way.changes if best == CURED else {}
    needed = treated if best == CURED and treated and _has_fixes(treated, best_way) else None
    call_count = 0 if timings.eager.warm is None else timings.eager.warm["call_count"]
    report = CureReport(
        graphdoctor_version=__version__,
        environment=diagnosis.recording.environment,
        target=replace(diagnosis.recording.target, compile_arguments=base.compile_arguments()),
        text=sentence(eager, as_it_was, cured, best, search.steps, call_count, search.floor_us),
        best=best,
        eager=eager,
        as_it_was=as_it_was,
        cured=cured,
        steps=tuple(search.steps),
        arguments={} if best in (None, EAGER) else VariantSpec(best, changes).arguments(base),
        compile_lines=compile_lines(changes, base, diagnosis.recording.target.blocks or ()),
        **(values_of(needed.treatment, "diff", "settings", "calls") if needed else {}),
        treatment=treated.treatment if treated else None,
        noise=timings.noise,
        verified_calls=call_count,
        budget_s=budget_s,
        spent_s=time.monotonic() - began,
        gaps=diagnosis.recording.gaps,
    )
    write_fact(report, recording / CURE_FILE)
    return Cure(report, needed.changes if needed else ())


def _has_fixes(treated: SearchResult, way: Way | None = None) -> bool:
    return treated.treatment.after is not None and (way is None or way.program == treated.program)


def _candidates(
    request: Request, diagnosis: Diagnosis, treated: SearchResult | None
) -> Iterator[Candidate]:
    """What to try, in order: the program's own trouble first, because every mode suffers from
    it.
    """
    base = request.spec
    if treated is not None and _has_fixes(treated):
        yield Candidate("fixes", {}, treated.program)
    if base.backend != "inductor":
        return
    # But for eager mode and the user's own.
    for variant in variants_of(
        (), base, is_all=True, has_blocks=bool(diagnosis.recording.target.blocks)
    )[2:]:
        yield Candidate(variant.name, variant.changes, needs_cuda=variant.needs_cuda(base))


# The answer.


def compile_lines(
    changes: Mapping[str, object], base: RunSpec, blocks: Sequence[RepeatedBlocks]
) -> tuple[str, ...]:
    """Lines that compile a model, in place of the user's own call of torch.compile.

    Returns:
        None at all if nothing changed.
    """
    if not changes:
        return ()
    spec = VariantSpec("", changes)
    given = {
        name: value
        for name, value in spec.arguments(base).items()
        if name not in spec.spec(base).config
    }
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    if spec.spec(base).regional:
        return block_lines(blocks, given)
    return (f"model = torch.compile(model{', ' if arguments else ''}{arguments})",)


def best_of(
    eager: Variant, as_it_was: Variant, cured: Variant | None, noise: Noise | None
) -> Best | None:
    """The fastest correct way.

    Returns:
        None if eager mode wasn't timed.
    """
    if eager.call_us is None:
        return None
    if cured is not None and judged(cured.speedup, noise) == "faster":
        return "cured"
    if as_it_was.status == "ok" and as_it_was.judgement == "faster":
        return "as you had it"
    return "eager"


def sentence(
    eager: Variant,
    as_it_was: Variant,
    cured: Variant | None,
    best: Best | None,
    steps: Sequence[CureStep],
    call_count: int,
    floor_us: float | None = None,
) -> str:
    """The answer; ``floor_us``: what a compiled call takes at least, where that is more than eager
    mode's.
    """
    if eager.call_us is None:
        return f"The program fails without torch.compile, so nothing was tried: {eager.reason}."
    times = " → ".join(
        _time(variant) for variant in (eager, as_it_was, cured) if variant is not None
    )
    if best == CURED and cured is not None:
        calls = "your call" if call_count == 1 else f"your {call_count:,} calls"
        return f"{times}, verified on {calls}; {_cost(cured, eager)}."
    if best == AS_IT_WAS:
        return f"{times}; nothing that was tried is faster; {_cost(as_it_was, eager)}."
    said = next((finding.message for finding in as_it_was.findings), None)
    if as_it_was.status in ("failed", "wrong") and as_it_was.reason:
        said = f"torch.compile: {as_it_was.reason}."
    eagerly, written = (
        duration(eager.call_us.median),
        _time(as_it_was).removeprefix(AS_IT_WAS).lstrip(": "),
    )
    ways = [way for way in (as_it_was, cured) if way is not None]
    lead = "Plain eager is fastest"
    if any(way.speedup is not None and is_too_noisy(way.speedup, way.judgement) for way in ways):
        lead = "Too noisy to say whether anything is faster than eager"
    elif any(way.judgement == "same" for way in ways):
        lead = "Nothing is measurably faster than eager"
    why = "" if said is None else f" {said.rstrip('.')}."
    if floor_us is not None:
        rest = f" Any compiled call takes at least {duration(floor_us)} here."
    else:
        rest = (
            f"{why} Nothing tried helps."
            if any(step.outcome != "skipped" for step in steps)
            else why
        )
    return f"{lead} ({eagerly}); compiled as written: {written}.{rest}"


def _time(variant: Variant) -> str:
    if variant.call_us is None:
        return f"{variant.name}: {'it fails' if variant.status == 'failed' else 'not timed'}"
    ratio = None if variant.name == EAGER else variant.speedup
    gain = "" if ratio is None or ratio.low <= 1 <= ratio.high else f" ({factor_text(ratio.ratio)})"
    wrong = " (with wrong results)" if variant.status == "wrong" else ""
    return f"{variant.name} {duration(variant.call_us.median)}{gain}{wrong}"


def _cost(variant: Variant, eager: Variant) -> str:
    if variant.compile_s is None:
        return "what compiling takes is unknown"
    took = f"compile {seconds_text(variant.compile_s)}"
    return took if variant.break_even_calls is None else f"{took}, {pays_off(variant, eager)}"
