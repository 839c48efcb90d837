"""The counts at the top of the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.model.wording import counted, times
from graphdoctor.render.words import Tone

if TYPE_CHECKING:
    from graphdoctor.model.diagnosis import Summary


@dataclass(frozen=True)
class Tile:
    """One count.

    Args:
        label: What is counted.
        value: The number or ``unknown``.
        note: A detail about it.
        tone: ``bad`` or ``warning``; None if the count is neither.
        anchor: The section with the details.
    """

    label: str
    value: str
    note: str = ""
    tone: Tone | None = None
    anchor: str = "verdict"


def tiles(summary: Summary) -> Iterator[Tile]:
    """The counts, in the order people look for them."""
    failed = f"{summary.calls_failed} failed" if summary.calls_failed else ""
    yield Tile("calls", str(summary.calls), failed, "bad" if failed else None, "calls")
    yield Tile("graphs", str(summary.graphs), "", None, "graphs")
    yield Tile(
        "break sites",
        str(summary.break_sites),
        f"reported {times(summary.break_records)}" if summary.break_records else "",
        "warning" if summary.break_sites else None,
        "findings",
    )
    eager = summary.skipped_frames + summary.frames_over_limit
    over = f"{summary.frames_over_limit} over the limit" if summary.frames_over_limit else ""
    skipped = f"{summary.skipped_frames} skipped" if summary.skipped_frames else ""
    yield Tile(
        "functions running eagerly",
        str(eager),
        ", ".join(filter(None, (skipped, over))),
        "bad" if eager else None,
        "findings",
    )
    yield Tile(
        "recompiles",
        str(summary.recompiles),
        f"for {counted(summary.recompile_causes, 'cause')}" if summary.recompiles else "",
        "warning" if summary.recompiles else None,
        "recompiles",
    )
    seconds = summary.compile_time_s
    took = "unknown" if seconds is None else f"{seconds:.2f} s"
    yield Tile("compile time", took, counted(summary.compiles, "compile"), None, "time")
