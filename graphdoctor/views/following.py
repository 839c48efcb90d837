"""What is seen of logs while they are being written, in lines; knows no terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphdoctor.facts.following import BreakSeen, LogBegun, LogStartedOver, RecompileSeen, Seen, SoFar, Writer
from graphdoctor.facts.stack import relative
from graphdoctor.facts.wording import counted, shortened, without_middle
from graphdoctor.views.printable import printable

_MOST_LETTERS = 60
_MOST_CHARACTERS = 800
"""Of a line."""
_LOSSES = {"replaced": "was replaced", "truncated": "was truncated", "gone": "is gone"}


def seen_text(seen: Seen, *, root: Path) -> str:
    """One line about what was seen.

    Args:
        seen: What it is.
        root: Paths below it are shown relative to it.
    """
    match seen:
        case LogBegun():
            text = f"Following {seen.name}"
        case LogStartedOver():
            text = f"{seen.name} {_LOSSES[seen.why]}: its counts begin again"
        case BreakSeen():
            text = f"{_where(seen.writer, seen.compile_id)}{_break(seen, root)}"
        case RecompileSeen():
            text = f"{_where(seen.writer, seen.compile_id)}{_recompile(seen)}"
    return printable(without_middle(" ".join(text.split()), _MOST_CHARACTERS))


def counts_text(so_far: SoFar) -> str:
    """The counts so far, on one line; of several processes the least and the most."""
    if not so_far.logs:
        return "Waiting for a log"
    if not so_far.processes:
        return f"{counted(so_far.logs, 'log')} · nothing compiled yet"
    found = so_far.processes
    parts = [
        _range([counts.graphs for counts in found], "graph"),
        _range([counts.break_sites for counts in found], "break site"),
        _range([counts.recompiles for counts in found], "recompile"),
    ]
    seconds = [counts.compile_s for counts in found if counts.compile_s is not None]
    if seconds:
        least, most = (f"{value:.2f}" for value in (min(seconds), max(seconds)))
        parts.append(f"{least if least == most else f'{least}–{most}'} s compiling")
    whose = f"each of {len(found)} processes: " if len(found) > 1 else ""
    return whose + " · ".join(parts)


def _range(numbers: Sequence[int], noun: str) -> str:
    least, most = min(numbers), max(numbers)
    return counted(most, noun) if least == most else f"{least}–{counted(most, noun)}"


def _where(writer: Writer, compile_id: str | None) -> str:
    who = writer.log if writer.rank is None else f"rank {writer.rank}"
    return f"{who} [{compile_id}] " if compile_id else f"{who} "


def _break(seen: BreakSeen, root: Path) -> str:
    what = "skips the function" if seen.is_skip else "breaks the graph"
    if seen.file is None:
        return f"a line {what}: {seen.reason}"
    return f"{relative(seen.file, root)}:{seen.line} {what}: {seen.reason}"


def _recompile(seen: RecompileSeen) -> str:
    function = "a function" if seen.function is None else f"`{seen.function}`"
    if seen.resumes_at is not None:
        function += f" from line {seen.resumes_at}"
    what = "reached the recompile limit and runs eagerly" if seen.is_over_limit else "recompiled"
    if seen.expression is None:
        return f"{function} {what}"
    value = shortened(seen.expression, _MOST_LETTERS)
    value = value if value.startswith("(") else f"`{value}`"
    old, new = (None if text is None else shortened(text, _MOST_LETTERS) for text in (seen.old, seen.new))
    changed = "changed" if old is None else f"was {old}"
    return f"{function} {what}: {value} {changed}" + ("" if old is None or new is None else f", is {new}")
