"""One line of the result: what was measured, against what, and what was aimed at."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
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
        return [value / base for base, value in zip(self.baseline, self.measured, strict=True)] if self.baseline else []

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


HEADINGS = ["", "baseline", "graphdoctor", "ratio", "quartiles", "n", "aim"]


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def as_table(rows: Sequence[Row]) -> str:
    """The rows for a terminal."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_markdown(rows: Sequence[Row]) -> str:
    """The rows for docs/benchmarks.md."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
