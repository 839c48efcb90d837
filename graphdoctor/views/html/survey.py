"""What only the page of a survey shows: its rows with all that is known of each, and drawings of
speed-ups.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from graphdoctor.facts.survey import SURVEY_STATUSES
from graphdoctor.views import survey_words as words
from graphdoctor.views.html.plots import HUES, STYLES, Axis, Line, Plot, axis_of
from graphdoctor.views.measures import seconds_text
from graphdoctor.views.parts import Drawing, cell_line
from graphdoctor.views.printable import printable_lines
from graphdoctor.wording import counted, factor_text, join_texts, shortened, without_middle

if TYPE_CHECKING:
    from graphdoctor.facts.survey import GeometricMean, SurveyCause, SurveyReport, SurveyRow

_Item = TypeVar("_Item")

MAX_ROWS = 4_000
"""Rows that a page has."""
_MAX_CAUSES = 12
"""Findings of a row that its details have."""
_MAX_GAPS = 20
_MAX_CHARACTERS = 6_000
"""Of a text."""
_MAX_TEXT = 4_000_000
"""Characters of all texts together; from then on, each is cut to ``_SCARCE``."""
_SCARCE = 200
_LONGEST_ID = 60
_MAX_CHOICES = 300
"""Choices of a filter."""
_LONGEST_CHOICE = 60
_MAX_VARIANTS = 12
"""Variants that are drawn."""
_MAX_FRONT = 12
_MAX_INTERVALS = 60
"""Intervals that a curve has room for."""
_FAR_APART = 4.0
"""Numbers this many times as far from each other share a logarithmic axis."""


def rows_drawing(report: SurveyReport, pages: str | None) -> Drawing:
    """The table of all rows, which sorts, filters, and opens each row; ``pages`` is as in
    ``RenderOptions``.
    """
    rows = report.rows[:MAX_ROWS]
    ids = row_ids(rows)
    addresses = [page_address(row.report, pages) for row in rows]
    table = words.row_table(report.replace(rows=rows), is_page=True)
    texts = _Texts()
    # What failed comes first: its tracebacks are what a reader opens a row for.
    ordered = sorted(zip(rows, ids, strict=True), key=lambda shown: shown[0].is_passed)
    details = {id: texts.packed(_details(row)) for row, id in ordered}
    facts = {
        "columns": table.columns,
        "rows": list(zip(ids, map(_filtered_by, rows), addresses, table.rows, strict=True)),
        "has_pages": any(addresses),
        "hidden_rows": len(report.rows) - len(rows),
        "is_scarce": texts.is_scarce,
        "filters": [each for each in _filters(rows) if len(each[-1]) > 1],
        "marks": [
            name for name in ("flaky", "noisy") if any(getattr(row, f"is_{name}") for row in rows)
        ],
    }
    blobs = {"rows": {"texts": list(texts.found), "rows": details}}
    return Drawing(
        "survey_rows.html.j2",
        facts,
        blobs,
        ("survey.js",),
        (*STYLES, "survey.css"),
        (words.row_table(report),),
    )


def _filtered_by(row: SurveyRow) -> dict[str, str | None]:
    return {
        "status": row.status,
        "variant": row.variant,
        "family": row.family,
        "code": " ".join(dict.fromkeys(cause.code for cause in row.causes)),
        "marks": " ".join(name for name in ("flaky", "noisy") if getattr(row, f"is_{name}")),
    }


def _filters(
    rows: Sequence[SurveyRow],
) -> Iterator[tuple[str, str, str, Sequence[tuple[str, str]]]]:
    """Choices of what the table shows: key, label, what shows all, and each value with its text."""
    statuses = {row.status for row in rows}
    outcomes = [
        (status, words.STATUS_TEXTS[status]) for status in SURVEY_STATUSES if status in statuses
    ]
    yield (
        "status",
        "Status",
        "all",
        [*outcomes, ("not-ok", "all but ok")] if len(outcomes) > 1 else [],
    )
    yield "variant", "Variant", "all", _choices(row.variant for row in rows)
    yield "family", "Family", "all", _choices(row.family for row in rows if row.family is not None)
    codes = _choices(sorted({cause.code for row in rows for cause in row.causes}))
    yield "code", "Finding", "any or none", [*codes, ("none", "none")] if codes else []


def _choices(values: Iterable[str]) -> list[tuple[str, str]]:
    return [
        (value, shortened(value, _LONGEST_CHOICE))
        for value in list(dict.fromkeys(values))[:_MAX_CHOICES]
    ]


def row_ids(rows: Iterable[SurveyRow]) -> list[str]:
    """For each row an id that no other has, which is the same whenever the survey is made again."""
    found: dict[str, None] = {}
    for row in rows:
        text = f"row-{_slug(row.name)}-{_slug(row.variant)}"
        id, number = text, 1
        while id in found:
            number += 1
            id = f"{text}-{number}"
        found[id] = None
    return list(found)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text)[:_LONGEST_ID].strip("-")


def page_address(report: str | None, pages: str | None) -> str | None:
    """Where a piece's own page is, relative to this one; None if it has none or it would be outside
    of that folder.
    """
    if report is None or pages is None:
        return None
    path = PurePosixPath(report)
    if path.is_absolute() or ".." in path.parts:
        return None
    return f"./{quote(printable_lines(pages))}/{quote(printable_lines(report))}"


# What a row shows when it is opened.


class _Texts:
    """Each text once, in the order in which it came: many rows share tracebacks, messages and
    edits.
    """

    def __init__(self) -> None:
        self.found: dict[str, int] = {}
        self._left = _MAX_TEXT

    @property
    def is_scarce(self) -> bool:
        """Whether long texts are cut to little."""
        return self._left < 0

    def packed(self, value: Any) -> Any:  # noqa: ANN401 - of any JSON
        """A value with numbers of texts in place of texts, without what is unknown or empty."""
        if isinstance(value, dict):
            return {
                name: self.packed(one)
                for name, one in value.items()
                if one not in (None, "", [], ())
            }
        if isinstance(value, list | tuple):
            return [self.packed(one) for one in value]
        if not isinstance(value, str) or value in self.found:
            return self.found.get(value, value)
        safe = printable_lines(
            without_middle(value, _SCARCE if self.is_scarce else _MAX_CHARACTERS)
        )
        if safe not in self.found:
            self._left -= len(safe)
        return self.found.setdefault(safe, len(self.found))


def _details(row: SurveyRow) -> dict[str, Any]:
    more = len(row.causes) - _MAX_CAUSES
    return {
        "error": None if row.is_passed else row.error or row.error_type,
        "traceback": row.traceback,
        "facts": list(_facts(row)),
        "causes": [_cause(cause) for cause in row.causes[:_MAX_CAUSES]],
        "more": f"{counted(more, 'more finding')} in the JSON document." if more > 0 else None,
        "command": row.command,
        "gaps": row.gaps[:_MAX_GAPS],
    }


def _cause(cause: SurveyCause) -> dict[str, Any]:
    costs = words.cause_costs(cause)
    said = join_texts(
        ", ",
        f"{cause.count:,} times" if cause.count > 1 else None,
        f"costs {costs}" if costs else None,
        None if cause.compile_s is None else f"{seconds_text(cause.compile_s)} of compiling",
    )
    return {**vars(cause), "place": cause.location, "costs": said, "fingerprint": None}


def _facts(row: SurveyRow) -> Iterator[tuple[str, str]]:
    """All that is known of a row, but for its error and findings."""
    yield "outcome", words.outcome_text(row.status, row.stage)
    if row.error_type is not None:
        yield "exception", row.error_type
    if row.attempts > 1:
        yield "attempts", words.flaky_text(row) if row.earlier else f"{row.attempts:,}"
    known = {
        name: words.field_cell(row, name) for name in words.FIELDS if getattr(row, name) is not None
    }
    yield from ((words.FIELDS[name].label, cell_line(cell)) for name, cell in known.items())
    if unknown := [
        field.label
        for name, field in words.FIELDS.items()
        if field.is_counted and name not in known
    ]:
        yield "unknown", ", ".join(unknown)
    if row.is_noisy:
        yield "noisy", f"{words.NOISY}."


# Speed-up by compile time.


@dataclass(frozen=True)
class _Mark:
    """A variant, with the mean of speed-ups and the median compile time over targets timed under
    every variant.
    """

    label: str
    style: str
    name: str
    mean: GeometricMean | None
    compile_cold_s: float | None
    is_on_front: bool = False

    @property
    def figures(self) -> tuple[str, str]:
        """Its mean with the interval, and its compile time."""
        return cell_line(words.mean_cell(self.mean)), words.seconds_cell(self.compile_cold_s)


def _styles(report: SurveyReport) -> dict[str, tuple[str, str]]:
    """For each variant that is drawn, its label and its class."""
    names = [variant.name for variant in report.variants[:_MAX_VARIANTS]]
    return {name: (str(number + 1), f"hue{number % HUES}") for number, name in enumerate(names)}


def pareto_drawing(report: SurveyReport) -> Iterator[Drawing]:
    """Speed-up by compile time; empty if nothing has both."""
    styles = _styles(report)
    rows = report.rows[:MAX_ROWS]
    points = {
        number: point
        for number, row in enumerate(rows)
        if row.variant in styles and (point := _point(row)) is not None
    }
    if not points:
        return
    is_single = len(report.variants) == 1
    marks = [] if is_single else _marks(report, styles)
    placed = {
        mark: (mark.compile_cold_s, mark.mean.ratio)
        for mark in marks
        if mark.mean is not None and mark.compile_cold_s
    }
    best = {mark.name for mark in front(placed)}
    on_front = front(points) if is_single else []
    every = [*points.values(), *placed.values()]
    x = axis_of([at for at, _ in every], "cold compile", seconds_text, far_apart=_FAR_APART)
    y = _speedups([value for _, value in every])
    ends = [points[number] for number in on_front] or [placed[mark] for mark in front(placed)]
    intervals = [
        Line((), mark.style, intervals=((at, mark.mean.low, mark.mean.high),))
        for mark, (at, _) in placed.items()
        if mark.mean is not None
    ]
    pieces = [
        (*point, styles[rows[number].variant][1] + (" best" if number in on_front else ""), number)
        for number, point in points.items()
    ]
    drawn_marks = [(*point, mark.style, mark.label) for mark, point in placed.items()]
    front_line = Line(tuple(_steps(ends, x)), "front", is_dashed=True)
    ids = row_ids(rows)
    facts = {
        "has_variants": not is_single,
        "plot": Plot(x, y, [front_line, *intervals], pieces=pieces, marks=drawn_marks, level=1.0),
        "marks": [replace(mark, is_on_front=mark.name in best) for mark in marks],
        "shared": max((mark.mean.count for mark in marks if mark.mean is not None), default=0),
        "front": [
            (ids[number], rows[number].name, _figures(rows[number]))
            for number in on_front[:_MAX_FRONT]
        ],
        "more": max(len(on_front) - _MAX_FRONT, 0),
        "hidden_variants": max(len(report.variants) - _MAX_VARIANTS, 0),
    }
    yield Drawing("survey_pareto.html.j2", facts, styles=(*STYLES, "survey.css"))


def _speedups(values: Sequence[float]) -> Axis:
    axis = axis_of(values, "speed-up", factor_text, far_apart=_FAR_APART)
    return axis if axis.is_log else axis_of([*values, 1.0], "speed-up", factor_text)


def _point(row: SurveyRow) -> tuple[float, float] | None:
    """Where a row is drawn; None if it failed, or wasn't timed."""
    if not row.is_passed or row.compile_cold_s is None or row.speedup is None:
        return None
    return (row.compile_cold_s, row.speedup) if row.compile_cold_s > 0 and row.speedup > 0 else None


