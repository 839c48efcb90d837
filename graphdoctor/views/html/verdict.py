"""The counts at the top of the page, and what the verified fixes change about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted, duration, times
from graphdoctor.views.parts import Tone
from graphdoctor.views.words import UNKNOWN, measured_rows, measured_speed

if TYPE_CHECKING:
    from graphdoctor.facts.counts import Counts
    from graphdoctor.facts.fixes import Treatment
    from graphdoctor.facts.watch import CallWatch

_HEADLINES = ("break sites", "graphs", "recompiles", "coverage")
"""What is said first of a treatment; its other counts are in a table."""


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


def tiles(summary: Counts, watch: CallWatch | None = None) -> Iterator[Tile]:
    """The counts, in the order people look for them.

    Args:
        summary: The counts.
        watch: The calls of a script, which have no numbers.
    """
    if watch is not None:
        watched = f"{sum(found.watched_calls for found in watch.functions)} watched"
        yield Tile("calls", UNKNOWN if watch.calls is None else f"{watch.calls:,}", watched)
    else:
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
    if watch is not None and summary.steady_call_us is not None:
        each = f"{len(watch.own)} functions" if len(watch.own) > 1 else ""
        yield Tile("steady call", duration(summary.steady_call_us), each)


def changes(treatment: Treatment | None) -> Iterator[Tile]:
    """What all verified fixes change together; nothing if there are none.

    Args:
        treatment: What was tried; None if nothing was.
    """
    if treatment is None or treatment.after is None:
        return
    for label, before, after in measured_rows(treatment.before, treatment.after):
        if label in _HEADLINES:
            is_same = before == after
            yield Tile(label, before if is_same else f"{before} → {after}", "as before" if is_same else "")
    for timed in treatment.times:
        change = measured_speed(timed)
        value = f"{duration(timed.before_us)} → {duration(timed.after_us)}"
        yield Tile("steady call", value, f"{change}, {timed.backend}")
    if not treatment.times:
        yield Tile("steady call", UNKNOWN, "not timed")
