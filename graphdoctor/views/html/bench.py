"""Drawings of a bench: speed-ups as bars, by size, and when compiling pays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.facts.bench import EAGER
from graphdoctor.views import measures as words
from graphdoctor.views.html.plots import HUES, STYLES, Axis, Line, Plot, axis_of
from graphdoctor.views.parts import Drawing
from graphdoctor.views.words import TOO_NOISY, about_count
from graphdoctor.wording import factor_text

if TYPE_CHECKING:
    from graphdoctor.facts.bench import Sweep, Variant

_FAR_APART = 8.0
"""Crossings this many times as far from each other, or sizes, share a logarithmic axis."""
_WIDEST = 1.5
"""The end of an interval further away than this from its ratio has no room in a drawing."""
_MAX_DASHED = 3
"""With more variants than this, only the best has a line for a restart."""
_POINTS = 60
_JUDGED = {"faster": "", "slower": "slower", "same": "no measurable difference"}


def _style(number: int) -> str:
    """The class of a variant, which gives its color."""
    return "of-eager" if number == 0 else f"hue{(number - 1) % HUES}"


def speed_drawing(variants: Sequence[Variant]) -> Iterator[Drawing]:
    """Each variant's speed-up with its interval; empty if nothing was timed."""
    timed = [(variant, variant.speedup) for variant in variants if variant.speedup is not None]
    if not timed:
        return
    most = max(1.0, *(speedup.ratio for _, speedup in timed))
    axis = Axis(0.0, min(max(most, *(speedup.high for _, speedup in timed)) * 1.04, most * _WIDEST))
    bars = []
    for variant, speedup in timed:
        bar: dict[str, object] = {
            "name": variant.name,
            "ends": (speedup.low, speedup.high),
            "kind": variant.judgement,
        }
        figures = f"{factor_text(speedup.ratio)} ({words.interval_text(speedup.low, speedup.high)})"
        if variant.name == EAGER:
            bar |= {
                "ratio": 1.0,
                "text": factor_text(1.0),
                "note": f"beside itself {figures}",
                "kind": "reference",
            }
        else:
            note = (
                TOO_NOISY
                if words.is_too_noisy(speedup, variant.judgement)
                else _JUDGED.get(variant.judgement, "")
            )
            bar |= {"ratio": speedup.ratio, "text": figures, "note": note}
        if variant.status == "wrong":
            bar |= {"kind": "wrong", "note": "wrong results"}
        bars.append(bar)
    yield Drawing("bench_bars.html.j2", {"axis": axis, "bars": bars}, styles=STYLES)


# When compiling pays.


@dataclass(frozen=True)
class _Start:
    """Time of calls from a start on.

    Args:
        calls: Calls until it is won back; None if it never is, or that is unknown.
    """

    number: int
    compile_s: float
    call_s: float
    name: str = ""
    calls: int | None = None

    @property
    def is_warm(self) -> bool:
        """A restart after a cold start."""
        return self.name == words.WARM

    def after(self, calls: float) -> float:
        """Seconds."""
        return self.compile_s + calls * self.call_s

    def line(self, x: Axis) -> Line:
        """The line as it is drawn."""
        ends = [x.low, x.high]
        if x.is_log:
            ends = [x.low * (x.high / x.low) ** (number / _POINTS) for number in range(_POINTS + 1)]
        label = "" if self.is_warm else str(self.number or "E")
        return Line(
            tuple((at, self.after(at)) for at in ends),
            _style(self.number),
            label,
            is_dashed=self.is_warm,
        )


def payoff_drawing(variants: Sequence[Variant], best: str | None) -> Iterator[Drawing]:
    """The time that calls take in all, compiling included; nothing if that is unknown of all
    variants.
    """
    eager = variants[0]
    if eager.time_us is None or eager.time_us <= 0:
        return
    call_s = eager.time_us / 1e6
    starts = {
        number: of_variant
        for number, variant in enumerate(variants)
        if number
        and variant.status == "ok"
        and (of_variant := list(_starts(variant, number, call_s)))
    }
    timed = sum(
        variant.status == "ok" and variant.speedup is not None and variant.speedup.ratio > 0
        for variant in variants[1:]
    )
    drawn = [
        start
        for number, of_variant in starts.items()
        for start in of_variant
        if timed <= _MAX_DASHED or not start.is_warm or variants[number].name == best
    ]
    if not drawn:
        return
    shown = [_Start(0, 0.0, call_s), *drawn]
    x = _calls_axis(drawn, call_s)
    dots = [
        (start.calls, start.calls * call_s, _style(start.number))
        for start in drawn
        if start.calls is not None
    ]
    legend = [("E", _style(0), EAGER, [f"{words.time_text(call_s * 1e6)} per call"])]
    for number, of_variant in starts.items():
        variant = variants[number]
        legend.append(
            (
                str(number),
                _style(number),
                variant.name,
                [_start_text(start, variant, eager) for start in of_variant],
            )
        )
    facts = {
        "plot": Plot(x, _time_axis(shown, x), [start.line(x) for start in shown], dots),
        "legend": legend,
        "has_dashed": any(start.is_warm for start in drawn),
    }
    yield Drawing("bench_payoff.html.j2", facts, styles=STYLES)


