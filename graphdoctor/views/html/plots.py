"""Drawings of numbers: what ``plots.html.j2`` needs to draw lines and bars with intervals over an
axis.

Places are shares of a drawing's size, so that it fits any screen while its text keeps its size. A
drawing needs no script and is hidden from screen readers; what it shows stands beside it as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_STEPS = (1, 2, 5)
_TICKS = 5
_LEAST_GAP = 7.0
"""Between two names of lines, in percent of a drawing's height."""
HUES = 8
STYLES = ("bench.css",)


@dataclass(frozen=True)
class Axis:
    """From numbers to places; ``named`` numbers are written, or round ones."""

    low: float
    high: float
    is_log: bool = False
    name: str = ""
    text: Callable[[float], str] = str
    named: tuple[float, ...] = ()

    def place(self, value: float) -> float:
        """Return the place of a number, in percent of the axis's length; outside of it, at the
        end.
        """
        low, high, at = (
            math.log(max(number, 1e-300)) if self.is_log else number
            for number in (self.low, self.high, value)
        )
        share = (at - low) / (high - low) if high > low else 0.0
        return 100 * min(max(share, 0.0), 1.0)

    def ticks(self) -> Sequence[float]:
        """Return the numbers that are written along it."""
        if self.named:
            return self.named
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
    """Return the smallest round step that isn't less."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next((step * power for step in _STEPS if step * power >= least * (1 - 1e-9)), 10 * power)


def axis_of(
    values: Sequence[float],
    name: str = "",
    text: Callable[[float], str] = str,
    *,
    far_apart: float = math.inf,
    named: tuple[float, ...] = (),
) -> Axis:
    """Return an axis that holds all values and a little more, logarithmic if they are ``far_apart``
    times as far apart.
    """
    low, high = min(values), max(values)
    if low > 0 and high / low > far_apart:
        return Axis(low / 1.15, high * 1.15, is_log=True, name=name, text=text, named=named)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return Axis(max(low - room, 0.0), high + room, name=name, text=text, named=named)


@dataclass(frozen=True)
class Line:
    """A line with a label at its end; an interval has its number of the first axis and both
    ends.
    """

    points: tuple[tuple[float, float], ...]
    style: str
    label: str = ""
    is_dashed: bool = False
    intervals: tuple[tuple[float, float, float], ...] = ()
    has_dots: bool = False


@dataclass(frozen=True)
class Plot:
    """Lines over an axis, points with a class each, and a line across at a number of the second."""

    x: Axis
    y: Axis
    lines: Sequence[Line]
    dots: Sequence[tuple[float, float, str]] = ()
    level: float | None = None

    def top(self, value: float) -> float:
        """Return the place of a number of the second axis, in percent from above."""
        return 100 - self.y.place(value)

    def ends(self) -> list[tuple[float, Line]]:
        """Places of the labels of lines, moved apart where lines end close together."""
        ends = [
            (self.top(line.points[-1][1]), line)
            for line in self.lines
            if line.label and line.points
        ]
        ends.sort(key=lambda end: end[0])
        places: list[float] = []
        for place, _ in ends:
            places.append(max(place, places[-1] + _LEAST_GAP) if places else place)
        over = max(places[-1] - 100, 0.0) if places else 0.0
        return [(place - over, line) for place, (_, line) in zip(places, ends, strict=True)]
