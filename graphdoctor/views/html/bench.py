"""Drawings of a bench: speed-ups as bars, by size, and when compiling pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphdoctor.facts.bench import EAGER, Variant
from graphdoctor.views import measures as words
from graphdoctor.views.html.plots import HUES, STYLES, Axis, Line, Plot, axis_of
from graphdoctor.views.parts import Drawing
from graphdoctor.views.words import TOO_NOISY, about_count
from graphdoctor.wording import factor_text

_FAR_APART = 8.0
"""Crossings this many times as far from each other, or sizes, share a logarithmic axis."""
_WIDEST = 1.5
"""The end of an interval further away than this from its ratio has no room in a drawing."""
_MAX_DASHED = 3
"""With more variants than this, only the best has a line for a restart."""
_POINTS = 60
_JUDGED = {"faster": "", "slower": "slower", "same": "no measurable difference"}
_STARTS = {words.WARM: "after a restart", "cold": "compiled from nothing"}


def _style(number: int) -> str:
    """Return the class of a variant, which gives its color."""
    return "of-eager" if number == 0 else f"hue{(number - 1) % HUES}"


def speed_drawing(variants: Sequence[Variant]) -> Iterator[Drawing]:
    """Yield each variant's speed-up with its interval; empty if nothing was timed."""
    timed = [(variant, variant.speedup) for variant in variants if variant.speedup is not None]
    if not timed:
        return
    bars = []
    for variant, speedup in timed:
        ratio, note = speedup.ratio, _JUDGED.get(variant.judgement, "")
        kind: str = variant.judgement
        text = f"{factor_text(ratio)} ({words.interval_text(speedup.low, speedup.high)})"
        if variant.name == EAGER:
            ratio, kind = 1.0, "reference"
            text, note = factor_text(ratio), f"beside itself {text}"
        elif variant.status == "wrong":
            kind, note = "wrong", "wrong results"
        elif words.is_too_noisy(speedup, variant.judgement):
            note = TOO_NOISY
        bar = {"name": variant.name, "ratio": ratio, "ends": (speedup.low, speedup.high)}
        bars.append(bar | {"kind": kind, "text": text, "note": note})
    most = max(1.0, *(speedup.ratio for _, speedup in timed))
    widest = max(most, *(speedup.high for _, speedup in timed))
    axis = Axis(0.0, min(widest * 1.04, most * _WIDEST))
    yield Drawing("bench_bars.html.j2", {"axis": axis, "bars": bars}, styles=STYLES)


# When compiling pays.


@dataclass(frozen=True)
class _Start:
    """Time of the calls of a variant from a start on; ``calls`` until it is won back, None if it
    never is, or that is unknown.
    """

    number: int
    compile_s: float
    call_s: float
    is_warm: bool = False
    calls: int | None = None

    def after(self, calls: float) -> float:
        """Seconds."""
        return self.compile_s + calls * self.call_s


def payoff_drawing(variants: Sequence[Variant], best: str | None) -> Iterator[Drawing]:
    """Yield the time that calls take in all, compiling included; nothing if that is unknown of all
    variants.
    """
    eager = variants[0]
    if eager.time_us is None or eager.time_us <= 0:
        return
    call_s = eager.time_us / 1e6
    timed = [
        (number, variant, variant.speedup.ratio)
        for number, variant in enumerate(variants)
        if number and variant.status == "ok" and variant.speedup and variant.speedup.ratio > 0
    ]
    legend = [("E", _style(0), EAGER, [f"{words.time_text(eager.time_us)} per call"])]
    drawn: list[_Start] = []
    for number, variant, ratio in timed:
        texts = []
        for name, compile_s, won in words.starts(variant):
            calls = won.calls if won is not None and variant.judgement == "faster" else None
            meets = "unknown when it meets eager"
            if calls is not None:
                calling = words.calling_text(calls, eager)
                meets = f"meets eager after {words.calls_text(calls)}, {calling}"
            elif variant.judgement == "slower":
                meets = "never meets eager"
            texts.append(f"{_STARTS.get(name, name)}, {words.seconds_text(compile_s)}: {meets}")
            # The ratio of paired times, from which the break-even was worked out too.
            start = _Start(number, compile_s, call_s / ratio, name == words.WARM, calls)
            if len(timed) <= _MAX_DASHED or not start.is_warm or variant.name == best:
                drawn.append(start)
        if texts:
            legend.append((str(number), _style(number), variant.name, texts))
    if not drawn:
        return
    # An axis on which every crossing can be seen.
    crossings = [float(max(start.calls, 1)) for start in drawn if start.calls is not None]
    ends = [0.0, max(2.5 * max(start.compile_s for start in drawn) / call_s, 10.0)]
    if crossings:
        low, high = min(crossings), max(crossings)
        ends = [max(low / 10, 1.0), high * 4] if high / low > _FAR_APART else [0.0, high * 1.6]
    x = axis_of(ends, "calls", lambda calls: about_count(round(calls)), far_apart=_FAR_APART)
    shown = [_Start(0, 0.0, call_s), *drawn]
    least = min(start.after(x.low) for start in shown) if x.is_log else 0.0
    most = max(start.after(x.high) for start in shown)
    y = axis_of([least, most], "time in all", words.round_time_text, far_apart=1.0)
    at = [x.low, x.high]
    if x.is_log:
        at = [x.low * (x.high / x.low) ** (step / _POINTS) for step in range(_POINTS + 1)]
    lines = [
        Line(
            tuple((calls, start.after(calls)) for calls in at),
            _style(start.number),
            "" if start.is_warm else str(start.number or "E"),
            is_dashed=start.is_warm,
        )
        for start in shown
    ]
    dots = [
        (start.calls, start.calls * call_s, _style(start.number))
        for start in drawn
        if start.calls is not None
    ]
    has_dashed = any(start.is_warm for start in drawn)
    facts = {"plot": Plot(x, y, lines, dots), "legend": legend, "has_dashed": has_dashed}
    yield Drawing("bench_payoff.html.j2", facts, styles=STYLES)