def _starts(variant: Variant, number: int, call_s: float) -> Iterator[_Start]:
    if variant.speedup is None or variant.speedup.ratio <= 0:
        return
    for name, seconds, won in words.starts(variant):
        calls = won.calls if won is not None and variant.judgement == "faster" else None
        # The ratio of paired times, from which the break-even was worked out too.
        yield _Start(number, seconds, call_s / variant.speedup.ratio, name, calls)


def _start_text(start: _Start, variant: Variant, eager: Variant) -> str:
    names = {words.WARM: "after a restart", "cold": "compiled from nothing"}
    took = f"{names.get(start.name, start.name)}, {words.seconds_text(start.compile_s)}"
    if start.calls is not None:
        return f"{took}: meets eager after {words.calls_text(start.calls)}, {words.calling_text(start.calls, eager)}"
    return f"{took}: {'never meets eager' if variant.judgement == 'slower' else 'unknown when it meets eager'}"


def _calls_axis(starts: Sequence[_Start], call_s: float) -> Axis:
    """An axis on which every crossing can be seen."""
    crossings = [float(max(start.calls, 1)) for start in starts if start.calls is not None]
    ends = [0.0, max(2.5 * max(start.compile_s for start in starts) / call_s, 10.0)]
    if crossings:
        low, high = min(crossings), max(crossings)
        ends = [max(low / 10, 1.0), high * 4] if high / low > _FAR_APART else [0.0, high * 1.6]
    return axis_of(ends, "calls", lambda calls: about_count(round(calls)), far_apart=_FAR_APART)


def _time_axis(shown: Sequence[_Start], x: Axis) -> Axis:
    ends = [min(start.after(x.low) for start in shown), max(start.after(x.high) for start in shown)]
    return axis_of(
        ends if x.is_log else [0.0, ends[1]], "time in all", words.round_time_text, far_apart=1.0
    )


# Several sizes.


def sweep_drawing(sweep: Sweep, name: str) -> Iterator[Drawing]:
    """Each variant's speed-up by size; empty if nothing was timed."""
    names = list(
        dict.fromkeys(variant.name for point in sweep.points for variant in point.variants)
    )
    points = sorted(sweep.points, key=lambda point: point.size)
    ratios: Mapping[str, list[tuple[int, float, float, float]]] = {heading: [] for heading in names}
    for point in points:
        for variant in point.variants:
            if variant.speedup is not None and variant.status == "ok" and variant.name != EAGER:
                ratios[variant.name].append(
                    (point.size, variant.speedup.ratio, variant.speedup.low, variant.speedup.high)
                )
    drawn = {number: measured for number, measured in enumerate(ratios.values()) if measured}
    if not drawn:
        return
    failed = {
        point.size
        for point in points
        if all(variant.status == "failed" for variant in point.variants)
    }
    sizes = tuple(point.size for point in points)
    x = axis_of(
        sizes,
        name,
        lambda size: f"{size:,} failed" if size in failed else f"{size:,}",
        far_apart=_FAR_APART,
        named=sizes,
    )
    # The ends of intervals, as far as there is room for them.
    ends = [
        end
        for measured in drawn.values()
        for _, ratio, low, high in measured
        for end in (max(low, ratio / _WIDEST), min(high, ratio * _WIDEST))
    ]
    lines = [
        Line(
            tuple((float(size), ratio) for size, ratio, *_ in measured),
            _style(number),
            str(number),
            intervals=tuple((size, low, high) for size, _, low, high in measured),
            has_dots=True,
        )
        for number, measured in drawn.items()
    ]
    plot = Plot(x, axis_of([1.0, *ends], "speed-up", factor_text), lines, level=1.0)
    legend = [(str(number), _style(number), names[number]) for number in drawn]
    yield Drawing("bench_sweep.html.j2", {"plot": plot, "legend": legend}, styles=STYLES)
