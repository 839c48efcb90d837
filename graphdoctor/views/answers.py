"""The answers of ``bench`` and ``cure`` in a few sentences; all numbers are the variants'."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.bench import (
    AS_IT_WAS,
    CURED,
    EAGER,
    BenchVerdict,
    CureReport,
    Noise,
    Variant,
    asks_for_cuda_graphs,
)
from graphdoctor.views.measures import (
    calling_text,
    calls_text,
    is_too_noisy,
    seconds_text,
    skip_text,
    speed_cell,
    speed_of,
    speedup_text,
    time_text,
)
from graphdoctor.views.parts import cell_line
from graphdoctor.views.words import UNKNOWN
from graphdoctor.wording import duration, factor_text, listed, shortened

_MAX_NAMED = 3
_REASON = 160
"""Characters of a reason in the answer, which stands in full below it."""
_ENDS = {"failed": "failed", "wrong": "gave wrong results", "skipped": "was skipped"}
_LONG_S = 60.0
"""From here on, the time that calls take until compiling pays is said beside their number."""
_AWAITS_BACKWARD = (
    ", because outputs of earlier calls await their backward pass, so torch records CUDA graphs"
    " anew: measure it with --no-grad or --backward"
)


def bench_text(
    verdict: BenchVerdict, variants: Sequence[Variant], noise: Noise | None, *, has_results: bool
) -> str:
    """Return the answer of a bench."""
    eager, *others = variants
    if verdict.best is None:
        return _sentences(f"Eager mode {_ended(eager)}", _noisy(noise))
    if not others:
        return _sentences("Only eager mode was run", _noisy(noise))
    by_name = {variant.name: variant for variant in others}
    best, waits = by_name.get(verdict.best), by_name.get(verdict.waits or "")
    answer = [] if best else _none_faster(others, verdict)
    if best is not None:
        ratio = UNKNOWN if best.speedup is None else cell_line(speed_cell(best.speedup))
        answer = [f"{best.name} is fastest: {ratio} over eager, {pays_off(best, eager)}"]
        if verdict.alike:
            answer.append(f"No clear difference to {listed(verdict.alike)}")
        if has_results and not best.correct:
            reason = f": {shortened(best.reason, _REASON)}" if best.reason else ""
            answer.append(f"Whether the results of {best.name} are right is unknown{reason}")
    is_unclear = best is None and _is_unclear(_timed(others))
    return _sentences(
        *answer,
        "" if waits is None else _waiting(waits, eager),
        *_trouble(others),
        "" if is_unclear else _noisy(noise),
    )


def _sentences(*texts: str) -> str:
    ends = (".", "!", "?")
    return " ".join(text if text.endswith(ends) else f"{text}." for text in texts if text)


def _noisy(noise: Noise | None, sizes: str = "") -> str:
    is_noisy = sizes or (noise is not None and noise.is_noisy)
    return f"The machine was noisy{sizes}, so small differences can't be seen" if is_noisy else ""


def _trouble(others: Sequence[Variant]) -> tuple[str, ...]:
    """Name variants that are wrong or failed, with the first reason where none is right."""
    wrong = listed([variant.name for variant in _by_speed(others, "wrong")])
    failed = [variant for variant in others if variant.status in ("failed", "skipped")]
    if any(variant.status == "ok" for variant in others):
        failed = [variant for variant in failed if variant.status == "failed"]
        named = listed([variant.name for variant in failed])
        ended = named and f"Failed: {named}"
    else:
        ended = "; ".join(f"{variant.name} {_ended(variant)}" for variant in failed[:_MAX_NAMED])
    return wrong and f"Wrong results: {wrong}", ended


def _by_speed(variants: Sequence[Variant], status: str) -> list[Variant]:
    chosen = [variant for variant in variants if variant.status == status]
    return sorted(
        chosen, key=lambda variant: variant.speedup.ratio if variant.speedup else 0.0, reverse=True
    )


def _timed(others: Sequence[Variant]) -> list[Variant]:
    return [variant for variant in _by_speed(others, "ok") if variant.judgement != "unknown"]


def _ended(variant: Variant) -> str:
    ended = "was skipped" if variant.status == "skipped" else "failed"
    return f"{ended}: {shortened(variant.reason, _REASON)}" if variant.reason else ended


def _slower(timed: Sequence[Variant]) -> str | None:
    """Say how much slower all of them are; None unless they are."""
    if not timed or any(variant.judgement != "slower" for variant in timed):
        return None
    if len(timed) == 1 and timed[0].speedup is not None:
        subject = "torch.compile" if timed[0].name == "default" else timed[0].name
        return f"{subject} makes it {speedup_text(timed[0].speedup)}"
    return f"torch.compile makes it slower: {_beside_eager(timed)}"


def _beside_eager(timed: Sequence[Variant]) -> str:
    return ", ".join(
        f"{variant.name} {speedup_text(variant.speedup)}"
        for variant in timed[:_MAX_NAMED]
        if variant.speedup is not None
    )


def _is_unclear(timed: Sequence[Variant]) -> bool:
    """Tell whether there are times, and all of them are too noisy to say anything."""
    return bool(timed) and all(
        variant.speedup is not None and is_too_noisy(variant.speedup, variant.judgement)
        for variant in timed
    )


def _none_faster(others: Sequence[Variant], verdict: BenchVerdict) -> list[str]:
    right, timed = [variant for variant in others if variant.status == "ok"], _timed(others)
    if not right:
        # What became of a single one is all that follows.
        ended = {variant.status for variant in others} if len(others) > 1 else set()
        verbs = [verb for status, verb in _ENDS.items() if status in ended]
        return [f"Every variant {' or '.join(verbs)}"] if verbs else []
    if not timed:
        return [f"Not timed: {listed([variant.name for variant in right])}"]
    text = _slower(timed) or f"No variant is measurably faster than eager: {_beside_eager(timed)}"
    if _is_unclear(timed):
        names = listed([variant.name for variant in timed])
        are = "is" if len(timed) == 1 else "are"
        text = f"Too noisy to say whether {names} {are} faster than eager"
    finding = verdict.held_back
    if finding is None:
        return [text]
    # What a break costs is known only where gaps were measured; a short call can lose by the rest.
    is_guess = finding.code.startswith("GD1") and (finding.cost is None or not finding.cost.call_us)
    holds = "may hold" if is_guess else "holds"
    return [text, f"What {holds} {timed[0].name} back: {finding.message}"]


def _waiting(variant: Variant, eager: Variant) -> str:
    device_us, time_us = variant.device_us or 0.0, variant.time_us or 0.0
    text = (
        f"{variant.name} waits for its host: its kernels alone take {time_text(device_us)} of "
        f"{time_text(time_us)} per call"
    )
    if asks_for_cuda_graphs(variant.arguments):
        skipped = () if variant.cuda_graphs is None else variant.cuda_graphs.skipped
        if variant.awaits_backward:
            return text + _AWAITS_BACKWARD
        return text + (
            f", and torch skipped a CUDA graph: {skip_text(skipped[0])}" if skipped else ""
        )
    most = factor_text((eager.time_us or 0.0) / device_us)
    return f"{text}, so CUDA graphs allow at most {most} over eager"


def pays_off(variant: Variant, eager: Variant) -> str:
    """Say when compiling has paid, a predicate."""
    calls = variant.break_even_calls
    if calls is None:
        return "but when that pays off is unknown"
    # When compiling has paid off, both have taken as long as that many calls in eager mode.
    is_long = eager.time_us is not None and calls * eager.time_us / 1e6 >= _LONG_S
    calling = f" ({calling_text(calls, eager)})" if is_long else ""
    return f"pays off after {calls_text(max(calls, 1))}{calling}"


# A cure.


def cure_text(report: CureReport, floor_us: float | None = None) -> str:
    """Return the answer of a cure; ``floor_us``: what a compiled call takes at least, where that is
    more than eager mode's.
    """
    eager, as_it_was, cured = report.eager, report.as_it_was, report.cured
    if eager.call_us is None and eager.status == "ok":
        return "Nothing was timed."
    if eager.call_us is None:
        return f"The program fails without torch.compile, so nothing was tried: {eager.reason}."
    ways = [way for way in (as_it_was, cured) if way is not None]
    times = " → ".join(f"{way.name}{_time(way)}" for way in (eager, *ways))
    if report.best == CURED and cured is not None:
        count = report.verified_calls
        calls = "your call" if count == 1 else f"your {count:,} calls"
        return f"{times}, same results on {calls}; {_cost(cured, eager)}."
    if report.best == AS_IT_WAS:
        unknown = "" if as_it_was.correct else "; whether its results are right is unknown"
        return f"{times}; nothing that was tried is faster; {_cost(as_it_was, eager)}{unknown}."
    lead = "Plain eager is fastest"
    if any(way.judgement == "same" for way in ways):
        lead = "Nothing is measurably faster than eager"
    as_written = f"compiled as written{_time(as_it_was)}"
    text = f"{lead} ({duration(eager.call_us.median)}); {as_written}."
    if floor_us is not None:
        return f"{text} Calling any compiled function costs about {duration(floor_us)} here."
    why = next((finding.message for finding in as_it_was.findings), "")
    if as_it_was.status in ("failed", "wrong") and as_it_was.reason:
        why = f"torch.compile: {as_it_was.reason}"
    return _sentences(text, why.rstrip("."))


def _time(variant: Variant) -> str:
    if variant.call_us is None:
        return " fails" if variant.status == "failed" else " wasn't timed"
    ratio = None if variant.name == EAGER else variant.speedup
    gain = "" if ratio is None or ratio.low <= 1 <= ratio.high else f" ({speed_of(ratio.ratio)})"
    wrong = " (with wrong results)" if variant.status == "wrong" else ""
    return f" {duration(variant.call_us.median)}{gain}{wrong}"


def _cost(variant: Variant, eager: Variant) -> str:
    if variant.compile_s is None:
        return "what compiling takes is unknown"
    took = f"compile {seconds_text(variant.compile_s)}"
    return took if variant.break_even_calls is None else f"{took}, {pays_off(variant, eager)}"
