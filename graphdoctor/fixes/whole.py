"""Asks torch whether a program with fixes is one graph, and counts what became of its break sites.

Comes in: the best program of a search and what was applied. Goes out: facts of the treatment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    GRADES,
    LOSSY,
    VERIFIED,
    Grade,
    LeftFinding,
    SiteCounts,
    TriedFix,
    WholeRun,
)
from graphdoctor.facts.run import Setting
from graphdoctor.fixes.trials import State, Trials, digest_of
from graphdoctor.fixes.verdicts import BREAK, SKIPPED_FRAME
from graphdoctor.trials.judge import Observed, clause
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import EAGER

_NAME = "whole"
_ENOUGH = Setting(name="torch._dynamo.config.recompile_limit", value=64)
"""Under ``fullgraph``, torch raises at its limit, too; recompiles have findings of their own."""


class WholeRuns:
    """Runs programs under ``fullgraph=True``, each once."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._observed: dict[Program, Observed] = {}

    def is_captured(self, state: State) -> bool:
        """Tell if a program runs so: torch then captures the numbers and sizes that it breaks at by
        default.
        """
        return self._run(state.program).is_finished

    def of(self, state: State, shown_place: Callable[[Finding, Program], str]) -> WholeRun:
        """Say if a program with fixes is one graph, or what stops that."""
        program = state.program
        if program.change.fullgraph:
            return WholeRun(is_one_graph=True)
        observed = self._run(program)
        breaking = state.observed if observed.is_finished else observed
        breaks = [finding for finding in breaking.diagnosis.findings if _is_site(finding.code)]
        if breaks:
            first = breaks[0]
            place = shown_place(first, program)
            return WholeRun(is_one_graph=False, code=first.code, place=place, message=first.message)
        if observed.is_finished:
            is_contained = any(fix.grade == "contained" for fix in state.fixes)
            return WholeRun(is_one_graph=observed.measures.graphs > 0 and not is_contained)
        return WholeRun(is_one_graph=False, message=clause(observed.recording.exit.message))

    def _run(self, program: Program) -> Observed:
        if program not in self._observed:
            self._trials.on_phase("asking torch for one graph")
            name = f"{_NAME}-{digest_of(program)}"
            asked = program.changed(RunChange(settings=(_ENOUGH,)))
            recording = self._trials.replays.replay(
                asked, name, backend=EAGER, spec={"fullgraph": True, "regional": False}
            )
            self._observed[program] = self._trials.observe(recording, name)
        return self._observed[program]


def _is_site(code: str) -> bool:
    return code.startswith(BREAK) and code != SKIPPED_FRAME


def count_sites(
    findings: Iterable[Finding],
    gone: Sequence[str],
    tried: Iterable[TriedFix],
    left: Iterable[LeftFinding],
    diff: str,
) -> SiteCounts:
    """Count break sites by the worst grade of the fixes that a site needed.

    Args:
        findings: Findings of the untouched program, as shown.
        gone: Fingerprints of those that are gone.
        tried: All fixes that were tried.
        left: Findings of the program with the applied fixes.
        diff: The edits.
    """
    sites = [finding for finding in findings if _is_site(finding.code)]
    applied = [fix for fix in tried if fix.is_applied]
    counts = Counter[Grade | None]()
    lossy = 0
    for site in sites:
        fixes = [fix for fix in applied if fix.fingerprint == site.fingerprint] or [
            fix for fix in applied if site.site in fix.sites_gone
        ]
        if site.fingerprint in gone:
            counts[_worst(fixes or applied)] += 1
            lossy += any(fix.verdict == LOSSY for fix in fixes)
        else:
            is_contained = any(fix.verdict == "contained" for fix in fixes)
            counts["contained" if is_contained else None] += 1
    # What showed once these were gone.
    later: dict[str, list[TriedFix]] = {}
    places = {place for site in sites for place in _places(site)}
    for fix in applied:
        if _is_site(fix.code) and not fix.is_on_untouched and fix.finding_place not in places:
            later.setdefault(fix.finding_place, []).append(fix)
    for place, fixes in later.items():
        is_gone = any(fix.verdict in VERIFIED for fix in fixes)
        counts[_worst(fixes) if is_gone else "contained"] += 1
        lossy += any(fix.verdict == LOSSY for fix in fixes)
        places.add(place)
    counts[None] += sum(_is_site(finding.code) and finding.place not in places for finding in left)
    lines = (line for line in diff.splitlines() if line.startswith(("+", "-")))
    return SiteCounts(
        **{grade: counts[grade] for grade in GRADES},
        left=counts[None],
        lossy=lossy,
        changed_lines=sum(not line.startswith(("+++ ", "--- ")) for line in lines),
    )


def _places(finding: Finding) -> tuple[str, ...]:
    place = finding.location
    return tuple(f"{file}:{place.line}" for file in {place.file, place.shown_file} if file)


def _worst(fixes: Sequence[TriedFix]) -> Grade:
    grades = [GRADES.index(fix.grade) for fix in fixes if fix.grade is not None]
    return GRADES[max(grades, default=0)]
