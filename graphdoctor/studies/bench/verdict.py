"""Says which way to run the program is fastest, and from which call on that pays.

Comes in: variants that were measured and judged, eager mode first, and how steady the machine was. Goes out: a
``BenchVerdict``. Nothing is measured or judged here, and every number in the text is one of the variants'.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from graphdoctor.facts.bench import EAGER, BenchVerdict, Noise, Speedup, Sweep, SweepPoint, Variant, VariantStatus
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.wording import about_count, about_time, factor_text, listed, shortened, spread_text
from graphdoctor.rules.gd201_recompile_limit import RecompileLimit
from graphdoctor.rules.gd510_tf32_off import Tf32Off

_MAX_NAMED = 3
_REASON = 160
"""Characters of a reason in the answer, which stands in full below it."""
_LONG_S = 60.0
"""From here on, the time that calls take until compiling pays is said beside their number."""
_SAME_COMPILE_TIME = 1.1
"""Compile times this close are no reason to prefer a variant: each was measured once."""
_NONE_FASTER = "No variant is measurably faster than eager"


def verdict(variants: Sequence[Variant], noise: Noise | None, sweep: Sweep | None = None) -> BenchVerdict:
    """The answer.

    Args:
        variants: All ways to run the program, eager mode first.
        noise: How steady the machine was; None if that is unknown.
        sweep: The program with several sizes; None if none were asked for. It is what the answer is about then.
    """
    said = _verdict(variants) if sweep is None else _sweep_verdict(sweep)
    noisy = _noise_text(noise) if sweep is None else _noisy_sizes(sweep)
    return said if noisy is None else said.model_copy(update={"text": f"{said.text} {noisy}"})


def _verdict(variants: Sequence[Variant]) -> BenchVerdict:
    eager, *others = variants
    if eager.status != "ok":
        return _without_eager(eager, others)
    if not others:
        return BenchVerdict(text="Only eager mode was run.", best=EAGER)
    faster = _faster(others)
    if not faster:
        return BenchVerdict(text=_none_faster(others), best=EAGER)
    tied = _tied(faster)
    best = _preferred([variant for variant in others if variant in tied])
    others_said = [_other(variant, best) for variant in faster if variant not in tied]
    text = "; ".join([_fastest(best, tied, eager), *others_said[:_MAX_NAMED]])
    return BenchVerdict(text=_sentences(text, _doubt(best), _trouble(others, best)), best=best.name)


def _ratio(variant: Variant) -> float:
    return 0.0 if variant.speedup is None else variant.speedup.ratio


def _faster(variants: Sequence[Variant]) -> list[Variant]:
    found = [variant for variant in variants if variant.status == "ok" and variant.judgement == "faster"]
    return sorted((variant for variant in found if variant.speedup is not None), key=_ratio, reverse=True)


# Some are faster.


def _tied(faster: Sequence[Variant]) -> list[Variant]:
    """The fastest, and those whose interval overlaps with its own."""
    low = faster[0].speedup.low if faster[0].speedup is not None else 0.0
    return [variant for variant in faster if variant.speedup is not None and variant.speedup.high >= low]


def _preferred(tied: Sequence[Variant]) -> Variant:
    """The one that compiles fastest; of those that compile about as fast, the first, which changes least."""
    known = [variant.compile_cold_s for variant in tied if variant.compile_cold_s is not None]
    if len(known) < len(tied):
        return tied[0]
    return next(one for one in tied if (one.compile_cold_s or 0.0) <= _SAME_COMPILE_TIME * min(known))


def _fastest(best: Variant, tied: Sequence[Variant], eager: Variant) -> str:
    if len(tied) == 1 and best.speedup is not None:
        return f"{best.name} is fastest: {_interval(best.speedup)} over eager, {pays_off(best, eager)}"
    shown = [_interval(one.speedup) for one in tied[:_MAX_NAMED] if one.speedup is not None]
    named = listed([one.name for one in tied])
    why = ""
    mine, other = best.compile_cold_s, tied[0].compile_cold_s
    if mine is not None and other is not None and _SAME_COMPILE_TIME * mine < other:
        why = f"compiles faster ({seconds(mine)}, {tied[0].name} {seconds(other)}) and "
    return (
        f"{named} are fastest and can't be told apart: {listed(shown)} over eager; "
        f"{best.name} {why}{pays_off(best, eager)}"
    )


def pays_off(variant: Variant, eager: Variant) -> str:
    """When compiling has paid, a predicate."""
    calls = variant.break_even_calls
    if calls is None:
        return "but when that pays off is unknown"
    if calls <= 1:
        return "pays off with the first call"
    text = f"pays off after {about_count(calls)} calls"
    # When compiling has paid off, both have taken as long as that many calls in eager mode.
    taken_s = 0.0 if eager.call_us is None else calls * eager.call_us.median / 1e6
    return f"{text}, {about_time(taken_s)} of calling" if taken_s >= _LONG_S else text


def _other(variant: Variant, best: Variant) -> str:
    text = f"{variant.name} gives {factor_text(_ratio(variant))}"
    calls, of_best = variant.break_even_calls, best.break_even_calls
    if calls is None or of_best is None or 2 * calls > of_best:
        return text
    return f"{text} after {about_count(calls)} calls"


def _doubt(best: Variant) -> str:
    if best.correct:
        return ""
    reason = f": {shortened(best.reason, _REASON)}" if best.reason else ""
    return f"Whether the results of {best.name} are right is unknown{reason}"


def _trouble(others: Sequence[Variant], best: Variant | None) -> str:
    parts = []
    for variant in sorted((one for one in others if one.status == "wrong"), key=_ratio, reverse=True):
        if variant.judgement == "faster" and _ratio(variant) > (1.0 if best is None else _ratio(best)):
            still = " still" * (best is not None)
            parts.append(f"{variant.name} is faster{still} ({factor_text(_ratio(variant))}), but its results are wrong")
        else:
            parts.append(f"{variant.name} gives wrong results")
    failed = [variant.name for variant in others if variant.status == "failed"]
    if failed:
        parts.append(f"{listed(failed)} failed")
    return "; ".join(parts)


# None is.


def _none_faster(others: Sequence[Variant]) -> str:
    right = [variant for variant in others if variant.status == "ok"]
    timed = sorted((variant for variant in right if variant.judgement != "unknown"), key=_ratio, reverse=True)
    if not right:
        are_skipped = all(variant.status == "skipped" for variant in others)
        said = "Nothing was compared with eager mode" if are_skipped else "Only eager mode gives right results"
        return _sentences(f"{said}: {_endings(others)}")
    if not timed:
        return _sentences(f"{listed([one.name for one in right])} ran, but couldn't be timed", _trouble(others, None))
    shown = ", ".join(_beside_eager(variant) for variant in timed[:_MAX_NAMED])
    return _sentences(f"{_NONE_FASTER}: {shown}", _held_back(timed[0]), _trouble(others, None))


def _beside_eager(variant: Variant) -> str:
    speedup = variant.speedup
    if speedup is None:
        return f"{variant.name} wasn't timed"
    nothing = ", where torch.compile compiled nothing" if variant.graphs == 0 else ""
    if variant.judgement != "slower":
        return f"{variant.name} is at {_interval(speedup)}{nothing}"
    low, high = (factor_text(1 / end)[:-1] for end in (speedup.high, speedup.low))
    return f"{variant.name} takes {factor_text(1 / speedup.ratio)[:-1]} times as long ({low} to {high})"


def _held_back(variant: Variant) -> str:
    reason = next((finding for finding in variant.findings if _slows_calls(finding)), None)
    return "" if reason is None else f"What holds {variant.name} back: {reason.message}"


def _slows_calls(finding: Finding) -> bool:
    """Whether it is about steady calls, and not about those of eager mode as well.

    A recompile takes time only while torch compiles, unless it ends in eager.
    """
    if finding.code in (RecompileLimit.code, Tf32Off.code):
        return finding.code == RecompileLimit.code
    cost, effects = finding.cost, finding.effects
    if cost is not None and (cost.call_us is not None or cost.compile_s is not None):
        return cost.call_us is not None
    return not finding.changes or bool(effects.skipped_frames or effects.rest_eager_frames)


def _endings(others: Sequence[Variant]) -> str:
    shown = [
        f"{_ending(variant)} ({shortened(variant.reason, _REASON)})" if variant.reason else _ending(variant)
        for variant in others[:_MAX_NAMED]
    ]
    more = len(others) - len(shown)
    return ", ".join([*shown, *([f"and {more} more"] if more else [])])


def _ending(variant: Variant) -> str:
    if variant.status == "wrong" and variant.judgement == "faster":
        return f"{variant.name} is {factor_text(_ratio(variant))} as fast, but wrong"
    words: dict[VariantStatus, str] = {"wrong": "is wrong", "failed": "failed", "skipped": "was skipped", "ok": "ran"}
    return f"{variant.name} {words[variant.status]}"


def _without_eager(eager: Variant, others: Sequence[Variant]) -> BenchVerdict:
    reason = f": {shortened(eager.reason, _REASON)}" if eager.reason else ""
    ran = [variant.name for variant in others if variant.status in ("ok", "wrong")]
    also = f"{listed(ran)} ran, but there is nothing to compare with" if ran else ""
    ended = "was skipped" if eager.status == "skipped" else "failed"
    return BenchVerdict(text=_sentences(f"Eager mode {ended}{reason}", also), best=None)


# Several sizes.


def _sweep_verdict(sweep: Sweep) -> BenchVerdict:
    points = sorted(sweep.points, key=lambda point: point.size)
    bests = [_verdict(point.variants).best for point in points]
    name = " and ".join(sweep.sources)
    runs = [
        (best, [point for _, point in run])
        for best, run in groupby(zip(bests, points, strict=True), key=lambda pair: pair[0])
    ]
    measured = [best for best, _ in runs if best is not None]
    pays = [best != EAGER for best in measured]
    if not measured:
        head = f"Eager mode failed with every size of {name}"
    elif not any(pays):
        head = f"{_NONE_FASTER} with any size of {name}"
    elif all(pays):
        head = f"torch.compile is faster with every size of {name}"
    elif pays == sorted(pays):
        first = next(run[0].size for best, run in runs if best not in (None, EAGER))
        head = f"torch.compile is faster from {name} = {first} on"
    else:
        head = f"Whether torch.compile is faster depends on {name}"
    if measured and len(measured) < len(runs) and (not any(pays) or all(pays)):
        head += " that ran"
    said = "; ".join(f"{_sizes(run)}: {_of_sizes(best, run)}" for best, run in runs)
    largest = next((best for best in reversed(bests) if best is not None), None)
    return BenchVerdict(text=_sentences(f"{head}. {name} = {said}"), best=largest)


def _sizes(run: Sequence[SweepPoint]) -> str:
    first, last = run[0].size, run[-1].size
    return f"{first:,}" if len(run) == 1 else f"{first:,} {'and' if len(run) == 2 else 'to'} {last:,}"


def _of_sizes(best: str | None, run: Sequence[SweepPoint]) -> str:
    if best is None:
        reason = run[0].variants[0].reason
        return "eager mode failed" + (f" ({shortened(reason, _REASON)})" if reason else "")
    if best == EAGER:
        return "no variant is measurably faster" if len(run[0].variants) > 1 else "only eager mode was run"
    ratios = [_ratio(variant) for point in run for variant in point.variants if variant.name == best]
    low, high = factor_text(ratios[0]), factor_text(ratios[-1])
    return f"{best} is fastest ({low if len(ratios) == 1 else f'{low} to {high}'})"


# Words.


def _noise_text(noise: Noise | None) -> str | None:
    if noise is None or not noise.is_noisy:
        return None
    return (
        f"The machine was noisy, so small differences can't be seen: eager mode came out at {factor_text(noise.ratio)} "
        f"beside itself, and the quartiles of its calls are {spread_text(noise.spread)}."
    )


def _noisy_sizes(sweep: Sweep) -> str | None:
    sizes = [f"{point.size:,}" for point in sweep.points if point.noise is not None and point.noise.is_noisy]
    return f"The machine was noisy at {listed(sizes)}, so small differences can't be seen." if sizes else None


def _interval(speedup: Speedup) -> str:
    return f"{factor_text(speedup.ratio)} ({factor_text(speedup.low)[:-1]} to {factor_text(speedup.high)[:-1]})"


def seconds(number: float) -> str:
    """Seconds in as many digits as one measurement is worth."""
    return f"{number:.1f} s" if number < 10 else f"{number:.0f} s"


def _sentences(*texts: str) -> str:
    ends = (".", "!", "?")
    return " ".join(text if text.endswith(ends) else f"{text}." for text in texts if text)
