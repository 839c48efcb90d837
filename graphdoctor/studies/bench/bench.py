"""Measures each way to run a program beside eager mode: what it costs, what it gives, and whether
it is right.

Comes in: a program and the ways to run it. Goes out: a ``BenchReport``. Times come from processes
that run the program as its user does (``side_by_side.py``); the user's own way is recorded
meanwhile, unless it was recorded before. Where it is asked for, each variant is then run once more
and recorded (``looks.py``), for its results, or for graphs, breaks and kernels; then one that fails
or is wrong is followed down the compiler (``stages.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from graphdoctor.facts.bench import (
    BENCH_PARTS,
    CUDA_GRAPH_MODES,
    CUDA_GRAPH_OPTION,
    EAGER,
    BenchPart,
    BenchReport,
    BenchVerdict,
    Noise,
    Throughput,
    Variant,
    asks_for_cuda_graphs,
)
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import CaptureGap, Recording
from graphdoctor.probe.wire import BENCH_FILE
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.rules.kernels import TensorFloatOff
from graphdoctor.rules.recompiles import RecompileLimit
from graphdoctor.studies.accuracy.stages import Subject, follow
from graphdoctor.studies.bench.looks import Look, launched, reasons, with_counts
from graphdoctor.studies.bench.side_by_side import SideBySide, Way
from graphdoctor.studies.bench.variants import VariantSpec, name_of, variants_of
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup, last_events
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.version import __version__
from graphdoctor.views.answers import bench_text

_FOLDER = "bench"
"""Below a recording: the recordings of its variants."""

_MOST_SIDE_BY_SIDE = 12
_STAGES_S = 300.0
"""Seconds that a variant is followed down the stages."""

_UNSEEN = CaptureGap(
    code="GD900",
    kind="kernels",
    message=(
        "Whether a call waits for its host is unknown: torch.profiler saw no kernels on the device."
    ),
)
_OWN_GAPS = frozenset({"kernels", "cuda_graphs"})
"""Gaps of what only a bench measures; the recorded run has the other gaps itself."""


@dataclass(frozen=True)
class BenchPlan:
    """The measurements to make.

    Args:
        ways: The ways to run the program, given whether some of its modules repeat, eager mode and
            the user's own first; None for these two.
        parts: Beside compiling and calls; all of them mean that times are precise, too.
    """

    ways: Callable[[bool], Sequence[VariantSpec]] | None = None
    parts: tuple[BenchPart, ...] = ()

    @property
    def needs_recording(self) -> bool:
        """Return whether the program must have been recorded before: no process that makes the
        user's own run is timed.
        """
        return "cold" in self.parts


def bench(
    request: Request,
    recording: Path,
    diagnosis: Diagnosis | None,
    setup: Setup,
    plan: BenchPlan = BenchPlan(),
) -> tuple[BenchReport, Diagnosis]:
    """Measure a target, into the folder of its recording.

    ``diagnosis``: of a recording that was made already; None where the user's own run is to be
    recorded while it is measured.
    """
    folder = recording / _FOLDER

    with Replays(request, folder, setup.with_limit) as replays:
        ways = SideBySide(
            replays,
            request.spec,
            Program(),
            folder / "caches",
            setup.on_phase,
            "cold" in plan.parts,
        )
        report, diagnosed = _Bench(plan, ways, recording, folder).report(diagnosis)
    # Where the program itself fails, its recording says so, and there is nothing else to say.
    if report.verdict.best is not None or diagnosed.recording.exit.reason == "finished":
        write_fact(report, recording / BENCH_FILE)
    return report, diagnosed


@dataclass
class _Bench:
    plan: BenchPlan
    ways: SideBySide
    recording: Path
    folder: Path
    recordings: dict[str, str] = field(default_factory=dict)
    gaps: dict[CaptureGap, list[str]] = field(default_factory=dict)

    def report(self, diagnosis: Diagnosis | None) -> tuple[BenchReport, Diagnosis]:
        """Time the ways side by side, then look into each as far as that is asked for.

        Raises:
            KeyboardInterrupt: It was interrupted before there was anything to report.
        """
        ways, base, own = self.ways, self.ways.base, None
        others: list[Way] = []
        with contextlib.suppress(KeyboardInterrupt), ways:
            if diagnosis is None:
                own = Way(VariantSpec(name_of(base)), ways.program)
                ways.start_eager(partial(ways.start_recorded, own, self.recording))
                has_blocks = bool(last_events(self.recording).get("target", {}).get("blocks"))
            else:
                ways.start_eager()
                has_blocks = bool(diagnosis.recording.target.blocks)
            list_ways = self.plan.ways or partial(variants_of, (), base, False)
            others = [
                own if own is not None and own.spec == spec else Way(spec, ways.program)
                for spec in list_ways(has_blocks)[1:]
            ]
            started = [way.warm for way in (ways.eager, own) if way is not None and way.warm]
            peak_bytes = max((start["peak_memory_bytes"] for start in started), default=None)
            most = fitting(peak_bytes, most=_MOST_SIDE_BY_SIDE)
            is_precise = set(self.plan.parts) == set(BENCH_PARTS)
            ways.time_all(others, most, is_precise=is_precise)
        if not any(way.warm for way in others) and ways.is_interrupted:
            raise KeyboardInterrupt
        start, noise = ways.eager.warm, ways.noise
        diagnosis = diagnosis or diagnose_recording(self.recording).diagnosis
        variants = self._variants(others)
        if own is not None:
            # The user's own way, with what its recording says.
            cuda_graphs = diagnosis.recording.cuda_graphs
            variants = tuple(
                with_counts(variant, diagnosis).replace(
                    cuda_graphs=cuda_graphs if variant.status == "ok" else None,
                    findings=reasons(diagnosis, None),
                )
                if variant.name == own.name and variant.graphs is None
                else variant
                for variant in variants
            )
        unseen = [
            variant.name for variant in variants if variant.call_us and variant.device_us is None
        ]
        if ways.eager.uses_cuda and unseen:
            self.gaps[_UNSEEN] = unseen
        gaps = (
            gap.replace(message=f"{', '.join(names)}: {gap.message}")
            for gap, names in self.gaps.items()
        )
        recording, items = diagnosis.recording, start and start["items"]
        report = BenchReport(
            graphdoctor_version=__version__,
            environment=recording.environment,
            target=recording.target.replace(compile_arguments=base.compile_arguments()),
            verdict=verdict(variants, noise, has_results="results" in self.plan.parts),
            measured=self.plan.parts,
            call=None if start is None else start["inputs"],
            throughput=Throughput(items=items["count"], unit=items["unit"]) if items else None,
            noise=noise,
            variants=variants,
            gaps=(*recording.gaps, *gaps),
            is_interrupted=ways.is_interrupted,
            recordings=self.recordings,
        )
        return report, diagnosis

    def _variants(self, others: Sequence[Way]) -> tuple[Variant, ...]:
        variants = [self.ways.variant(way) for way in (self.ways.eager, *others)]
        is_looked_into = variants[0].status == "ok" and not self.ways.is_interrupted
        if is_looked_into and {"results", "causes"} & {*self.plan.parts}:
            try:
                for number, variant in enumerate(self._looked_into(variants[0], others)):
                    variants[number] = variant
            except KeyboardInterrupt:
                self.ways.is_interrupted = True
        return tuple(variants)

    def _looked_into(self, eager: Variant, others: Sequence[Way]) -> Iterator[Variant]:
        reference = Reference(
            self.ways.replays,
            self.ways.program,
            on_phase=self.ways.say,
            measured=Measured(kernels=self._has_causes),
            is_judging="results" in self.plan.parts,
        )
        judged = reference.own
        self._keep_gaps(eager.name, reference.eager)
        yield eager.replace(
            correct=judged.correct,
            correctness=judged.correctness,
            **launched(reference.eager.kernels),
        )
        for way in others:
            yield self._variant(way, reference)

    def _variant(self, way: Way, reference: Reference) -> Variant:
        variant, noise = self.ways.variant(way), self.ways.noise
        # What took too long or too much memory would do so once more.
        was_stopped = way.ended is not None and way.ended.reason in ("timeout", "killed")
        if variant.status == "skipped" or was_stopped:
            return variant
        self.ways.say(f"looking into {way.name}")
        # They are measured one after the other, so what a busy machine does to one of them is no
        # difference.
        is_noisy = noise is None or noise.is_noisy
        is_comparable = not is_noisy and variant.judgement != "faster"
        beside = reference.eager.kernels if is_comparable else None
        look = Look.at(
            way, reference, way.slug, self.folder, beside=beside, has_causes=self._has_causes
        )
        self._keep_gaps(way.name, look.recording)
        self.recordings[way.name] = str(self.folder / way.slug)
        variant = look.shown(variant)
        if variant.status == "ok" or way.never_settles or not self._has_causes:
            return variant

        def say(phase: str) -> None:
            self.ways.say(f"{way.name}: {phase}")

        spec = way.spec.spec(self.ways.base)
        subject = Subject(reference, way.program, spec, way.spec.changes, way.slug)
        return variant.replace(stages=follow(subject, limit_s=_STAGES_S, on_phase=say))

    @property
    def _has_causes(self) -> bool:
        return "causes" in self.plan.parts

    def _keep_gaps(self, name: str, recording: Recording) -> None:
        for gap in recording.gaps:
            if gap.kind in _OWN_GAPS:
                self.gaps.setdefault(gap, []).append(name)


# The answer.


_SAME_COMPILE_TIME = 1.1
"""Compile times this close are no reason to prefer a variant: each was measured once."""


def verdict(
    variants: Sequence[Variant], noise: Noise | None, *, has_results: bool = True
) -> BenchVerdict:
    """Decide which way to run the program.

    Args:
        variants: All ways to run the program, eager mode first.
        noise: How steady the machine was; None if that is unknown.
        has_results: Results were compared, so that it is news if they couldn't be.
    """
    eager, *others = variants
    decided = BenchVerdict(text="", best=EAGER if eager.status == "ok" else None)
    if decided.best is not None and others:
        decided = _with_best(_with_waiting(decided, eager, others), others)
    return decided.replace(text=bench_text(decided, variants, noise, has_results=has_results))


def _with_best(decided: BenchVerdict, others: Sequence[Variant]) -> BenchVerdict:
    """Add the fastest variant: of those whose intervals overlap with its own, the one that compiles
    fastest, and of those that compile about as fast the first, which changes least; else what holds
    the best one back.
    """
    right = [variant for variant in others if variant.status == "ok"]
    faster = [variant for variant in right if variant.judgement == "faster" and variant.speedup]
    if faster:
        best = max(faster, key=_ratio)
        low = best.speedup.low if best.speedup else 0.0
        tied = [variant for variant in faster if variant.speedup and variant.speedup.high >= low]
        compile_s = [variant.compile_s for variant in tied if variant.compile_s is not None]
        if len(compile_s) == len(tied):
            limit_s = _SAME_COMPILE_TIME * min(compile_s)
            best = next(variant for variant in tied if (variant.compile_s or 0.0) <= limit_s)
        alike = tuple(variant.name for variant in tied if variant is not best)
        return decided.replace(best=best.name, alike=alike)
    timed = [variant for variant in right if variant.judgement != "unknown"]
    for finding in max(timed, key=_ratio).findings if timed else ():
        cost, has_eager = finding.cost, bool(finding.effects.eager_frames)
        # About steady calls, and not about those of eager mode as well. A recompile takes time only
        # while torch compiles, unless it ends in eager.
        is_slow = not finding.changes or has_eager
        if cost is not None and (cost.call_us is not None or cost.compile_s is not None):
            is_slow = cost.call_us is not None
        if finding.code == RecompileLimit.code or (is_slow and finding.code != TensorFloatOff.code):
            return decided.replace(held_back=finding)
    return decided


def _with_waiting(decided: BenchVerdict, eager: Variant, others: Sequence[Variant]) -> BenchVerdict:
    """Add a variant whose call waits for its host, and a variant to try for that."""
    timed = [variant for variant in others if variant.status == "ok" and variant.time_us]
    in_graphs = [variant for variant in timed if asks_for_cuda_graphs(variant.arguments)]
    waiting = [variant for variant in in_graphs or timed if variant.waits_for_host]
    if not waiting or eager.time_us is None:
        return decided
    least = min(waiting, key=lambda variant: variant.device_us or 0.0)
    arguments, untried = least.arguments, f"mode={CUDA_GRAPH_MODES[0]}"
    if arguments.get("backend", "inductor") != "inductor":
        untried = f"backend=inductor {untried}"
    elif arguments.get("options"):
        # torch.compile takes a mode or options.
        untried = f"option.{CUDA_GRAPH_OPTION}=true"
    is_tried = any(asks_for_cuda_graphs(variant.arguments) for variant in others)
    return decided.replace(waits=least.name, untried=None if is_tried else untried)


def _ratio(variant: Variant) -> float:
    return variant.speedup.ratio if variant.speedup is not None else 0.0
