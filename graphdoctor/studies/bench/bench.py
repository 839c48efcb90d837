"""Measures each way to run a program beside eager mode: what it costs, what it gives, and whether it is right.

Comes in: a recorded program and the ways to run it. Goes out: a ``BenchReport``. Times come from processes that run
the program as its user does (``timings.py``). Each variant is then run once more and recorded, for its results
(``trials/judge.py``), graphs, breaks and kernels; one that fails or is wrong is followed down the compiler
(``stages.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphdoctor import __version__
from graphdoctor.facts.bench import BenchReport, Stages, Sweep, SweepPoint, Variant
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.kernels import CacheUse, KernelShare
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import CaptureGap, Recording
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import BENCH_FILE
from graphdoctor.studies.bench.minified import minified
from graphdoctor.studies.bench.reasons import look_at
from graphdoctor.studies.bench.stages import Subject, follow
from graphdoctor.studies.bench.timings import (
    Measured,
    SideBySide,
    Timings,
    slug,
    throughput_of,
    time_variants,
    variant_of,
)
from graphdoctor.studies.bench.variants import Sizes, VariantSpec, variants_of
from graphdoctor.studies.bench.verdict import verdict
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Measured as ToMeasure
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays

_FOLDER = "bench"
"""Below a recording: the recordings of its variants."""

_MOST_SIDE_BY_SIDE = 12
_CACHES = "caches"
_MINIFIED = "minified"
"""Below a variant's recording: the smallest program that fails."""

_STAGES_S = 300.0
"""How long a variant is followed down the stages, and how long torch's minifier may take."""


def bench(
    request: Request,
    recording: Path,
    diagnosis: Diagnosis,
    setup: Setup,
    variants: Sequence[VariantSpec] = (),
    *,
    sweep: Sizes | None = None,
    is_minified: bool = False,
) -> BenchReport:
    """Measure a target that was recorded already; its recording holds the answer.

    ``variants``: the ways to run it, eager mode first; by default that and the user's own.
    ``sweep``: sizes to run it with; None for those of its calls.
    """
    folder, base = recording / _FOLDER, request.spec
    ways = variants or variants_of((), base, is_all=False)
    most = fitting(diagnosis.recording.exit.peak_memory_bytes, most=_MOST_SIDE_BY_SIDE)

    def measured(program: Program, folder: Path, prefix: str = "") -> BenchReport:
        def say(phase: str) -> None:
            setup.on_phase(f"{prefix}{phase}")

        with Replays(request, folder, setup.with_limit) as replays:
            return _Bench(base, program, ways, folder, replays, say, is_minified).report(diagnosis, most)

    if sweep is None:
        report = measured(Program(), folder)
    else:
        points = []
        for size in sweep.sizes:
            prefix = f"{' and '.join(sweep.sources)} = {size:,}: "
            report = measured(Program(change=sweep.change(size)), folder / f"size-{size}", prefix)
            points.append(SweepPoint(size=size, variants=report.variants, noise=report.noise))
        swept = Sweep(sources=sweep.sources, points=tuple(points))
        report = replace(report, sweep=swept, verdict=verdict(report.variants, report.noise, swept))
    write_fact(report, recording / BENCH_FILE)
    return report


