"""Measures each way to run a program beside eager mode: what it costs, what it gives, and whether
it is right.

Comes in: a program and the ways to run it. Goes out: a ``BenchReport``. Times come from processes
that run the program as its user does (``timings.py``); the user's own way is recorded meanwhile,
unless it was recorded before. Where it is asked for, each variant is then run once more and
recorded, for its results (``trials/judge.py``), or for graphs, breaks and kernels; then one that
fails or is wrong is followed down the compiler (``stages.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from graphdoctor.facts.base import values_of
from graphdoctor.facts.bench import (
    BENCH_PARTS,
    BenchPart,
    BenchReport,
    Stages,
    Sweep,
    SweepPoint,
    Variant,
)
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.kernels import CacheUse, KernelShare
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import CaptureGap, Recording
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import BENCH_FILE, BenchStart
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.studies.bench.minified import minified
from graphdoctor.studies.bench.reasons import look_at, reasons
from graphdoctor.studies.bench.stages import Subject, follow
from graphdoctor.studies.bench.timings import (
    Measured,
    SideBySide,
    Timing,
    Timings,
    slug,
    throughput_of,
    variant_of,
)
from graphdoctor.studies.bench.variants import Sizes, VariantSpec, name_of, variants_of
from graphdoctor.studies.bench.verdict import verdict
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup, last_events
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Measured as ToMeasure
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.version import __version__

_FOLDER = "bench"
"""Below a recording: the recordings of its variants."""

_MOST_SIDE_BY_SIDE = 12
_CACHES = "caches"
_MINIFIED = "minified"
"""Below a variant's recording: the smallest program that fails."""

_STAGES_S = 300.0
"""How long a variant is followed down the stages, and how long torch's minifier may take."""


class Ways(Protocol):
    """The ways to run a program, once that is known of it."""

    def __call__(self, *, has_blocks: bool = False) -> Sequence[VariantSpec]:
        """Eager mode, the user's own, and others; ``has_blocks``: some of its modules repeat."""


@dataclass(frozen=True)
class Wanted:
    """What is measured.

    Args:
        ways: None for eager mode and the user's own.
        parts: Beside compiling and calls; all of it means that times are precise, too.
        sweep: Sizes to run with; None for those of the calls.
        is_minified: The smallest program of a variant that fails or is wrong.
    """

    ways: Ways | None = None
    parts: tuple[BenchPart, ...] = ()
    sweep: Sizes | None = None
    is_minified: bool = False

    @property
    def is_thorough(self) -> bool:
        """Whether nothing is left out."""
        return set(self.parts) == set(BENCH_PARTS)

    @property
    def needs_recording(self) -> bool:
        """Whether the program must have been recorded before: no process that makes the user's own
        run is timed.
        """
        return "cold" in self.parts or self.sweep is not None


def bench(
    request: Request,
    recording: Path,
    diagnosis: Diagnosis | None,
    setup: Setup,
    wanted: Wanted = Wanted(),
) -> tuple[BenchReport, Diagnosis]:
    """Measure a target, into the folder of its recording; what was found, and the diagnosis of
    that.

    ``diagnosis``: of a recording that was made already; None where the user's own run is to be
    recorded while it is measured.
    """
    folder, base = recording / _FOLDER, request.spec

    def measured(program: Program, folder: Path, prefix: str = "") -> tuple[BenchReport, Diagnosis]:
        def say(phase: str) -> None:
            setup.on_phase(f"{prefix}{phase}")

        with Replays(request, folder, setup.with_limit) as replays:
            return _Bench(base, program, wanted, recording, folder, replays, say).report(diagnosis)

    if (sweep := wanted.sweep) is None:
        report, known = measured(Program(), folder)
    else:
        points = []
        for size in sweep.sizes:
            prefix = f"{' and '.join(sweep.sources)} = {size:,}: "
            report, known = measured(
                Program(change=sweep.change(size)), folder / f"size-{size}", prefix
            )
            points.append(SweepPoint(size=size, variants=report.variants, noise=report.noise))
        swept = Sweep(sources=sweep.sources, points=tuple(points))
        report = replace(report, sweep=swept, verdict=verdict(report.variants, report.noise, swept))
    # Where the program itself fails, that is all there is to say, and its recording says it.
    if report.verdict.best is not None or known.recording.exit.reason == "finished":
        write_fact(report, recording / BENCH_FILE)
    return report, known


