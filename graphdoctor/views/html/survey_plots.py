"""Drawings of a survey: speed-up by compile time, and speed-ups in order.

Comes in: a survey. Goes out: markup that needs no script, hidden from screen readers, and the same as figures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from markupsafe import Markup

from graphdoctor.facts.wording import factor_text
from graphdoctor.views import survey_words as words
from graphdoctor.views.bench_words import interval_text, seconds_text
from graphdoctor.views.html import plots
from graphdoctor.views.html.plots import Axis, Line, Tick
from graphdoctor.views.html.survey_rows import MAX_ROWS, row_ids
from graphdoctor.views.parts import NOTHING, Drawing, cell_line

if TYPE_CHECKING:
    from graphdoctor.facts.survey import GeometricMean, SurveyReport, SurveyRow

_Point = TypeVar("_Point")

MAX_VARIANTS = 12
"""Variants that are drawn."""
_HUES = 8
_MAX_FRONT = 12
_MAX_INTERVALS = 60
"""Intervals that a curve has room for."""
_FAR_APART = 4.0
"""Numbers this many times as far from each other share a logarithmic axis."""
_PIECE = Markup('<i class="piece {}" data-row="{}"')
_STYLES = ("bench.css", "survey.css")
_MARK = Markup('<b class="badge mark {}"')


@dataclass(frozen=True)
class Mark:
    """A variant in a drawing.

    Args:
        mean: Geometric mean of its speed-ups, over the targets that are timed under every variant; None if unknown.
        compile_cold_s: Median over the same targets; None if unknown.
    """

    label: str
    style: str
    name: str
    mean: GeometricMean | None
    compile_cold_s: float | None
    is_on_front: bool = False

    @property
    def point(self) -> tuple[float, float] | None:
        """Where it is drawn; None if it isn't."""
        return (self.compile_cold_s, self.mean.ratio) if self.mean is not None and self.compile_cold_s else None

    @property
    def figures(self) -> tuple[str, str]:
        """Its mean with the interval, and its compile time."""
        mean = self.mean
        return (
            NOTHING if mean is None else f"{factor_text(mean.ratio)} ({interval_text(mean.low, mean.high)})",
            NOTHING if self.compile_cold_s is None else seconds_text(self.compile_cold_s),
        )


def styles_of(report: SurveyReport) -> dict[str, tuple[str, str]]:
    """For each variant that is drawn, its label and its class."""
    names = [variant.name for variant in report.variants[:MAX_VARIANTS]]
    return {name: (str(number + 1), f"hue{number % _HUES}") for number, name in enumerate(names)}


# Speed-up by compile time.


def pareto_drawing(report: SurveyReport) -> tuple[Drawing, ...]:
    """Speed-up by compile time; empty if nothing has both."""
    styles = styles_of(report)
    rows = report.rows[:MAX_ROWS]
    ids = row_ids(rows)
    points = [
        (number, row, point)
        for number, row in enumerate(rows)
        if row.variant in styles and (point := _point(row)) is not None
    ]
    if not points:
        return ()
    marks, shared = _marks(report, styles)
    every = [point for _, _, point in points] + [mark.point for mark in marks if mark.point is not None]
    x, y = _axis([at for at, _ in every]), _axis([value for _, value in every], level=1.0)
    is_single = len(report.variants) == 1
    on_front = front([(number, point) for number, _, point in points]) if is_single else []
    ends = [point for number in on_front if (point := _point(rows[number])) is not None]
    ends += sorted(mark.point for mark in marks if mark.is_on_front and mark.point is not None)
    lines = [Line(tuple(_steps(ends, x)), "front", is_dashed=True)]
    inside = [
        Markup("{}</i>").format(
            plots.placed(_PIECE.format(styles[row.variant][1] + " best" * (number in on_front), number), *point, x, y)
        )
        for number, row, point in points
    ]
    for mark in marks:
        if mark.point is not None and mark.mean is not None:
            lines.append(Line((mark.point,), mark.style, intervals=((mark.mean.low, mark.mean.high),)))
            opening = plots.placed(_MARK.format(mark.style), *mark.point, x, y)
            inside.append(Markup("{}{}</b>").format(opening, mark.label))
    drawn = plots.plot(
        x,
        y,
        lines,
        x_ticks=[Tick(value, seconds_text(value)) for value in x.ticks()],
        y_ticks=[Tick(value, factor_text(value)) for value in y.ticks()],
        x_name="cold compile",
        y_name="speed-up",
        level=1.0,
        inside=Markup().join(inside),
    )
    facts = {
        "has_variants": not is_single,
        "drawn": drawn,
        "marks": marks,
        "shared": shared,
        "front": [(ids[number], rows[number].name, _figures(rows[number])) for number in on_front[:_MAX_FRONT]],
        "more": max(len(on_front) - _MAX_FRONT, 0),
        "log_text": _log_text(x, y),
        "hidden_variants": max(len(report.variants) - MAX_VARIANTS, 0),
    }
    return (Drawing("survey_pareto.html.j2", facts, styles=_STYLES),)


def _point(row: SurveyRow) -> tuple[float, float] | None:
    """Where a row is drawn; None if it failed, or wasn't timed."""
    if not row.is_passed or row.compile_cold_s is None or row.speedup is None:
        return None
    return (row.compile_cold_s, row.speedup) if row.compile_cold_s > 0 and row.speedup > 0 else None


