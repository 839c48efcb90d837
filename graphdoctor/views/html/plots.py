"""Drawings of a bench, as markup that needs no script: bars with intervals, and lines over an axis.

Comes in: numbers and names. Goes out: markup in which positions are shares of the drawing's size, so that it fits any
screen while its text keeps its size. A drawing is hidden from screen readers; what it shows stands beside it as text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from graphdoctor.views.printable import printable

_STEPS = (1, 2, 5)
_TICKS = 5
_NOTHING = Markup()
_LEAST_GAP = 7.0
"""Between two names of lines, in percent of a drawing's height."""


@dataclass(frozen=True)
class Axis:
    """From numbers to places.

    Args:
        high: The number at its end, above ``low``.
    """

    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where a number is, in percent of the axis's length; outside of it, at the end."""
        low, high, at = (math.log(max(each, 1e-300)) if self.is_log else each for each in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.0
        return 100 * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round numbers along it."""
        if not self.is_log:
            return self._even()
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        tens = self._within([10.0**power for power in powers])
        if len(tens) > 2:
            return tens[:: math.ceil(len(tens) / _TICKS)]
        finer = self._within([step * 10.0**power for power in powers for step in _STEPS])
        return finer if len(finer) > 1 else self._even()

    def _even(self) -> list[float]:
        step = _step((self.high - self.low) / _TICKS)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return self._within([number * step for number in range(first, last + 1)])

    def _within(self, numbers: Sequence[float]) -> list[float]:
        return [number for number in numbers if self.low <= number <= self.high]


def _step(least: float) -> float:
    """The smallest round step that isn't less."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next((step * power for step in _STEPS if step * power >= least * (1 - 1e-9)), 10 * power)


def span(values: Sequence[float]) -> Axis:
    """An axis that holds all of these and a little more."""
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return Axis(max(low - room, 0.0), high + room)


# Bars.


def bar(axis: Axis, value: float, interval: tuple[float, float], *, kind: str) -> Markup:
    """A bar from the start of the axis with its interval, and a line at 1."""
    one, end = axis.place(1.0), axis.place(value)
    low, high = (axis.place(each) for each in interval)
    # An end that has no room has no cap.
    caps = [axis.place(each) for each in interval if axis.low <= each <= axis.high]
    parts = [
        Markup('<rect class="{}" x="0" y="5" width="{:.2f}%" height="14" rx="2"/>').format(kind, end),
        Markup('<line class="at-one" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="24"/>').format(one),
        Markup('<line class="interval" x1="{:.2f}%" x2="{:.2f}%" y1="12" y2="12"/>').format(low, high),
        *(Markup('<line class="interval" x1="{0:.2f}%" x2="{0:.2f}%" y1="8" y2="16"/>').format(each) for each in caps),
    ]
    return _track(parts)


def moved(axis: Axis, before: tuple[float, float, float], after: tuple[float, float, float]) -> Markup:
    """A number before, above, and the same number after, below, each with its interval; and a line at 1."""
    parts = [Markup('<line class="at-one" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="24"/>').format(axis.place(1.0))]
    for name, height, (low, value, high) in (("was", 8, before), ("now", 17, after)):
        parts += [
            Markup('<line class="{0}" x1="{1:.2f}%" x2="{2:.2f}%" y1="{3}" y2="{3}"/>').format(
                name, axis.place(low), axis.place(high), height
            ),
            Markup('<circle class="{}-at" cx="{:.2f}%" cy="{}" r="4"/>').format(name, axis.place(value), height),
        ]
    return _track(parts)


def _track(parts: Sequence[Markup]) -> Markup:
    return Markup('<svg class="track" aria-hidden="true" focusable="false" width="100%" height="24">{}</svg>').format(
        Markup().join(parts)
    )


# Lines.


@dataclass(frozen=True)
class Line:
    """A line of a drawing.

    Args:
        label: What stands at its end; empty for nothing.
        intervals: For each point both ends of its interval; empty for none.
    """

    points: tuple[tuple[float, float], ...]
    style: str
    label: str = ""
    is_dashed: bool = False
    intervals: tuple[tuple[float, float], ...] = ()
    has_dots: bool = False


@dataclass(frozen=True)
class Tick:
    """A number of an axis and how it is written."""

    value: float
    text: str


def plot(
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    *,
    x_ticks: Sequence[Tick],
    y_ticks: Sequence[Tick],
    x_name: str,
    y_name: str,
    dots: Sequence[tuple[float, float, str]] = (),
    level: float | None = None,
    inside: Markup = _NOTHING,
) -> Markup:
    """Lines over an axis.

    Args:
        x: The axis from left to right.
        y: The axis from bottom to top.
        lines: What is drawn.
        x_ticks: The numbers of the first axis.
        y_ticks: The numbers of the second.
        x_name: What the first shows.
        y_name: What the second shows.
        dots: Points to mark, each with its class.
        level: A number of the second axis at which a line goes across.
        inside: What else is drawn, made by ``placed``.
    """
    shapes = [_across("grid", y.place(tick.value)) for tick in y_ticks]
    shapes += [_across("at-one", y.place(level))] if level is not None else []
    for line in lines:
        shapes += [
            _line(f"interval {line.style}", [(at, low), (at, high)], x, y)
            for (at, _), (low, high) in zip(line.points, line.intervals, strict=False)
        ]
        shapes.append(_line(f"curve {line.style}{' dashed' * line.is_dashed}", line.points, x, y))
    marks = [(*point, line.style) for line in lines if line.has_dots for point in line.points]
    parts = [
        Markup('<span class="dot {}" style="left:{:.2f}%;top:{:.2f}%"></span>').format(
            style, x.place(at), 100 - y.place(value)
        )
        for at, value, style in (*marks, *dots)
    ]
    parts += [*_labels(lines, y), inside]
    parts += [
        Markup('<span class="x-tick" style="left:{:.2f}%">{}</span>').format(x.place(tick.value), printable(tick.text))
        for tick in x_ticks
    ]
    parts += [
        Markup('<span class="y-tick" style="top:{:.2f}%">{}</span>').format(
            100 - y.place(tick.value), printable(tick.text)
        )
        for tick in y_ticks
    ]
    drawn = Markup('<svg viewBox="0 0 100 100" preserveAspectRatio="none" focusable="false">{}</svg>').format(
        Markup().join(shapes)
    )
    return Markup(
        '<div class="plot" aria-hidden="true"><span class="y-name">{}</span><div class="area">{}{}</div>'
        '<span class="x-name">{}</span></div>'
    ).format(printable(y_name), drawn, Markup().join(parts), printable(x_name))


def placed(element: Markup, at: float, value: float, x: Axis, y: Axis) -> Markup:
    """An element's opening with the place of its middle, to be drawn inside a plot.

    Args:
        element: What it begins with, up to its attributes, such as ``<i class="piece"``.
        at: Its number on the first axis.
        value: Its number on the second.
        x: The axis from left to right.
        y: The axis from bottom to top.
    """
    return Markup('{} style="left:{:.4g}%;top:{:.4g}%">').format(element, x.place(at), 100 - y.place(value))


def _across(style: str, place: float) -> Markup:
    return Markup('<line class="{0}" x1="0" x2="100" y1="{1:.2f}" y2="{1:.2f}"/>').format(style, 100 - place)


def _line(style: str, points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> Markup:
    places = " ".join(f"{x.place(at):.2f},{100 - y.place(value):.2f}" for at, value in points)
    return Markup('<polyline class="{}" points="{}"/>').format(style, places)


def _labels(lines: Sequence[Line], y: Axis) -> list[Markup]:
    """What stands at the ends of lines, moved apart where they end close together."""
    named = sorted(
        ((100 - y.place(line.points[-1][1]), line) for line in lines if line.label and line.points),
        key=lambda pair: pair[0],
    )
    places: list[float] = []
    for place, _ in named:
        places.append(max(place, places[-1] + _LEAST_GAP) if places else place)
    over = max(places[-1] - 100, 0.0) if places else 0.0
    return [
        Markup('<span class="end badge {}" style="top:{:.2f}%">{}</span>').format(
            line.style, place - over, printable(line.label)
        )
        for place, (_, line) in zip(places, named, strict=True)
    ]