@dataclass
class _Bench:
    base: RunSpec
    program: Program
    wanted: Wanted
    recording: Path
    folder: Path
    replays: Replays
    on_phase: Callable[[str], None]
    recordings: dict[str, str] = field(default_factory=dict)
    gaps: dict[CaptureGap, list[str]] = field(default_factory=dict)
    followed: list[tuple[Subject, Stages]] = field(default_factory=list)

    def report(self, diagnosis: Diagnosis | None) -> tuple[BenchReport, Diagnosis]:
        """Time the ways side by side, then look into each as far as that is asked for."""
        own = None
        with SideBySide(self.replays, self.folder / _CACHES, self.on_phase) as ways:
            if diagnosis is None:
                own = Measured(VariantSpec(name_of(self.base)))
                eager = ways.start_eager(
                    self.program, partial(ways.start_recorded, own, self.recording)
                )
                has_blocks = bool(last_events(self.recording).get("target", {}).get("blocks"))
            else:
                eager = ways.start_eager(self.program)
                has_blocks = bool(diagnosis.recording.target.blocks)
            timings = self._timed(ways, eager, own, has_blocks=has_blocks)
        known = diagnosis or diagnose_recording(self.recording).diagnosis
        start, variants = timings.eager.warm, self._looked_into(timings)
        if own is not None:
            variants = tuple(
                _of_own(one, known) if one.name == own.spec.name else one for one in variants
            )
        return self._reported(timings, start, variants, known), known

    def _timed(
        self, ways: SideBySide, eager: Measured, own: Measured | None, *, has_blocks: bool
    ) -> Timings:
        listed = self.wanted.ways or partial(variants_of, (), self.base, is_all=False)
        _, *others = listed(has_blocks=has_blocks)
        started = [
            one.warm["peak_memory_bytes"]
            for one in (eager, own)
            if one is not None and one.warm is not None
        ]
        most = fitting(max(started, default=None), most=_MOST_SIDE_BY_SIDE)
        is_cold = "cold" in self.wanted.parts
        timing = Timing(
            ways, self.base, self.program, most, is_cold=is_cold, is_precise=self.wanted.is_thorough
        )
        return timing.time(eager, own, others)

    def _reported(
        self,
        timings: Timings,
        start: BenchStart | None,
        variants: tuple[Variant, ...],
        diagnosis: Diagnosis,
    ) -> BenchReport:
        if start is not None and start["uses_cuda"]:
            unseen = [
                one.name for one in variants if one.call_us is not None and one.device_us is None
            ]
            self.gaps |= {_UNSEEN: unseen} if unseen else {}
        gaps = (
            replace(gap, message=f"{', '.join(names)}: {gap.message}")
            for gap, names in self.gaps.items()
        )
        return BenchReport(
            graphdoctor_version=__version__,
            environment=diagnosis.recording.environment,
            target=replace(
                diagnosis.recording.target, compile_arguments=self.base.compile_arguments()
            ),
            verdict=verdict(variants, timings.noise, has_results="results" in self.wanted.parts),
            measured=self.wanted.parts,
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
        if eager.status != "ok" or not {"results", "causes"} & {*self.wanted.parts}:
            return eager, *(variant for _, variant in others)
        reference = Reference(
            self.replays,
            self.program,
            on_phase=self.on_phase,
            measured=ToMeasure(kernels=self._has_causes),
            is_judging="results" in self.wanted.parts,
        )
        own = reference.own
        self._keep_gaps(eager.name, reference.eager)
        is_noisy = timings.noise is None or timings.noise.is_noisy
        found = replace(
            eager,
            correct=own.correct,
            correctness=own.correctness,
            **_launched(reference.eager.kernels),
        )
        return found, *(
            self._variant(one, shown, reference, is_noisy=is_noisy) for one, shown in others
        )

    def _variant(
        self, one: Measured, shown: Variant, reference: Reference, *, is_noisy: bool
    ) -> Variant:
        if shown.status == "skipped" or one.was_stopped:
            return shown
        name = slug(shown.name)
        self.on_phase(f"looking into {shown.name}")
        # They are measured one after the other, so what a busy machine does to one of them is no
        # difference.
        is_comparable = not is_noisy and shown.judgement != "faster"
        beside = reference.eager.kernels if is_comparable else None
        look = look_at(
            reference,
            self.program,
            name,
            one.spec.changes,
            self.folder,
            beside=beside,
            has_causes=self._has_causes,
        )
        recording, summary, judged = look.recording, look.diagnosis.summary, look.verdict
        self._keep_gaps(shown.name, recording)
        self.recordings[shown.name] = str(self.folder / name)
        status, reason = shown.status, shown.reason
        if recording.exit.reason != "finished":
            # It ran as its user runs it, and not under our eyes: what it computes is unknown.
            reason = f"its results weren't compared: {judged.reason}" if status == "ok" else reason
        elif judged.correct is None:
            reason = judged.reason or reason
        elif judged.correct is False and status == "ok":
            status, reason = "wrong", judged.reason
        variant = replace(
            shown,
            status=status,
            reason=reason,
            regions=look.diagnosis.recording.target.regions,
            **values_of(summary, "graphs", "break_sites", "recompiles"),
            cuda_graphs=recording.cuda_graphs,
            cache=_with_reasons(shown.cache, recording),
            findings=look.findings,
            correct=judged.correct,
            correctness=judged.correctness,
            **_launched(recording.kernels),
        )
        if variant.status == "ok" or one.never_settles or not self._has_causes:
            return variant
        return replace(variant, stages=self._stages(one, name, reference))

    def _stages(self, one: Measured, name: str, reference: Reference) -> Stages:
        spec = one.spec.spec(self.base)
        subject = Subject(self.replays, reference, self.program, spec, one.spec.changes, name)

        def say(phase: str) -> None:
            self.on_phase(f"{one.spec.name}: {phase}")

        stages = follow(subject, limit_s=_STAGES_S, on_phase=say, known=self.followed)
        self.followed.append((subject, stages))
        if not self.wanted.is_minified:
            return stages
        return minified(
            subject, stages, self.folder / name / _MINIFIED, timeout_s=_STAGES_S, on_phase=say
        )

    @property
    def _has_causes(self) -> bool:
        return "causes" in self.wanted.parts

    def _keep_gaps(self, name: str, recording: Recording) -> None:
        for gap in recording.gaps:
            if gap.kind in _OWN_GAPS:
                self.gaps.setdefault(gap, []).append(name)


def _of_own(variant: Variant, diagnosis: Diagnosis) -> Variant:
    """The user's own way, with what its recording says, unless it was looked into."""
    if variant.graphs is not None:
        return variant
    summary = diagnosis.summary
    return replace(
        variant,
        regions=diagnosis.recording.target.regions,
        **values_of(summary, "graphs", "break_sites", "recompiles"),
        cuda_graphs=diagnosis.recording.cuda_graphs if variant.status == "ok" else None,
        findings=reasons(diagnosis, None),
    )


_UNSEEN = CaptureGap(
    code="GD900",
    kind="kernels",
    message="Whether a call waits for its host is unknown: torch.profiler saw no kernels on the device.",
)
_OWN_GAPS = frozenset({"kernels", "cuda_graphs"})
"""What only a bench measures; the recorded run has the other gaps itself."""


def _launched(kernels: KernelShare | None) -> dict[str, Any]:
    return {"kernels": kernels, "launches": None if kernels is None else kernels.launches}


def _with_reasons(cache: CacheUse | None, recording: Recording) -> CacheUse | None:
    """What the caches did in a restart, with torch's reasons for graphs that they can't keep."""
    if cache is None or recording.caches is None:
        return cache
    return replace(cache, bypass_reasons=recording.caches.bypass_reasons)