def _figures(row: SurveyRow) -> str:
    return f"{cell_line(words.speedup_cell(row))}, {words.seconds_cell(row.compile_cold_s)}"


def _marks(report: SurveyReport, styles: Mapping[str, tuple[str, str]]) -> list[_Mark]:
    means = {group.variant: group.speedup_shared for group in words.total_groups(report)}
    compiles: dict[str, dict[str, float]] = {}
    for row in report.rows:
        if _point(row) is not None and row.compile_cold_s is not None:
            compiles.setdefault(row.name, {})[row.variant] = row.compile_cold_s
    # Only targets that have one under every variant are compared.
    shared = [own for own in compiles.values() if len(own) == len(report.variants)]
    return [
        _Mark(
            *style,
            name,
            means.get(name),
            statistics.median(own[name] for own in shared) if shared else None,
        )
        for name, style in styles.items()
    ]


def front(points: Mapping[_Item, tuple[float, float]]) -> list[_Item]:
    """Those that no other beats in both: less on the first axis, more on the second; from left to
    right.
    """
    best, found = -math.inf, []
    for one, (_, value) in sorted(points.items(), key=lambda point: (point[1][0], -point[1][1])):
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


# Speed-ups in order.


def spread_drawing(report: SurveyReport) -> Iterator[Drawing]:
    """Speed-ups in order, a curve for each variant; empty if nothing was timed."""
    styles = _styles(report)
    found: dict[str, list[tuple[float, SurveyRow]]] = {name: [] for name in styles}
    for row in report.rows:
        if row.is_passed and row.speedup and row.variant in styles:
            found[row.variant].append((row.speedup, row))
    own = {name: sorted(timed, key=lambda each: each[0]) for name, timed in found.items() if timed}
    if not own:
        return
    every = max(math.ceil(max(map(len, own.values())) / _MAX_INTERVALS), 1)
    x = Axis(0.0, 100.0, name="share of targets", text="{:.0f}%".format, named=(0, 25, 50, 75, 100))
    y = _speedups([speedup for timed in own.values() for speedup, _ in timed])
    lines = [_curve(timed, *styles[name], every) for name, timed in own.items()]
    facts = {
        "has_variants": len(report.variants) > 1,
        "plot": Plot(x, y, lines, level=1.0),
        "rows": [
            (*styles[name], name, len(timed), _quartiles(timed)) for name, timed in own.items()
        ],
        "every": every,
        "quartiles": ("least", "¼", "median", "¾", "most"),
    }
    yield Drawing("survey_spread.html.j2", facts, styles=(*STYLES, "survey.css"))


def _curve(timed: Sequence[tuple[float, SurveyRow]], label: str, style: str, every: int) -> Line:
    """A curve, and the intervals of some of its points."""
    places = [100 * (number + 0.5) / len(timed) for number in range(len(timed))]
    return Line(
        tuple((place, speedup) for place, (speedup, _) in zip(places, timed, strict=True)),
        style,
        label,
        intervals=tuple(
            (place, row.speedup_low, row.speedup_high)
            for place, (_, row) in list(zip(places, timed, strict=True))[::every]
            if row.speedup_low is not None and row.speedup_high is not None
        ),
        has_dots=len(timed) <= _MAX_INTERVALS,
    )


def _quartiles(timed: Sequence[tuple[float, SurveyRow]]) -> tuple[str, ...]:
    values = [speedup for speedup, _ in timed]
    middle = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    )
    return tuple(factor_text(value) for value in (values[0], *middle, values[-1]))
