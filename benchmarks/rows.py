"""One line of the result: what was measured, against what, and what was aimed at."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Unit = Literal["s", "us", "MB"]


@dataclass(frozen=True)
class Row:
    """Paired measurements of one thing.

    Args:
        name: What was measured.
        baseline_name: Against what, or an empty string.
        unit: Seconds, microseconds or megabytes (1e6 bytes).
        baseline: The baseline's values, in the order measured; empty when there is no baseline.
        measured: graphdoctor's values, the one at index i right after the baseline's at index i.
        aim: The ratio that the median should not exceed, or None.
    """

    name: str
    baseline_name: str
    unit: Unit
    baseline: Sequence[float]
    measured: Sequence[float]
    aim: float | None = None

    @property
    def ratios(self) -> list[float]:
        """The ratio of each pair."""
        return (
            [value / base for base, value in zip(self.baseline, self.measured, strict=True)]
            if self.baseline
            else []
        )

    def cells(self) -> list[str]:
        """The row as text: name, baseline, measured, ratio, spread, n, aim."""
        ratios = self.ratios
        return [
            self.name,
            f"{self.baseline_name} {self._amount(self.baseline)}" if self.baseline else "",
            self._amount(self.measured),
            f"{statistics.median(ratios):.2f}x" if ratios else "",
            " to ".join(f"{value:.2f}" for value in _quartiles(ratios)) if ratios else "",
            str(len(self.measured)),
            f"at most {self.aim:g}x" if self.aim else "",
        ]

    def _amount(self, values: Sequence[float]) -> str:
        median = statistics.median(values)
        if self.unit == "MB":
            return f"{median:.0f} MB"
        if self.unit == "us":
            return f"{median:.1f} µs"
        return f"{median * 1000:.0f} ms" if median < 1 else f"{median:.2f} s"

    def as_json(self) -> dict[str, Any]:
        """Every value, and the medians."""
        ratios = self.ratios
        return {
            "name": self.name,
            "unit": self.unit,
            "baseline_name": self.baseline_name or None,
            "baseline": list(self.baseline),
            "measured": list(self.measured),
            "measured_median": statistics.median(self.measured),
            "ratio_median": statistics.median(ratios) if ratios else None,
            "ratio_quartiles": _quartiles(ratios) if ratios else None,
            "aim": self.aim,
        }


@dataclass(frozen=True)
class Share:
    """How many of some things are as they should be.

    Args:
        name: What was counted.
        left_out: What isn't counted, or an empty string.
        good_count: How many are as they should be.
        count: How many there are.
        aim: The share that should be reached.
        details: More for the JSON document.
    """

    name: str
    left_out: str
    good_count: int
    count: int
    aim: float
    details: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def cells(self) -> list[str]:
        """The row as text, in the columns of a ``Row``."""
        share = f"{self.good_count / self.count:.2f}" if self.count else ""
        counted = f"{self.good_count} of {self.count}"
        return [
            self.name,
            self.left_out,
            counted,
            share,
            "",
            str(self.count),
            f"at least {self.aim:g}",
        ]

    def as_json(self) -> dict[str, Any]:
        """The counts and what they are of."""
        return {
            "name": self.name,
            "left_out": self.left_out or None,
            "measured": [self.good_count, self.count],
            "aim": self.aim,
            **self.details,
        }


HEADINGS = ["", "baseline", "graphdoctor", "ratio", "quartiles", "n", "aim"]


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def as_table(rows: Sequence[Row | Share]) -> str:
    """The rows for a terminal."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def as_markdown(rows: Sequence[Row | Share]) -> str:
    """The rows for docs/benchmarks.md."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
