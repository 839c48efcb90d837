"""Looks for the fastest correct way to run a program, one step after the other, until time is up.

Comes in: a program, and changes to try. Goes out: what was kept. Each step is one more change on
top of what was kept before: fixes, a mode, regional compilation. It is kept if its results are
right and its calls are measurably faster, or, where cold starts are measured, as fast and quicker
to compile. All ways run side by side, as in a bench, so each is compared with the best one before
it in the same rounds. Where eager mode's call is shorter than any compiled one, nothing is tried.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from graphdoctor.facts.base import values_of
from graphdoctor.facts.bench import (
    AS_IT_WAS,
    CURED,
    EAGER,
    Best,
    CureReport,
    CureStep,
    Noise,
    Variant,
)
from graphdoctor.facts.command import block_lines
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.progress import DecidedStep
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import RepeatedBlocks
from graphdoctor.facts.spec import RunSpec
from graphdoctor.fixes.kept import try_fixes
from graphdoctor.fixes.patch import FileChange, SearchOptions, SearchResult
from graphdoctor.probe.wire import CURE_FILE
from graphdoctor.studies.bench.looks import Look, reasons
from graphdoctor.studies.bench.rounds import judged, speedup
from graphdoctor.studies.bench.side_by_side import SideBySide, Way
from graphdoctor.studies.bench.variants import VariantSpec, variants_of
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.version import __version__
from graphdoctor.views.answers import cure_text
from graphdoctor.views.reasons import reasons_text

_FOLDER = "cure"
_SHARE_OF_FIXES = 1 / 3
"""The part of what is left of the budget that trials of fixes may take: every mode is worth a try,
too."""

_QUICKER = 0.8
"""A way that compiles in this share of the time or less is worth having if its calls are as
fast."""

_QUICKER_S = 1.0


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
) -> tuple[CureReport, tuple[FileChange, ...]]:
    """Search: the answer, which the recording's folder holds, and the edits that it needs.

    ``options``: which fixes to try; ``budget_s``: seconds after which nothing more is tried;
    ``is_cold``: with starts from an empty cache.

    Raises:
        KeyboardInterrupt: It was interrupted before there was anything to report.
    """
    began, base = time.monotonic(), request.spec
    # What the best program computes, and how long it takes, is compared here.
    options = replace(options, is_timed=False, is_checked=False)
    treated: SearchResult | None = None

    def candidates() -> Iterator[tuple[VariantSpec, Program | None]]:
        """Yield changes in the order in which they are tried: the program's own trouble first,
        because every mode suffers from it.
        """
        nonlocal treated
        if any(finding.is_treatable for finding in diagnosis.findings):
            program = None
            if search.has_time:
                fixing_s = _SHARE_OF_FIXES * (search.deadline - time.monotonic())
                asked = replace(options, budget_s=fixing_s)
                treated = try_fixes(request, recording, asked, setup, check)
                program = treated.program
            if treated is None or treated.treatment.after is not None:
                yield VariantSpec("fixes"), program
        if base.backend == "inductor":
            blocks = bool(diagnosis.recording.target.blocks)
            # Eager mode and the user's own come first.
            for spec in variants_of((), base, is_all=True, has_blocks=blocks)[2:]:
                yield spec, None

    with Replays(request, recording / _FOLDER, setup.with_limit) as replays:
        ways = SideBySide(
            replays, base, Program(), recording / _FOLDER / "caches", setup.on_phase, is_cold
        )
        search = _Search(ways, recording / _FOLDER, setup, began + budget_s)
        with contextlib.suppress(KeyboardInterrupt):
            search.run(candidates)
    if ways.is_interrupted and search.own.warm is None:
        raise KeyboardInterrupt
    best_way = search.best
    recorded, eager, as_it_was = (
        diagnosis.recording,
        ways.variant(ways.eager),
        search.variant(search.own),
    )
    if AS_IT_WAS not in search.looks:
        as_it_was = as_it_was.replace(findings=reasons(diagnosis, None))
    cured, needed = None, None
    if best_way is not search.own:
        cured = search.variant(best_way).replace(name=CURED)
    best = best_of(eager, as_it_was, cured, ways.noise)
    changes = best_way.spec.changes if best == CURED else {}
    if treated is not None and treated.treatment.after is not None and best == CURED:
        needed = treated if best_way.program == treated.program else None
    report = CureReport(
        graphdoctor_version=__version__,
        environment=recorded.environment,
        target=recorded.target.replace(compile_arguments=base.compile_arguments()),
        text="",
        best=best,
        eager=eager,
        as_it_was=as_it_was,
        cured=cured,
        steps=tuple(search.steps),
        arguments={} if best in (None, EAGER) else VariantSpec(best, changes).arguments(base),
        compile_lines=compile_lines(changes, base, recorded.target.blocks or ()),
        **(values_of(needed.treatment, "diff", "settings", "calls") if needed else {}),
        treatment=treated.treatment if treated else None,
        noise=ways.noise,
        verified_calls=ways.eager.warm["call_count"] if ways.eager.warm else 0,
        budget_s=budget_s,
        spent_s=time.monotonic() - began,
        is_interrupted=ways.is_interrupted,
        gaps=recorded.gaps,
    )
    report = report.replace(text=cure_text(report, search.floor_us))
    write_fact(report, recording / CURE_FILE)
    return report, needed.changes if needed else ()


@dataclass
class _Search:
    """A greedy search; ``looks``: what the calls of ways compute, by name."""

    ways: SideBySide
    folder: Path
    setup: Setup
    deadline: float
    own: Way = field(default_factory=lambda: Way(VariantSpec(AS_IT_WAS)))
    best: Way = field(init=False)
    steps: list[CureStep] = field(default_factory=list)
    looks: dict[str, Look] = field(default_factory=dict)
    longest_s: float = 0.0
    """How long a step took at most, the user's own way among them."""
    comparing_s: float | None = None
    """How long it took at most to compare results; None if that wasn't done."""
    floor_us: float | None = None
    """The least time of a compiled call, if that is more than eager mode's call."""

    def __post_init__(self) -> None:
        self.best = self.own

    def run(self, candidates: Callable[[], Iterable[tuple[VariantSpec, Program | None]]]) -> None:
        """Try each candidate on top of those that were kept.

        A candidate's program is None for the best one so far.
        """
        ways, own, began = self.ways, self.own, time.monotonic()
        with ways:
            if ways.is_cold:
                ways.start_eager()
                ways.start([own])
            else:
                ways.start_eager(partial(ways.start, [own]))
            if ways.eager.is_steady:
                ways.time([own])
                self.longest_s = time.monotonic() - began
                floor_us, eager_us = ways.floor_us(own), ways.eager.call_us
                if floor_us is not None and own.call_us is not None:
                    # A compiled call that took less is the least that was seen.
                    floor_us = min(floor_us, own.call_us)
                if floor_us is not None and eager_us is not None and eager_us < floor_us:
                    self.floor_us = floor_us
                else:
                    for spec, program in candidates():
                        # Without CUDA, some are the same as others.
                        if ways.eager.uses_cuda or not spec.needs_cuda(ways.base):
                            self.best = self._step(self.best, spec, program)
                if self.best is not own:
                    ways.time([own, self.best])
        if (
            ways.eager.is_steady
            and self.best is own
            and judged(own.speedup, ways.noise) == "faster"
            and time.monotonic() < self.deadline
        ):
            # Nobody looked whether what it computes is right.
            self._look(own)

    def variant(self, way: Way) -> Variant:
        """Return a way's times, with what its calls compute."""
        variant, look = self.ways.variant(way), self.looks.get(way.name)
        return variant if look is None else look.shown(variant)

    @property
    def has_time(self) -> bool:
        """Check whether one more step fits, if it takes as long as the longest, and comparing its
        results as long as before; the first time that takes about as long as a step.
        """
        comparing_s = self.longest_s if self.comparing_s is None else self.comparing_s
        return time.monotonic() + self.longest_s + comparing_s < self.deadline

    def _step(self, best: Way, spec: VariantSpec, program: Program | None) -> Way:
        began, step = time.monotonic(), CureStep(name=spec.name, outcome="failed")
        if not self.has_time:
            step = step.replace(outcome="skipped", reason="time was up", is_late=True)
            return self._decided(step, best)
        name = f"{len(self.steps) + 1} {spec.name}"
        changes = {**best.spec.changes, **spec.changes}
        way = Way(VariantSpec(name, changes), program or best.program)
        self.ways.start([way])
        cold_s, before_s = (self.ways.added_s(started.cold) for started in (way, best))
        step = step.replace(compile_cold_s=cold_s, compile_before_s=before_s)
        step = self._judged(step, best, way)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        kept, over = (way, best) if step.outcome == "kept" else (best, way)
        self._decided(step, kept)
        # The user's own way stays until the end, to be timed beside the best one.
        if over.name != AS_IT_WAS:
            self.ways.end([over])
        return kept

    def _judged(self, step: CureStep, best: Way, way: Way) -> CureStep:
        if not way.is_steady:
            return step.replace(reason=way.failure)
        if best.is_steady:
            self.ways.time([best, way])
            if way.turns is not None and best.turns is not None:
                step = step.replace(speedup=speedup(way.turns, best.turns))
        # If the best way until now is wrong or fails, any that is right is better.
        look = self.looks.get(best.name)
        if best.is_steady and (look is None or look.verdict.correct is not False):
            judgement = judged(step.speedup, self.ways.noise)
            if judgement == "slower":
                return step.replace(outcome="slower")
            # None if cold starts aren't measured.
            cold_s, before_s = step.compile_cold_s, step.compile_before_s
            is_quicker = (
                cold_s is not None
                and before_s is not None
                and cold_s <= _QUICKER * before_s
                and before_s - cold_s >= _QUICKER_S
            )
            if judgement != "faster" and not is_quicker:
                return step.replace(outcome="no gain")
        verdict = self._look(way).verdict
        if not verdict.correct:
            reason = reasons_text(verdict.reasons) or "its results couldn't be compared"
            return step.replace(outcome="wrong", reason=reason)
        return step.replace(outcome="kept")

    @cached_property
    def _reference(self) -> Reference:
        """The program without torch.compile, to judge results by."""
        return Reference(
            self.ways.replays,
            Program(),
            on_phase=self.setup.on_phase,
            measured=Measured(kernels=True),
            prefix="judged-",
        )

    def _look(self, way: Way) -> Look:
        self.setup.on_phase("comparing results")
        began = time.monotonic()
        reference = self._reference
        beside = reference.eager.kernels
        look = Look.at(way, reference, f"check-{way.slug}", self.folder, beside=beside)
        self.looks[way.name] = look
        self.comparing_s = max(self.comparing_s or 0.0, time.monotonic() - began)
        return look

    def _decided(self, step: CureStep, best: Way) -> Way:
        self.steps.append(step)
        medians = [way.call_us for way in (best, self.ways.eager)]
        self.setup.on_trial(DecidedStep(step, *medians))
        return best


def compile_lines(
    changes: Mapping[str, object], base: RunSpec, blocks: Sequence[RepeatedBlocks]
) -> tuple[str, ...]:
    """Write the lines that compile a model, in place of the user's own call of torch.compile; none
    if nothing changed.
    """
    if not changes:
        return ()
    variant = VariantSpec("", changes)
    spec = variant.spec(base)
    arguments = {
        name: value for name, value in variant.arguments(base).items() if name not in spec.config
    }
    if spec.regional:
        return block_lines(blocks, arguments)
    text = "".join(f", {name}={value!r}" for name, value in arguments.items())
    return (f"model = torch.compile(model{text})",)


def best_of(
    eager: Variant, as_it_was: Variant, cured: Variant | None, noise: Noise | None
) -> Best | None:
    """Name the fastest correct way; None if eager mode wasn't timed."""
    if eager.call_us is None:
        return None
    if cured is not None and judged(cured.speedup, noise) == "faster":
        return "cured"
    if as_it_was.status == "ok" and as_it_was.judgement == "faster":
        return "as you had it"
    return "eager"
