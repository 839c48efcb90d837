"""Looks for the fastest correct way to run a program, one step after the other, until time is up.

Comes in: a program, and changes to try. Goes out: what was kept. Each step is one more change on top of what was kept
before: fixes, a mode, regional compilation. It is kept if its results are right and its calls are measurably faster, or
as fast and quicker to compile. All ways run side by side, as their user runs them, so each is compared with the best
one before it in the same rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from graphdoctor.facts.wording import counted, duration, factor_text
from graphdoctor.fixes.kept import SearchOptions, try_fixes
from graphdoctor.fixes.patch import FileChange
from graphdoctor.fixes.search import SearchResult
from graphdoctor.fixes.verdicts import REPEATED_BLOCKS
from graphdoctor.probe.wire import CURE_FILE
from graphdoctor.studies.bench.reasons import Look, look_at
from graphdoctor.studies.bench.rounds import judged, noise_of, speedup
from graphdoctor.studies.bench.timings import Measured, SideBySide, Timings, added_s, failure, slug, variant_of
from graphdoctor.studies.bench.variants import VariantSpec, variants_of
from graphdoctor.studies.bench.verdict import pays_off
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Measured as ToMeasure
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.views.measures import seconds_text

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
        return self.measured.is_steady and (self.look is None or self.look.verdict.correct is not False)


@dataclass
class Search:
    """A greedy search."""

    replays: Replays
    base: RunSpec
    folder: Path
    setup: Setup
    deadline: float
    steps: list[CureStep] = field(default_factory=list)
    longest_s: float = 0.0

    def run(self, candidates: Sequence[Candidate]) -> tuple[Way, Way, Timings]:
        """Try each candidate on top of those that were kept: the user's own way, the best one, and their times."""
        say = self.setup.on_phase
        with SideBySide(self.replays, self.folder / _CACHES, say) as ways:
            eager = ways.start_eager(Program())
            ways.start_twin(eager, Program())
            before = Way(Program(), {}, self._started(ways, VariantSpec(AS_IT_WAS), Program()))
            reference = Reference(self.replays, Program(), on_phase=say, measured=ToMeasure(kernels=True))
            if eager.is_steady and before.measured.is_steady:
                before = replace(before, look=self._look(before, reference))
            best = before
            uses_cuda = eager.warm is not None and eager.warm["uses_cuda"]
            for candidate in candidates if eager.is_steady else ():
                # Without CUDA, some are the same as others.
                if uses_cuda or not candidate.needs_cuda:
                    best = self._step(ways, eager, best, candidate, reference)
            shown = [before.measured, *([] if best is before else [best.measured])]
            ways.time(eager, shown, is_precise=True)
        return before, best, Timings(eager, shown, noise_of(eager.times, eager.speedup))

    def _started(self, ways: SideBySide, spec: VariantSpec, program: Program) -> Measured:
        one = ways.compile(spec, program)
        ways.restart(one, program)
        return one

    def _step(self, ways: SideBySide, eager: Measured, best: Way, candidate: Candidate, reference: Reference) -> Way:
        began = time.monotonic()
        if began + self.longest_s > self.deadline:
            step = CureStep(name=candidate.name, outcome="skipped", reason="time was up", is_late=True)
            return self._decided(step, best, eager)
        program = candidate.program or best.program
        changes = {**best.changes, **candidate.changes}
        spec = VariantSpec(f"{len(self.steps) + 1} {candidate.name}", changes)
        measured = self._started(ways, spec, program)
        way, outcome, reason, ratio = self._outcome(ways, eager, best, Way(program, changes, measured), reference)
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
        self, ways: SideBySide, eager: Measured, best: Way, way: Way, reference: Reference
    ) -> tuple[Way, StepOutcome, str | None, Speedup | None]:
        if not way.measured.is_steady:
            return way, "failed", failure(way.measured), None
        ratio = None
        if best.measured.is_steady:
            ways.time(eager, [best.measured, way.measured], is_precise=True)
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
        if not look.verdict.correct:
            return way, "wrong", look.verdict.reason or "its results couldn't be compared", ratio
        return replace(way, look=look), "kept", None, ratio

    def _is_quicker(self, eager: Measured, best: Way, way: Way) -> bool:
        mine, other = added_s(way.measured.cold, eager.warm), added_s(best.measured.cold, eager.warm)
        return mine is not None and other is not None and mine <= _QUICKER * other and other - mine >= _QUICKER_S

    def _look(self, way: Way, reference: Reference) -> Look:
        self.setup.on_phase("comparing results")
        name = f"check-{slug(way.measured.spec.name)}"
        return look_at(reference, way.program, name, way.changes, self.folder, beside=reference.eager.kernels)

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
) -> Cure:
    """Search; the recording holds the answer.

    ``options``: which fixes to try.
    ``budget_s``: seconds after which nothing more is tried.
    """
    began, base = time.monotonic(), request.spec
    # Compiling each block by itself is a candidate of its own, and what fixes do to the call's time is measured beside
    # everything else.
    selection = replace(options.selection, ignore=(*options.selection.ignore, REPEATED_BLOCKS))
    deadline = began + _SHARE_OF_FIXES * budget_s
    options = replace(options, selection=selection, timing="none", deadline=deadline)
    treated = try_fixes(request, recording, options, setup, check) if diagnosis.findings else None
    folder = recording / _FOLDER
    with Replays(request, folder, setup.with_limit) as replays:
        search = Search(replays, base, folder, setup, began + budget_s)
        before, best_way, timings = search.run([*_candidates(request, diagnosis, treated)])
    eager, as_it_was = variant_of(timings.eager, timings, base), before.shown(timings, base)
    cured = None
    if best_way is not before:
        cured = replace(best_way.shown(timings, base), name=CURED)
    best = best_of(eager, as_it_was, cured, timings.noise)
    changes = best_way.changes if best == CURED else {}
    needed = treated if best == CURED and treated and _has_fixes(treated, best_way) else None
    call_count = 0 if timings.eager.warm is None else timings.eager.warm["call_count"]
    report = CureReport(
        graphdoctor_version=__version__,
        environment=diagnosis.recording.environment,
        target=replace(diagnosis.recording.target, compile_arguments=base.compile_arguments()),
        text=sentence(eager, as_it_was, cured, best, search.steps, call_count),
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


# The answer.


def compile_lines(changes: Mapping[str, object], base: RunSpec, blocks: Sequence[RepeatedBlocks]) -> tuple[str, ...]:
    """Lines that compile a model, in place of the user's own call of torch.compile.

    Returns:
        None at all if nothing changed.
    """
    if not changes:
        return ()
    spec = VariantSpec("", changes)
    given = {name: value for name, value in spec.arguments(base).items() if name not in spec.spec(base).config}
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    if spec.spec(base).regional:
        return block_lines(blocks, given)
    return (f"model = torch.compile(model{', ' if arguments else ''}{arguments})",)


def best_of(eager: Variant, as_it_was: Variant, cured: Variant | None, noise: Noise | None) -> Best | None:
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
) -> str:
    """The answer."""
    if eager.call_us is None:
        return f"The program fails without torch.compile, so nothing was tried: {eager.reason}."
    times = " → ".join(_time(variant) for variant in (eager, as_it_was, cured) if variant is not None)
    if best == CURED and cured is not None:
        calls = "your call" if call_count == 1 else f"your {call_count:,} calls"
        return f"{times}, verified on {calls}; {_cost(cured, eager)}."
    if best == AS_IT_WAS:
        return f"{times}; nothing that was tried is faster; {_cost(as_it_was, eager)}."
    said = next((finding.message for finding in as_it_was.findings), None)
    if as_it_was.status in ("failed", "wrong") and as_it_was.reason:
        said = f"torch.compile: {as_it_was.reason}."
    tried = counted(sum(step.outcome != "skipped" for step in steps), "other way")
    return f"Plain eager is fastest: {times}. {f'{said} ' if said else ''}Tried: {tried}."


def _time(variant: Variant) -> str:
    if variant.call_us is None:
        return f"{variant.name}: {'it fails' if variant.status == 'failed' else 'not timed'}"
    gain = "" if variant.speedup is None or variant.name == EAGER else f" ({factor_text(variant.speedup.ratio)})"
    wrong = " (with wrong results)" if variant.status == "wrong" else ""
    return f"{variant.name} {duration(variant.call_us.median)}{gain}{wrong}"


def _cost(variant: Variant, eager: Variant) -> str:
    if variant.compile_cold_s is None:
        return "what compiling takes is unknown"
    took = f"compile {seconds_text(variant.compile_cold_s)}"
    return took if variant.break_even_calls is None else f"{took}, {pays_off(variant, eager)}"
