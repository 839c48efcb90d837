"""Measures each way to run a target beside eager mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor import __version__
from graphdoctor.facts.reading import json_of
from graphdoctor.probe.wire import BENCH_FILE
from graphdoctor.rules.diagnosed import Needs, diagnose_recording
from graphdoctor.trials.launch.recorded import fitting

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from graphdoctor.commands.named import Place
    from graphdoctor.facts.bench import BenchReport
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.kernels import KernelShare
    from graphdoctor.studies.bench.sweep import Sizes
    from graphdoctor.studies.bench.variants import VariantSpec
    from graphdoctor.trials.launch.child import Setup
    from graphdoctor.trials.launch.request import Request
    from graphdoctor.trials.replays import Replays

BENCH_FOLDER = "bench"
"""Below a recording: the recordings of its variants."""

_MOST_SIDE_BY_SIDE = 12


@dataclass(frozen=True)
class Benching:
    """What to measure.

    Args:
        sweep: Sizes to run it with; None for those of its calls.
    """

    variants: Sequence[VariantSpec]
    sweep: Sizes | None = None
    is_minified: bool = False


def quick(request: Request) -> Request:
    """The run that shows soonest what torch.compile does with a target: under ``eager``, without mode and options."""
    return request.with_spec(backend="eager", mode=None, options={})


def diagnosed(folder: Path, eager: KernelShare | None) -> Diagnosis:
    """What a recording means, with its guards."""
    return diagnose_recording(folder, None, Needs(guards=True), eager_kernels=eager).diagnosis


def bench_target(request: Request, recording: Path, diagnosis: Diagnosis, asked: Benching, setup: Setup) -> BenchReport:
    """Measure a target that was recorded already; its recording holds the answer."""
    # Not earlier: the recorded run begins sooner.
    from graphdoctor.studies.bench.bench import Choices, bench
    from graphdoctor.trials.program import Program
    from graphdoctor.trials.replays import Replays

    def replays(folder: Path) -> Replays:
        return Replays(request, folder, setup.with_limit)

    choices = Choices(
        side_by_side=fitting(diagnosis.recording.exit.peak_memory_bytes, most=_MOST_SIDE_BY_SIDE),
        on_phase=setup.watching.on_phase,
        diagnose=diagnosed,
        replays=replays,
        is_minified=asked.is_minified,
    )
    report = bench(
        request.spec,
        Program(),
        diagnosis,
        asked.variants,
        asked.sweep,
        recording / BENCH_FOLDER,
        choices,
        version=__version__,
    )
    (recording / BENCH_FILE).write_text(json_of(report), encoding="utf-8")
    return report


def kept_bench(place: Place) -> BenchReport:
    """What an earlier ``bench`` found."""
    from graphdoctor.commands.named import kept_report
    from graphdoctor.facts.bench import BenchReport

    return kept_report(place, BenchReport, file=BENCH_FILE, command="bench", has=("variants", "verdict"))
