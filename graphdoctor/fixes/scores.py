"""How good a program is, and in what another is worse."""

from __future__ import annotations

from graphdoctor.fixes.verdicts import Seen
from graphdoctor.model.fixes import Measures
from graphdoctor.model.wording import counted

Score = tuple[int, int, int, int, int, int]
"""Lower is better: functions over their limit, percent outside graphs, then the other counts."""


def score(measures: Measures, *, moves_out: bool) -> Score:
    """A program's score.

    Args:
        measures: Its counts.
        moves_out: One of its fixes means to take code out of the compiled region.
    """
    # What was taken out on purpose counts for nothing.
    coverage = 1.0 if moves_out else measures.coverage or 0.0
    return (
        measures.frames_over_limit,
        round(100 * (1 - coverage)),
        measures.skipped_frames,
        measures.break_sites,
        measures.recompiles,
        measures.graphs,
    )


def told_worse(best: Seen, last: Seen) -> str:
    """What is worse about a program than about the best one, a clause."""
    was, now = best.measures, last.measures
    if now.skipped_frames > was.skipped_frames:
        skipped = next((name for finding in last.diagnosis.findings for name in finding.effects.skipped_frames), None)
        place = next((f for f in last.diagnosis.findings if f.effects.skipped_frames), None)
        where = f" at line {place.location.line}" if place else ""
        return f"`{skipped}` is skipped as a whole because of the next break{where}"
    if was.coverage is not None and now.coverage is not None and now.coverage < was.coverage:
        return f"coverage falls from {was.coverage:.0%} to {now.coverage:.0%}"
    sites, graphs = counted(now.break_sites, "break site"), counted(now.graphs, "graph")
    if (now.break_sites, now.graphs) == (was.break_sites, was.graphs):
        return f"another break takes its place, {sites} and {graphs} as before"
    verb = "is" if now.break_sites == 1 else "are"
    return f"there {verb} {sites} and {graphs}, {was.break_sites} and {was.graphs} without"
