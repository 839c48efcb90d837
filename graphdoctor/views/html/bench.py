"""Drawings of a bench: speed-ups as bars, by size, and when compiling pays.

Comes in: a ``BenchReport``. Goes out: drawings that need no script, hidden from screen readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from graphdoctor.facts.bench import EAGER
from graphdoctor.facts.wording import about_count, factor_text
from graphdoctor.views import bench_words as words
from graphdoctor.views.html import plots
from graphdoctor.views.html.plots import Axis, Line, Tick
from graphdoctor.views.parts import Drawing

if TYPE_CHECKING:
    from graphdoctor.facts.bench import Sweep, Variant

_HUES = 8
_FAR_APART = 8.0
"""Crossings this many times as far from each other, or sizes, share a logarithmic axis."""
_WIDEST = 1.5
"""The end of an interval further away than this from its ratio has no room in a drawing."""
_MAX_DASHED = 3
"""With more variants than this, only the best has a line for a restart."""
_POINTS = 60
_STYLES = ("bench.css",)
_JUDGED = {"faster": "", "slower": "slower", "same": "no measurable difference"}


def _style(number: int) -> str:
    """The class of a variant, which gives its color."""
    return "of-eager" if number == 0 else f"hue{(number - 1) % _HUES}"


# Bars.


def speed_drawing(variants: Sequence[Variant]) -> tuple[Drawing, ...]:
    """Each variant's speed-up with its interval; empty if nothing was timed."""
    bars = list(_bars(variants))
    return (Drawing("bench_bars.html.j2", {"bars": bars}, styles=_STYLES),) if bars else ()


def _bars(variants: Sequence[Variant]) -> Iterator[dict[str, str]]:
    timed = [(variant, variant.speedup) for variant in variants if variant.speedup is not None]
    most = max([1.0, *(speedup.ratio for _, speedup in timed)])
    axis = Axis(0.0, min(max([most, *(speedup.high for _, speedup in timed)]) * 1.04, most * _WIDEST))
    for variant, speedup in timed:
        is_eager = variant.name == EAGER
        kind = "wrong" if variant.status == "wrong" else "reference" if is_eager else variant.judgement
        ratio = 1.0 if is_eager else speedup.ratio
        figures = f"{factor_text(speedup.ratio)} ({words.interval_text(speedup.low, speedup.high)})"
        note = "wrong results" if variant.status == "wrong" else _JUDGED.get(variant.judgement, "")
        yield {
            "name": variant.name,
            "drawn": plots.bar(axis, ratio, (speedup.low, speedup.high), kind=kind),
            "text": factor_text(1.0) if is_eager else figures,
            "note": f"beside itself {figures}" if is_eager else note,
        }


# When compiling pays.


@dataclass(frozen=True)
class _Start:
    """Time of calls from a start on."""

    name: str
    compile_s: float
    call_s: float
    style: str
    label: str
    is_warm: bool
    calls: int | None
    """Calls until it is won back; None if it never is, or that is unknown."""

    def after(self, calls: float) -> float:
        """Seconds."""
        return self.compile_s + calls * self.call_s


def payoff_drawing(variants: Sequence[Variant], best: str | None) -> tuple[Drawing, ...]:
    """The time that calls take in all, compiling included; empty if that is unknown of all variants."""
    styles = {variant.name: _style(number) for number, variant in enumerate(variants)}
    eager = variants[0]
    if eager.call_us is None or eager.call_us.median <= 0:
        return ()
    call_s = eager.call_us.median / 1e6
    right = [one for one in variants[1:] if one.status == "ok" and one.speedup is not None and one.speedup.ratio > 0]
    starts = [start for one in right for start in _starts(one, call_s, styles)]
    if not starts:
        return ()
    drawn_starts = [one for one in starts if len(right) <= _MAX_DASHED or not one.is_warm or one.name == best]
    first = _Start(EAGER, 0.0, call_s, styles[EAGER], "E", is_warm=False, calls=None)
    x = _calls_axis(drawn_starts, call_s)
    shown = [first, *drawn_starts]
    y = _time_axis(shown, x)
    lines = [
        Line(
            tuple((at, one.after(at)) for at in _spread(x)),
            one.style,
            label="" if one.is_warm else one.label,
            is_dashed=one.is_warm,
        )
        for one in shown
    ]
    drawn = plots.plot(
        x,
        y,
        lines,
        x_ticks=[Tick(value, about_count(round(value))) for value in x.ticks()],
        y_ticks=[Tick(value, words.round_time_text(value)) for value in y.ticks()],
        x_name="calls",
        y_name="time in all",
        dots=[(one.calls, one.calls * call_s, one.style) for one in drawn_starts if one.calls is not None],
    )
    legend = [("E", styles[EAGER], EAGER, [f"{words.time_text(call_s * 1e6)} per call"])]
    for one in right:
        own = [start for start in starts if start.name == one.name]
        if own:
            texts = [_start_text(start, one, eager) for start in own]
            legend.append((own[0].label, own[0].style, one.name, texts))
    facts = {
        "drawn": drawn,
        "legend": legend,
        "is_log": x.is_log,
        "has_dashed": any(one.is_warm for one in drawn_starts),
    }
    return (Drawing("bench_payoff.html.j2", facts, styles=_STYLES),)


