"""Says which way to run the program is fastest, and from which call on that pays.

Comes in: variants that were measured and judged, eager mode first, and how steady the machine was.
Goes out: a ``BenchVerdict``. Nothing is measured or judged here, and every number in the text is
one of the variants'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from graphdoctor.facts.bench import EAGER, BenchVerdict, Noise, Sweep, SweepPoint, Variant
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.rules.kernels import TensorFloatOff
from graphdoctor.rules.recompiles import RecompileLimit
from graphdoctor.studies.bench.variants import asks_for_cuda_graphs, with_cuda_graphs
from graphdoctor.views.measures import (
    calling_text,
    calls_text,
    interval_text,
    is_too_noisy,
    skip_text,
    time_text,
)
from graphdoctor.views.words import TOO_NOISY
from graphdoctor.wording import factor_text, listed, shortened

_MAX_NAMED = 3
_TOO_NOISY = "Too noisy to say whether"
_REASON = 160
"""Characters of a reason in the answer, which stands in full below it."""
_LONG_S = 60.0
"""From here on, the time that calls take until compiling pays is said beside their number."""
_AWAITS_BACKWARD = (
    ", because outputs of earlier calls await their backward pass, so torch records CUDA graphs anew: measure it with "
    "--no-grad or --backward"
)
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
    said = _verdict(variants, has_results=has_results) if sweep is None else _sweep_verdict(sweep)
    noises = (
        {"": noise} if sweep is None else {f"{point.size:,}": point.noise for point in sweep.points}
    )
    noisy = [size for size, found in noises.items() if found is not None and found.is_noisy]
    if not noisy or said.text.startswith(_TOO_NOISY):
        return said
    at = "" if sweep is None else f" at {listed(noisy)}"
    return replace(
        said, text=f"{said.text} The machine was noisy{at}, so small differences can't be seen."
    )


def _verdict(variants: Sequence[Variant], *, has_results: bool = True) -> BenchVerdict:
    eager, *others = variants
    if eager.status != "ok":
        return BenchVerdict(text=_sentences(f"Eager mode {_ended(eager)}"), best=None)
    if not others:
        return BenchVerdict(text="Only eager mode was run.", best=EAGER)
    faster = [
        one
        for one in others
        if (one.status, one.judgement) == ("ok", "faster") and one.speedup is not None
    ]
    best, said = (
        (_fastest(faster, eager, has_results=has_results))
        if faster
        else (EAGER, _none_faster(others))
    )
    wrong = listed([_with_ratio(one) for one in _by_speed(others) if one.status == "wrong"])
    host, untried = _waiting(eager, others)
    is_any_right = any(one.status == "ok" for one in others)
    failed = [
        one
        for one in others
        if one.status == "failed" or (one.status == "skipped" and not is_any_right)
    ]
    # Why they failed is the answer where there is no other; elsewhere it stands below.
    why = [f"{one.name} {_ended(one)}" for one in failed[:_MAX_NAMED] if not is_any_right]
    named = listed([one.name for one in failed[len(why) :]])
    trouble = (
        wrong and f"Wrong results: {wrong}",
        *why,
        named and f"{'Also failed' if why else 'Failed'}: {named}",
    )
    return BenchVerdict(text=_sentences(*said, host, *trouble), best=best, untried=untried)


def _ended(variant: Variant) -> str:
    """How a variant ended that didn't run, with its reason."""
    ended = "was skipped" if variant.status == "skipped" else "failed"
    return f"{ended}: {shortened(variant.reason, _REASON)}" if variant.reason else ended


def _ratio(variant: Variant) -> float:
    return 0.0 if variant.speedup is None else variant.speedup.ratio


def _by_speed(variants: Sequence[Variant]) -> list[Variant]:
    return sorted(variants, key=_ratio, reverse=True)


def _with_ratio(variant: Variant) -> str:
    return (
        variant.name
        if variant.speedup is None
        else f"{variant.name} ({factor_text(variant.speedup.ratio)})"
    )


def _with_interval(variant: Variant) -> str:
    speedup = variant.speedup
    return (
        ""
        if speedup is None
        else f"{factor_text(speedup.ratio)} ({interval_text(speedup.low, speedup.high)})"
    )


def _beside_eager(variant: Variant) -> str:
    if variant.speedup is not None and is_too_noisy(variant.speedup, variant.judgement):
        return f"{variant.name}: {TOO_NOISY}"
    return f"{variant.name} is at {_with_interval(variant)}"


def _fastest(
    faster: Sequence[Variant], eager: Variant, *, has_results: bool
) -> tuple[str, tuple[str, ...]]:
    """The fastest, or of those whose intervals overlap with its own, the one that compiles fastest.

    Of those that compile about as fast, it is the first, which changes least.
    """
    first, *_ = _by_speed(faster)
    low = 0.0 if first.speedup is None else first.speedup.low
    tied = [one for one in faster if one.speedup is not None and one.speedup.high >= low]
    known = [one.compile_s for one in tied if one.compile_s is not None]
    best = first
    if len(known) == len(tied):
        best = next(
            one for one in tied if (one.compile_s or 0.0) <= _SAME_COMPILE_TIME * min(known)
        )
    alike = listed([one.name for one in tied if one is not best])
    text = f"{best.name} is fastest: {_with_interval(best)} over eager{_which_rounds(best)}, {pays_off(best, eager)}"
    reason = f": {shortened(best.reason, _REASON)}" if best.reason else ""
    doubt = (
        ""
        if best.correct or not has_results
        else f"Whether the results of {best.name} are right is unknown{reason}"
    )
    return best.name, (text, f"No clear difference to {alike}" if alike else "", doubt)