@dataclass
class _Bench:
    base: RunSpec
    program: Program
    variants: Sequence[VariantSpec]
    folder: Path
    replays: Replays
    on_phase: Callable[[str], None]
    is_minified: bool
    recordings: dict[str, str] = field(default_factory=dict)
    gaps: dict[CaptureGap, list[str]] = field(default_factory=dict)
    followed: list[tuple[Subject, Stages]] = field(default_factory=list)

    def report(self, diagnosis: Diagnosis, most: int) -> BenchReport:
        """Time so many processes side by side at most, then look into each way."""
        with SideBySide(self.replays, self.folder / _CACHES, self.on_phase) as side_by_side:
            timings = time_variants(side_by_side, self.base, self.program, self.variants[1:], most=most)
        start, variants = timings.eager.warm, self._looked_into(timings)
        gaps = (replace(gap, message=f"{', '.join(names)}: {gap.message}") for gap, names in self.gaps.items())
        return BenchReport(
            graphdoctor_version=__version__,
            environment=diagnosis.recording.environment,
            target=replace(diagnosis.recording.target, compile_arguments=self.base.compile_arguments()),
            verdict=verdict(variants, timings.noise),
            call=None if start is None else start["inputs"],
            throughput=throughput_of(timings),
            noise=timings.noise,
            variants=variants,
            gaps=(*diagnosis.recording.gaps, *gaps),
            recordings=self.recordings,
        )

    def _looked_into(self, timings: Timings) -> tuple[Variant, ...]:
        eager = variant_of(timings.eager, timings, self.base)
        others = [(one, variant_of(one, timings, self.base)) for one in timings.others]
        if eager.status != "ok":
            return eager, *(variant for _, variant in others)
        reference = Reference(self.replays, self.program, on_phase=self.on_phase, measured=ToMeasure(kernels=True))
        own = reference.own
        self._keep_gaps(eager.name, reference.eager)
        is_noisy = timings.noise is None or timings.noise.is_noisy
        kernels = reference.eager.kernels
        found = replace(eager, correct=own.correct, correctness=own.correctness, **_launched(kernels))
        return found, *(self._variant(one, shown, reference, is_noisy=is_noisy) for one, shown in others)

    def _variant(self, one: Measured, shown: Variant, reference: Reference, *, is_noisy: bool) -> Variant:
        if shown.status == "skipped" or one.was_stopped:
            return shown
        name = slug(shown.name)
        self.on_phase(f"comparing the results of {shown.name}")
        # They are measured one after the other, so what a busy machine does to one of them is no difference.
        is_comparable = not is_noisy and shown.judgement != "faster"
        beside = reference.eager.kernels if is_comparable else None
        look = look_at(reference, self.program, name, one.spec.changes, self.folder, beside=beside)
        recording, summary, judged = look.recording, look.diagnosis.summary, look.verdict
        self._keep_gaps(shown.name, recording)
        self.recordings[shown.name] = str(self.folder / name)
        status, reason = shown.status, shown.reason
        if recording.exit.reason != "finished":
            # It ran as its user runs it, and not under our eyes: what it computes is unknown.
            reason = f"its results weren't compared: {judged.reason}" if status == "ok" else reason
        elif judged.correct is None:
            reason = judged.reason
        elif judged.correct is False and status == "ok":
            status, reason = "wrong", judged.reason
        variant = replace(
            shown,
            status=status,
            reason=reason,
            regions=look.diagnosis.recording.target.regions,
            graphs=summary.graphs,
            break_sites=summary.break_sites,
            recompiles=summary.recompiles,
            cuda_graphs=recording.cuda_graphs,
            cache=_cache(one, recording),
            findings=look.findings,
            correct=judged.correct,
            correctness=judged.correctness,
            **_launched(recording.kernels),
        )
        if variant.status == "ok" or one.never_settles:
            return variant
        return replace(variant, stages=self._stages(one, name, reference))

    def _stages(self, one: Measured, name: str, reference: Reference) -> Stages:
        spec = one.spec.spec(self.base)
        subject = Subject(self.replays, reference, self.program, spec, one.spec.changes, name)

        def say(phase: str) -> None:
            self.on_phase(f"{one.spec.name}: {phase}")

        stages = follow(subject, limit_s=_STAGES_S, on_phase=say, known=self.followed)
        self.followed.append((subject, stages))
        if not self.is_minified:
            return stages
        return minified(subject, stages, self.folder / name / _MINIFIED, timeout_s=_STAGES_S, on_phase=say)

    def _keep_gaps(self, name: str, recording: Recording) -> None:
        for gap in recording.gaps:
            if gap.kind in _OWN_GAPS:
                self.gaps.setdefault(gap, []).append(name)


_OWN_GAPS = frozenset({"kernels", "cuda_graphs"})
"""What only a bench measures; the recorded run has the other gaps itself."""


def _launched(kernels: KernelShare | None) -> dict[str, Any]:
    return {"kernels": kernels, "launches": None if kernels is None else kernels.launches}


def _cache(one: Measured, recording: Recording) -> CacheUse | None:
    """What the caches did in a restart, with torch's reasons for graphs that they can't keep."""
    counted = one.warm["cache"] if one.warm is not None else None
    if counted is None:
        return None
    reasons = () if recording.caches is None else recording.caches.bypass_reasons
    return CacheUse(**counted, bypass_reasons=reasons)
