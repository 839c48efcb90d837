"""How good a program is, and how another one is worse."""

from __future__ import annotations

from graphdoctor.facts.fixes import Measures
from graphdoctor.facts.wording import counted, percents
from graphdoctor.trials.judge import Observed

Score = tuple[int, int, int, int, int, int, int]
"""Lower is better: functions over their limit, percent outside graphs, skipped frames, less what was mended, then the
other counts."""


def score(measures: Measures, *, mended_count: int, is_outweighed: bool) -> Score:
    """A program's score.

    Args:
        measures: Its counts.
        mended_count: Findings that its fixes removed. A break that was hidden adds to the counts: not their fault.
        is_outweighed: Whether it is faster although less of it is compiled.
    """
    coverage = 1.0 if is_outweighed else measures.coverage or 0.0
    return (
        measures.frames_over_limit,
        round(100 * (1 - coverage)),
        measures.skipped_frames,
        -mended_count,
        measures.break_sites,
        measures.recompiles,
        measures.graphs,
    )


def is_less_compiled(now: Score, was: Score) -> bool:
    """Whether one score is worse than another in what is compiled, whatever it counts of breaks."""
    return now[:3] > was[:3]


def made_worse(best: Observed, last: Observed) -> str:
    """How a program is worse than the best one, as a clause."""
    was, now = best.measures, last.measures
    if now.skipped_frames > was.skipped_frames:
        finding = next((found for found in last.diagnosis.findings if found.effects.skipped_frames), None)
        if finding is None:
            return "a function is skipped"
        skipped, line = finding.effects.skipped_frames[0], finding.location.line
        return f"`{skipped}` is skipped because of the next break, at line {line}"
    if was.coverage is not None and now.coverage is not None and now.coverage < was.coverage:
        return "coverage drops from {} to {}".format(*percents(was.coverage, now.coverage))
    sites, graphs = counted(now.break_sites, "break site"), counted(now.graphs, "graph")
    if (now.break_sites, now.graphs) == (was.break_sites, was.graphs):
        return f"another break takes its place ({sites}, {graphs} as before)"
    return f"{was.break_sites} → {sites}, {was.graphs} → {graphs}"