def _starts(variant: Variant, call_s: float, styles: dict[str, str]) -> Iterator[_Start]:
    ratio = 1.0 if variant.speedup is None else variant.speedup.ratio
    label = str(list(styles).index(variant.name))
    won = dict(words.break_evens(variant)) if variant.judgement == "faster" else {}
    for name, seconds in (("cold", variant.compile_cold_s), ("warm", variant.compile_warm_s)):
        if seconds is not None:
            calls = won[name].calls if name in won else None
            is_warm = name == "warm"
            # The ratio of paired times, from which the break-even was worked out too.
            yield _Start(variant.name, seconds, call_s / ratio, styles[variant.name], label, is_warm, calls)


def _start_text(start: _Start, variant: Variant, eager: Variant) -> str:
    name = "after a restart" if start.is_warm else "compiled from nothing"
    took = f"{name}, {words.seconds_text(start.compile_s)}"
    if start.calls is not None:
        return f"{took}: meets eager after {words.calls_text(start.calls)}, {words.calling_text(start.calls, eager)}"
    return f"{took}: {'never meets eager' if variant.judgement == 'slower' else 'unknown when it meets eager'}"


def _calls_axis(starts: Sequence[_Start], call_s: float) -> Axis:
    """An axis on which every crossing can be seen."""
    crossings = [float(max(start.calls, 1)) for start in starts if start.calls is not None]
    if not crossings:
        most = max(start.compile_s for start in starts)
        return Axis(0.0, max(2.5 * most / call_s, 10.0))
    least, most = min(crossings), max(crossings)
    if most / least > _FAR_APART:
        return Axis(max(least / 10, 1.0), most * 4, is_log=True)
    return Axis(0.0, most * 1.6)


def _time_axis(shown: Sequence[_Start], x: Axis) -> Axis:
    most = max(one.after(x.high) for one in shown)
    if not x.is_log:
        return Axis(0.0, most * 1.04 or 1.0)
    least = min(one.after(x.low) for one in shown)
    return (
        Axis(least, most * 1.2, is_log=True) if least > 0 else Axis(most / 1e6 or 1e-9, most * 1.2 or 1.0, is_log=True)
    )


def _spread(x: Axis) -> list[float]:
    """Numbers along an axis: a straight line needs its ends alone."""
    if not x.is_log:
        return [x.low, x.high]
    return [x.low * (x.high / x.low) ** (number / _POINTS) for number in range(_POINTS + 1)]


# Several sizes.


def sweep_drawing(sweep: Sweep, name: str) -> tuple[Drawing, ...]:
    """Each variant's speed-up by size; empty if nothing was timed."""
    names = list(dict.fromkeys(variant.name for point in sweep.points for variant in point.variants))
    found: dict[str, list[tuple[int, Variant]]] = {each: [] for each in names}
    points = sorted(sweep.points, key=lambda one: one.size)
    for point in points:
        for variant in point.variants:
            if variant.speedup is not None and variant.status == "ok" and variant.name != EAGER:
                found[variant.name].append((point.size, variant))
    failed = {point.size for point in sweep.points if all(one.status == "failed" for one in point.variants)}
    lines = [
        Line(
            tuple((float(size), one.speedup.ratio) for size, one in own if one.speedup is not None),
            _style(number),
            label=str(number),
            intervals=tuple((one.speedup.low, one.speedup.high) for _, one in own if one.speedup is not None),
            has_dots=True,
        )
        for number, (_, own) in enumerate(found.items())
        if own
    ]
    if not lines:
        return ()
    legend = [(str(number), _style(number), each) for number, each in enumerate(names) if found[each]]
    drawn = _sweep_plot(lines, [point.size for point in points], failed, name)
    return (Drawing("bench_sweep.html.j2", {"drawn": drawn, "legend": legend}, styles=_STYLES),)


def _sweep_plot(lines: Sequence[Line], sizes: Sequence[int], failed: set[int], name: str) -> Markup:
    low, high = min(sizes), max(sizes)
    is_log = low > 0 and high / low > _FAR_APART
    room = 1.15 if is_log else (high - low) * 0.06 or 1.0
    x = Axis(low / room, high * room, is_log=True) if is_log else Axis(low - room, high + room)
    y = plots.span([1.0, *(end for line in lines for end in _ends(line))])
    return plots.plot(
        x,
        y,
        lines,
        x_ticks=[Tick(size, f"{size:,} failed" if size in failed else f"{size:,}") for size in sizes],
        y_ticks=[Tick(value, factor_text(value)) for value in y.ticks()],
        x_name=name,
        y_name="speed-up",
        level=1.0,
    )


def _ends(line: Line) -> Iterator[float]:
    """The ends of its intervals, as far as there is room for them."""
    for (_, ratio), (low, high) in zip(line.points, line.intervals, strict=True):
        yield from (max(low, ratio / _WIDEST), min(high, ratio * _WIDEST))
