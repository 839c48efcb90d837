"""The words for what a fix does: one table for terminals, pages, editors and agents.

Comes in: a verdict and a grade. Goes out: a phrase, or a short label.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphdoctor.facts.base import values_of
from graphdoctor.facts.fixes import (
    LOSSY,
    VERIFIED,
    Fix,
    FixKind,
    Grade,
    LeftFinding,
    Outcome,
    SiteCounts,
    Treatment,
    Verdict,
)
from graphdoctor.wording import counted, join_texts

ONE_GRAPH = "one graph"
GONE = "gone"
"""What a fix of a site does if other sites keep the program from being one graph."""
STAYS = "break stays"
FASTER = f"faster, {STAYS}"
"""Only where that was measured."""
BY_SETTING = "with a setting"
BY_GUARD = "with a guard"
BY_CALL = "with another call"

_LABELS: Mapping[Verdict, str] = {
    "contained": "stays",
    "changes results": "changes",
    "makes it worse": "worse",
    "not tried": "untried",
    LOSSY: "with loss",
}
_PAST: Mapping[Verdict, str] = {
    "makes it worse": "made it worse",
    "changes results": "changed results",
    "moved": "moved the break",
}


def verdict_words(
    verdict: Verdict | None,
    grade: Grade | None,
    *,
    is_one_graph: bool = False,
    is_faster: bool = False,
    by: str = "",
) -> str:
    """Say what a fix does; of one that loses output, without the loss.

    Args:
        verdict: What its trial showed.
        grade: What it leaves of the source.
        is_one_graph: Whether all calls run in one graph with what was applied.
        is_faster: Whether they measurably take less time.
        by: What a guarded fix takes; empty if that isn't known.
    """
    if verdict == "contained" or (verdict in VERIFIED and grade == "contained"):
        return FASTER if is_faster else STAYS
    if verdict in VERIFIED:
        lead = ONE_GRAPH if is_one_graph else GONE
        return join_texts(", ", lead, (by or BY_SETTING) if grade == "guarded" else None)
    return verdict or "not tried"


def outcome_words(outcome: Outcome | LeftFinding) -> str:
    """Say what a fix or a patch does."""
    if isinstance(outcome, LeftFinding):
        return verdict_words(outcome.verdict, outcome.grade)
    by = by_words(outcome.kind) if isinstance(outcome, Fix) else BY_GUARD
    known = values_of(outcome, "verdict", "grade", "is_one_graph", "is_faster")
    return verdict_words(**known, by=by)


def by_words(kind: FixKind | None) -> str:
    """Say what a guarded fix takes."""
    return {"config": BY_SETTING, "call": BY_CALL}.get(kind or "", BY_GUARD)


def past_words(outcome: Outcome) -> str:
    """Say what a fix did when it was tried."""
    words = _PAST.get(outcome.verdict) or outcome_words(outcome)
    for lead in (GONE, ONE_GRAPH):
        if words.startswith(lead):
            return f"worked{words.removeprefix(lead)}"
    return words


def verdict_label(outcome: Outcome) -> str:
    """Return a verdict as a row's label."""
    if outcome.verdict == "verified":
        is_contained = outcome.grade == "contained"
        return "stays" if is_contained else outcome_words(outcome).partition(",")[0]
    return _LABELS.get(outcome.verdict, outcome.verdict)


def sites_text(treatment: Treatment) -> str | None:
    """Count break sites by what became of them, and say if the program is one graph; None if there
    are none, or nobody counted.
    """
    sites, whole = treatment.sites, treatment.whole
    if sites is None or not sites.total:
        return None
    if sites.total == 1 or (not sites.left and sites.merged == sites.total):
        counts = "" if whole is not None and whole.is_one_graph else _counts(treatment, sites)
    else:
        counts = _counts(treatment, sites)
    if whole is None:
        return counts
    lead = ONE_GRAPH if whole.is_one_graph else "not one graph"
    by = BY_SETTING if any(_is_setting(fix) for fix in treatment.applied) else BY_GUARD
    by = by if whole.is_one_graph and sites.guarded else ""
    return join_texts(" (", join_texts(", ", lead, by), f"{counts})" if counts else None)


def _is_setting(fix: Fix) -> bool:
    return fix.grade == "guarded" and fix.kind != "code"


def _counts(treatment: Treatment, sites: SiteCounts) -> str:
    """``2 breaks gone, 1 with a setting or guard, 3 faster, break stays, 1 left``."""
    merged = f"{counted(sites.merged, 'break')} gone" if sites.merged else None
    noun = "" if sites.merged else f"{'break' if sites.guarded == 1 else 'breaks'} gone "
    guarded = f"{sites.guarded} {noun}by a setting or guard" if sites.guarded else None
    is_faster = any(fix.is_faster for fix in treatment.applied)
    stays = FASTER if is_faster else "where the break stays"
    contained = f"{sites.contained} {stays}" if sites.contained else None
    left = f"{sites.left} left" if sites.left else None
    return join_texts("; " if sites.contained else ", ", merged, guarded, contained, left)