def _figures(row: SurveyRow) -> str:
    return f"{cell_line(words.speedup_cell(row))}, {seconds_text(row.compile_cold_s)}"


def _marks(report: SurveyReport, styles: Mapping[str, tuple[str, str]]) -> tuple[list[Mark], int]:
    """The variants, and how many targets their figures are of; none if there is one variant."""
    if len(report.variants) == 1:
        return [], 0
    groups = {group.variant: group for group in words.total_groups(report)}
    cold = _shared_compiles(report)
    found = []
    for name, (label, style) in styles.items():
        group, own = groups.get(name), cold.get(name)
        mean = None if group is None else group.speedup_shared
        found.append(Mark(label, style, name, mean, statistics.median(own) if own else None))
    best = front([(mark, mark.point) for mark in found if mark.point is not None])
    names = {mark.name for mark in best}
    count = max((mark.mean.count for mark in found if mark.mean is not None), default=0)
    return [replace(one, is_on_front=one.name in names) for one in found], count


def _shared_compiles(report: SurveyReport) -> dict[str, list[float]]:
    """For each variant the compile times of the targets that pass and have one under every variant."""
    found: dict[str, dict[str, float]] = {}
    for row in report.rows:
        if _point(row) is not None and row.compile_cold_s is not None:
            found.setdefault(row.name, {})[row.variant] = row.compile_cold_s
    shared = [own for own in found.values() if len(own) == len(report.variants)]
    return {variant.name: [own[variant.name] for own in shared] for variant in report.variants}


def front(points: Sequence[tuple[_Point, tuple[float, float]]]) -> list[_Point]:
    """Those that no other beats in both: less on the first axis, more on the second; from left to right."""
    best, found = -math.inf, []
    for one, (_, value) in sorted(points, key=lambda point: (point[1][0], -point[1][1])):
        if value > best:
            best = value
            found.append(one)
    return found


def _steps(points: Sequence[tuple[float, float]], x: Axis) -> Iterator[tuple[float, float]]:
    """The front as a line: the most that a compile time buys."""
    for number, (at, value) in enumerate(points):
        if number:
            yield at, points[number - 1][1]
        yield at, value
    if points:
        yield x.high, points[-1][1]


def _axis(values: Sequence[float], level: float | None = None) -> Axis:
    low, high = min(values), max(values)
    if low > 0 and high / low > _FAR_APART:
        return Axis(low / 1.15, high * 1.15, is_log=True)
    return plots.span([*values, *([] if level is None else [level])])


def _log_text(x: Axis, y: Axis) -> str:
    if x.is_log and y.is_log:
        return "Both axes are logarithmic."
    if x.is_log or y.is_log:
        return f"The axis of {'compile times' if x.is_log else 'speed-ups'} is logarithmic."
    return ""


# Speed-ups in order.


def spread_drawing(report: SurveyReport) -> tuple[Drawing, ...]:
    """Speed-ups in order, a curve for each variant; empty if nothing was timed."""
    found: dict[str, list[SurveyRow]] = {}
    for row in report.rows:
        if row.is_passed and row.speedup:
            found.setdefault(row.variant, []).append(row)
    styles = styles_of(report)
    own = {name: sorted(found[name], key=_speedup) for name in styles if name in found}
    if not own:
        return ()
    every = max(math.ceil(max(map(len, own.values())) / _MAX_INTERVALS), 1)
    y = _axis([_speedup(row) for rows in own.values() for row in rows], level=1.0)
    lines = [line for name, rows in own.items() for line in _curve(rows, *styles[name], every)]
    drawn = plots.plot(
        Axis(0.0, 100.0),
        y,
        lines,
        x_ticks=[Tick(value, f"{value:.0f}%") for value in (0, 25, 50, 75, 100)],
        y_ticks=[Tick(value, factor_text(value)) for value in y.ticks()],
        x_name="share of targets",
        y_name="speed-up",
        level=1.0,
    )
    facts = {
        "has_variants": len(report.variants) > 1,
        "drawn": drawn,
        "rows": [(*styles[name], name, len(ordered), _quartiles(ordered)) for name, ordered in own.items()],
        "every": every,
        "quartiles": ("least", "¼", "median", "¾", "most"),
    }
    return (Drawing("survey_spread.html.j2", facts, styles=_STYLES),)


def _speedup(row: SurveyRow) -> float:
    return row.speedup or 0.0


def _curve(rows: Sequence[SurveyRow], label: str, style: str, every: int) -> Iterator[Line]:
    """A curve, and the intervals of some of its points."""
    places = [(100 * (number + 0.5) / len(rows), _speedup(row)) for number, row in enumerate(rows)]
    yield Line(tuple(places), style, label=label, has_dots=len(rows) <= _MAX_INTERVALS)
    known = [
        (place, (row.speedup_low, row.speedup_high))
        for place, row in list(zip(places, rows, strict=True))[::every]
        if row.speedup_low is not None and row.speedup_high is not None
    ]
    for place, (low, high) in known:
        yield Line((place,), style, intervals=((low, high),))


def _quartiles(rows: Sequence[SurveyRow]) -> tuple[str, ...]:
    values = [_speedup(row) for row in rows]
    middle = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return tuple(factor_text(value) for value in (values[0], *middle, values[-1]))
