"""Decides which way to run the program is fastest.

Comes in: variants that were measured and judged, eager mode first, and how steady the machine was.
Goes out: a ``BenchVerdict``, whose text ``views/answers.py`` makes of it. Nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.bench import EAGER, BenchVerdict, Noise, Sweep, Variant, asks_for_cuda_graphs
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.rules.kernels import TensorFloatOff
from graphdoctor.rules.recompiles import RecompileLimit
from graphdoctor.studies.bench.variants import with_cuda_graphs
from graphdoctor.views.answers import bench_text, sweep_text

_SAME_COMPILE_TIME = 1.1
"""Compile times this close are no reason to prefer a variant: each was measured once."""


def verdict(
    variants: Sequence[Variant],
    noise: Noise | None,
    sweep: Sweep | None = None,
    *,
    has_results: bool = True,
) -> BenchVerdict:
    """The answer.

    Args:
        variants: All ways to run the program, eager mode first.
        noise: How steady the machine was; None if that is unknown.
        sweep: The program with several sizes; None if none were asked for. It is what the answer is
            about then.
        has_results: Results were compared, so that it is news if they couldn't be.
    """
    if sweep is not None:
        points = sorted(sweep.points, key=lambda point: point.size)
        best = next((point.best for point in reversed(points) if point.best is not None), None)
        return BenchVerdict(text=sweep_text(sweep), best=best)
    decided = _decide(variants)
    return decided.replace(text=bench_text(decided, variants, noise, has_results=has_results))


def _decide(variants: Sequence[Variant]) -> BenchVerdict:
    eager, *others = variants
    if eager.status != "ok" or not others:
        return BenchVerdict(text="", best=EAGER if eager.status == "ok" else None)
    right = [variant for variant in others if variant.status == "ok"]
    faster = [variant for variant in right if variant.judgement == "faster" and variant.speedup]
    waits, untried = _waiting(eager, others)
    if faster:
        best, *alike = _fastest(faster)
        return BenchVerdict(
            text="",
            best=best.name,
            alike=tuple(variant.name for variant in alike),
            waits=waits,
            untried=untried,
        )
    timed = [variant for variant in right if variant.judgement != "unknown"]
    findings = max(timed, key=_ratio).findings if timed else ()
    held_back = next((finding for finding in findings if _slows_calls(finding)), None)
    return BenchVerdict(text="", best=EAGER, waits=waits, untried=untried, held_back=held_back)


def _ratio(variant: Variant) -> float:
    return variant.speedup.ratio if variant.speedup is not None else 0.0


def _fastest(faster: Sequence[Variant]) -> list[Variant]:
    """The fastest, or of those whose intervals overlap with its own, the one that compiles fastest;
    then those others.

    Of those that compile about as fast, it is the first, which changes least.
    """
    best = max(faster, key=_ratio)
    low = best.speedup.low if best.speedup else 0.0
    tied = [variant for variant in faster if variant.speedup and variant.speedup.high >= low]
    compile_s = [variant.compile_s for variant in tied if variant.compile_s is not None]
    if len(compile_s) == len(tied):
        limit_s = _SAME_COMPILE_TIME * min(compile_s)
        best = next(variant for variant in tied if (variant.compile_s or 0.0) <= limit_s)
    return [best, *(variant for variant in tied if variant is not best)]


def _waiting(eager: Variant, others: Sequence[Variant]) -> tuple[str | None, str | None]:
    """A variant whose call waits for its host, and a variant to try for that."""
    timed = [variant for variant in others if variant.status == "ok" and variant.time_us]
    in_graphs = [variant for variant in timed if asks_for_cuda_graphs(variant.arguments)]
    waiting = [variant for variant in in_graphs or timed if variant.waits_for_host]
    if not waiting or eager.time_us is None:
        return None, None
    least = min(waiting, key=lambda variant: variant.device_us or 0.0)
    is_tried = any(asks_for_cuda_graphs(variant.arguments) for variant in others)
    return least.name, None if is_tried else with_cuda_graphs(least.arguments)


def _slows_calls(finding: Finding) -> bool:
    """Return whether it is about steady calls, and not about those of eager mode as well.

    A recompile takes time only while torch compiles, unless it ends in eager.
    """
    if finding.code in (RecompileLimit.code, TensorFloatOff.code):
        return finding.code == RecompileLimit.code
    cost = finding.cost
    if cost is not None and (cost.call_us is not None or cost.compile_s is not None):
        return cost.call_us is not None
    return not finding.changes or bool(finding.effects.eager_frames)