def _which_rounds(variant: Variant) -> str:
    return (
        " in the best rounds" if variant.speedup is not None and variant.speedup.is_of_best else ""
    )


def _waiting(eager: Variant, others: Sequence[Variant]) -> tuple[str, str | None]:
    """What the kernels alone would allow, if a call waits for its host, and a variant to try."""
    timed = [one for one in others if one.status == "ok" and one.time_us is not None]
    recorded = [one for one in timed if asks_for_cuda_graphs(one.arguments)]
    waiting = [one for one in recorded or timed if one.waits_for_host]
    if not waiting or eager.time_us is None:
        return "", None
    one = min(waiting, key=lambda each: each.device_us or 0.0)
    if one.device_us is None or one.time_us is None:
        return "", None
    kernels = (
        f"its kernels alone take {time_text(one.device_us)} of {time_text(one.time_us)} per call"
    )
    if recorded:
        skipped = () if one.cuda_graphs is None else one.cuda_graphs.skipped
        why = f", and torch skipped a CUDA graph: {skip_text(skipped[0])}" if skipped else ""
        why = _AWAITS_BACKWARD if one.awaits_backward else why
        return f"{one.name} waits for its host: {kernels}{why}", None
    most = factor_text(eager.time_us / one.device_us)
    text = (
        f"{one.name} waits for its host: {kernels}, so CUDA graphs allow at most {most} over eager"
    )
    is_tried = any(asks_for_cuda_graphs(each.arguments) for each in others)
    return text, None if is_tried else with_cuda_graphs(one.arguments)


def pays_off(variant: Variant, eager: Variant) -> str:
    """When compiling has paid, a predicate."""
    calls = variant.break_even_calls
    if calls is None:
        return "but when that pays off is unknown"
    # When compiling has paid off, both have taken as long as that many calls in eager mode.
    is_long = eager.time_us is not None and calls * eager.time_us / 1e6 >= _LONG_S
    return f"pays off after {calls_text(max(calls, 1))}{f', {calling_text(calls, eager)}' if is_long else ''}"


def _none_faster(others: Sequence[Variant]) -> tuple[str, ...]:
    right = [one for one in others if one.status == "ok"]
    timed = _by_speed([one for one in right if one.judgement != "unknown"])
    if not right:
        return ("No variant ran with right results",)
    if not timed:
        return (f"{listed([one.name for one in right])} ran, but couldn't be timed",)
    nothing = {
        one.name: ", where torch.compile compiled nothing" for one in timed if one.graphs == 0
    }
    shown = [f"{_beside_eager(one)}{nothing.get(one.name, '')}" for one in timed[:_MAX_NAMED]]
    text = (
        f"No variant is measurably faster than eager{_which_rounds(timed[0])}: {', '.join(shown)}"
    )
    if all(one.speedup is not None and is_too_noisy(one.speedup, one.judgement) for one in timed):
        names = listed([one.name for one in timed])
        text = f"{_TOO_NOISY} {names} {'is' if len(timed) == 1 else 'are'} faster than eager"
    reason = next((finding for finding in timed[0].findings if _slows_calls(finding)), None)
    return (
        (text,) if reason is None else (text, f"What holds {timed[0].name} back: {reason.message}")
    )


def _slows_calls(finding: Finding) -> bool:
    """Whether it is about steady calls, and not about those of eager mode as well.

    A recompile takes time only while torch compiles, unless it ends in eager.
    """
    if finding.code in (RecompileLimit.code, TensorFloatOff.code):
        return finding.code == RecompileLimit.code
    cost = finding.cost
    if cost is not None and (cost.call_us is not None or cost.compile_s is not None):
        return cost.call_us is not None
    return not finding.changes or bool(finding.effects.eager_frames)


# Several sizes.


def _sweep_verdict(sweep: Sweep) -> BenchVerdict:
    points = sorted(sweep.points, key=lambda point: point.size)
    found = [(_verdict(point.variants).best, point) for point in points]
    runs = [
        (best, [point for _, point in run])
        for best, run in groupby(found, key=lambda pair: pair[0])
    ]
    said = "; ".join(f"{_sizes(run)}: {_of_sizes(best, run)}" for best, run in runs)
    largest = next((best for best, _ in reversed(found) if best is not None), None)
    return BenchVerdict(text=_sentences(f"{' and '.join(sweep.sources)} = {said}"), best=largest)


def _sizes(run: Sequence[SweepPoint]) -> str:
    first, last = run[0].size, run[-1].size
    return (
        f"{first:,}" if len(run) == 1 else f"{first:,} {'and' if len(run) == 2 else 'to'} {last:,}"
    )


def _of_sizes(best: str | None, run: Sequence[SweepPoint]) -> str:
    eager, *others = run[0].variants
    if best is None:
        return f"eager mode {_ended(eager)}"
    if best == EAGER:
        return "no variant is measurably faster than eager" if others else "only eager mode was run"
    ratios = [
        factor_text(_ratio(one)) for point in run for one in point.variants if one.name == best
    ]
    return f"{best} is fastest ({' to '.join(dict.fromkeys((ratios[0], ratios[-1])))})"


def _sentences(*texts: str) -> str:
    ends = (".", "!", "?")
    return " ".join(text if text.endswith(ends) else f"{text}." for text in texts if text)
