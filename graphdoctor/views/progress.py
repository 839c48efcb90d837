"""Lines about what is going on: trials of fixes while they run, and logs while they are being
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphdoctor.facts.base import grouped
from graphdoctor.facts.following import (
    BreakSeen,
    LogBegun,
    LogStartedOver,
    RecompileSeen,
    Seen,
    SoFar,
)
from graphdoctor.facts.progress import DecidedStep, DecidedTrial, TimedPrograms
from graphdoctor.facts.stack import relative
from graphdoctor.facts.wording import (
    about_time,
    counted,
    duration,
    join_texts,
    shortened,
    without_middle,
)
from graphdoctor.views.measures import speedup_text
from graphdoctor.views.printable import printable
from graphdoctor.views.words import measured_speed

_NARROW = 50
"""Below this width, what is left is said without the time so far."""
_MOST_LETTERS = 60
_MOST_CHARACTERS = 800
"""Of a line."""
_LOSSES = {"replaced": "was replaced", "truncated": "was truncated", "gone": "is gone"}


def phase_text(
    phase: str, elapsed_s: float, left_s: float | None, overdue_s: float | None, width: int
) -> str:
    """What a command does and for how long: ``running without fixes · 0:05 · about 7 seconds
    left``.

    Args:
        phase: In words, cut where the width has no room for it.
        elapsed_s: Since the command began.
        left_s: From the last run; None if it has nothing to say.
        overdue_s: What the phase took in the last run, in seconds, if it takes longer now; None if
            it doesn't.
        width: In characters.
    """
    late = None if overdue_s is None else f"longer than last time ({overdue_s:.0f} s)"
    note = late or left_text(left_s)
    rest = note if note and width < _NARROW else join_texts(" · ", clock_text(elapsed_s), note)
    return f"{shortened(printable(phase), max(width - len(rest) - 3, 6))} · {rest}"


def clock_text(seconds: float) -> str:
    """A time that runs: ``0:42``, ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def left_text(left_s: float | None) -> str:
    """How long the rest takes, in figures no finer than an estimate is; empty if unknown or as good
    as over.
    """
    if left_s is None or left_s < 1:
        return ""
    return f"about {about_time(left_s if left_s < 10 else 5 * round(left_s / 5))} left"


def decided_text(trial: DecidedTrial) -> str:
    """What a trial showed: ``trial 3 · verified · model.py:28 · Skip `print(…)` while
    compiling``.
    """
    by_verdict = grouped((verdict, place) for place, verdict in trial.verdicts)
    under = f" under {trial.backend}" if trial.backend else ""
    shown = ", ".join(
        f"{verdict}{under} · {places[0]}{f' and {len(places) - 1} more' if places[1:] else ''}"
        for verdict, places in by_verdict.items()
    )
    return f"trial {trial.number} · {shown} · {trial.title}"


def timed_text(timed: TimedPrograms) -> str:
    """What a timing showed: ``timing 2 · inductor · 1.7x faster``, with a multiplication sign."""
    shown = f"not timed: {timed.reason}" if timed.times is None else measured_speed(timed.times)
    return f"timing {timed.number} · {timed.backend} · {shown}"


def step_text(decided: DecidedStep) -> str:
    """What a step of a search showed: ``kept · fixes · 1.60x beside the best before · best so far
    1.90 ms``.
    """
    step, best = decided.step, None
    beside = (
        None if step.speedup is None else f"{speedup_text(step.speedup)} beside the best before"
    )
    if decided.best_us is not None and decided.eager_us is not None:
        best = f"best so far {duration(decided.best_us)}, eager {duration(decided.eager_us)}"
    return join_texts(" · ", step.outcome, step.name, beside, step.reason, best)


# Logs that are being written.


def seen_text(seen: Seen, *, root: Path) -> str:
    """One line about what was seen."""
    match seen:
        case LogBegun():
            text = f"Following {seen.name}"
        case LogStartedOver():
            text = f"{seen.name} {_LOSSES[seen.why]}: its counts begin again"
        case BreakSeen() | RecompileSeen():
            who = seen.writer.log if seen.writer.rank is None else f"rank {seen.writer.rank}"
            where = f"{who} [{seen.compile_id}]" if seen.compile_id else who
            text = (
                f"{where} {_break(seen, root) if isinstance(seen, BreakSeen) else _recompile(seen)}"
            )
    return printable(without_middle(" ".join(text.split()), _MOST_CHARACTERS))


def so_far_text(so_far: SoFar) -> str:
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


def _break(seen: BreakSeen, root: Path) -> str:
    line = "a line" if seen.file is None else f"{relative(seen.file, root)}:{seen.line}"
    return f"{line} {'skips the function' if seen.is_skip else 'breaks the graph'}: {seen.reason}"


def _recompile(seen: RecompileSeen) -> str:
    function = "a function" if seen.function is None else f"`{seen.function}`"
    if seen.resumes_at is not None:
        function += f" from line {seen.resumes_at}"
    what = "reached the recompile limit and runs eagerly" if seen.is_over_limit else "recompiled"
    if seen.expression is None:
        return f"{function} {what}"
    value = shortened(seen.expression, _MOST_LETTERS)
    value = value if value.startswith("(") else f"`{value}`"
    old, new = (
        None if text is None else shortened(text, _MOST_LETTERS) for text in (seen.old, seen.new)
    )
    changed = "changed" if old is None else f"was {old}"
    return f"{function} {what}: {value} {changed}" + (
        "" if old is None or new is None else f", is {new}"
    )
