"""Actions for findings: each once, with the findings it is for and what it is worth.

Comes in: the findings of a diagnosis. Goes out: actions, and the section that lists them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.fixes import LOSSY, VERIFIED, Fix
from graphdoctor.views import parts
from graphdoctor.views.reasons import verdict_text
from graphdoctor.views.words import clusters, few_text, fix_text
from graphdoctor.wording import counted, duration, join_texts, percent

_MOST_ACTIONS = 5
_MOST_VALUES = 2
_QUOTED = re.compile(r"`[^`]*`")
_USABLE = ("verified", "contained", "not tried", "unproven", LOSSY)
"""Verdicts of fixes that no trial has ruled out, the best first."""


@dataclass
class Action:
    """One thing to do, and the findings it is for; ``fix`` is None if none is known."""

    fix: Fix | None
    findings: list[Finding] = field(default_factory=list)

    @property
    def changed(self) -> set[tuple[str, str]]:
        """The values whose changes it is for."""
        return {change.key for finding in self.findings for change in finding.changes}

    @property
    def call_us(self) -> float:
        """Cost of its findings in a steady call, in microseconds, as far as known.

        A gap is of one line, whose findings all have it.
        """
        costs = ((finding.location.at, finding.cost) for finding in self.findings if finding.cost)
        return sum({at: cost.call_us or 0.0 for at, cost in costs}.values())

    @property
    def compile_s(self) -> float:
        """Cost of its findings in compile time, in seconds, as far as known."""
        return sum(finding.cost.compile_s or 0.0 for finding in self.findings if finding.cost)


def actions(findings: Sequence[Finding]) -> list[Action]:
    """Return what to do, each thing once, the worst and costliest first.

    Findings without a known fix come last. A finding that other findings' fixes removed needs no
    action.
    """
    by_fix: dict[object, Action] = {}
    is_any_applied = any(fix.is_applied for finding in findings for fix in finding.fixes)
    # What isn't proven is nothing to do beside what is.
    usable = [verdict for verdict in _USABLE if verdict != "unproven" or not is_any_applied]
    for cluster in clusters(findings):
        fixes = [fix for finding in cluster for fix in finding.fixes if fix.verdict in usable]
        best = min(
            fixes, key=lambda fix: (not fix.is_applied, _USABLE.index(fix.verdict)), default=None
        )
        is_mended = all(finding.is_mended for finding in cluster)
        if is_mended and (best is None or best.verdict not in VERIFIED):
            continue
        # One line of code is one thing to do, however findings put it.
        edit = None if best is None else best.diff or best.snippet
        # Without a line, findings share one thing to do only if all that is advised is the same.
        said = edit or tuple(fix_text(fix) for fix in fixes)
        key: object = (said, best.place) if best else cluster[0].fingerprint
        by_fix.setdefault(key, Action(best)).findings.extend(cluster)
    return sorted(_with_limits([*by_fix.values()]), key=_rank)


def _with_limits(proposed: list[Action]) -> list[Action]:
    """Return the actions, without those that only point to what changes: what to do about that is
    for both.
    """
    limits = [
        action
        for action in proposed
        if action.fix
        and action.fix.kind == "call"
        and {finding.code for finding in action.findings} == {"GD201"}
    ]
    for limit in limits:
        causes = [
            action
            for action in proposed
            if action not in limits and action.fix and not limit.changed.isdisjoint(action.changed)
        ]
        if causes:
            cause = max(causes, key=lambda cause: sum(finding.count for finding in cause.findings))
            is_consequence = cause.findings[0].is_consequence
            cause.findings += [
                finding.replace(is_consequence=is_consequence) for finding in limit.findings
            ]
            proposed.remove(limit)
    return proposed


def _rank(action: Action) -> tuple[object, ...]:
    most_urgent = min(finding.rank for finding in action.findings)
    # "Fix the breaks first" is nothing to do by itself.
    is_consequence = all(finding.is_consequence for finding in action.findings)
    return action.fix is None, is_consequence, *most_urgent, -action.call_us, -action.compile_s


def todo_section(diagnosis: Diagnosis) -> parts.Section:
    """List what to do: actions of one kind in a row, with the worst of them; or say why there is
    nothing to do.
    """
    todo = actions(diagnosis.findings)
    rows = []
    kinds = grouped((_kind_of(action, action.fix), action) for action in todo if action.fix)
    for action, *alike in kinds.values():
        fix, code = action.fix, code_line(action)
        for other in alike:
            action.findings += other.findings
        more = f" and {counted(len(alike), 'line')} like it" if alike else ""
        title = f"{fix_text(fix)}{more}" if fix else ""
        condition = f", {fix.condition}" if fix and fix.condition and code is not None else ""
        anchor = f"finding-{action.findings[0].fingerprint}"
        verdict = verdict_text(fix) if fix and fix.verdict != "not tried" else ""
        about = parts.Cell((parts.Span(about_text(action), link=anchor), condition), verdict)
        what = title if code is None else parts.Span(code, "code")
        rows.append((what, about, per_call_text(action)))
    if rows:
        first = parts.Column("do this", is_number=False, is_pasted=True)
        # One thing to do is said by its finding, which is all that a terminal shows.
        show: parts.Show = "always" if len(todo) > 1 else "long"
        columns = (first, "addresses", "per call")
        table = parts.Table(columns, rows, "thing", _MOST_ACTIONS, show=show)
        return parts.Section("What to do", table)
    said = () if todo else parts.Note(_nothing_to_do(diagnosis), show="long")
    return parts.Section("What to do", said)


def _kind_of(action: Action, fix: Fix) -> object:
    """Key that alike actions share: the line to write, or the cause and how it is fixed, whatever
    the names.
    """
    first = action.findings[0]
    where = fix.place and fix.place.where
    title = _QUOTED.sub("``", fix.title)
    how = (title, fix.kind, fix.condition, fix.is_safe, fix.source, where, fix.verdict)
    return code_line(action) or (first.code, first.torch_id, *how)


def _nothing_to_do(diagnosis: Diagnosis) -> str:
    if diagnosis.findings:
        return "The fixes remove every finding."
    if diagnosis.recording.is_partial:
        return (
            "The run ended early, so what there is to do is unknown. Run it again once the cause"
            " above is gone."
        )
    guards = diagnosis.recording.guards
    share = None if guards is None else guards.share
    checks = None if share is None else f"Guard checks take {percent(share)} of a steady call."
    return join_texts(" ", "Nothing: no findings are shown.", checks)


def code_line(action: Action) -> str | None:
    """Return the line of code to write, if it is all there is to do and can stand anywhere;
    otherwise None.
    """
    fix = action.fix
    if fix is None or fix.kind == "code" or fix.diff is not None or fix.snippet is None:
        return None
    # A line alone wouldn't say what it breaks.
    if fix.unguarded is not None:
        return None
    line = fix.snippet.strip()
    is_argument = fix.place is not None and fix.place.where == "compile"
    return None if "\n" in line else f"torch.compile(..., {line})" if is_argument else line


def about_text(action: Action) -> str:
    """Name what it is about: ``3 breaks``, or the values that would no longer cause recompiles.

    How many recompiles are left only a replay tells: others can cause the same ones. A fix
    suggested only for the function that torch skips leaves the break that made torch skip it.
    """
    breaks = [finding for finding in action.findings if finding.code.startswith("GD1")]
    skips = [finding for finding in breaks if finding.code == "GD111"]
    suggested_for = {finding.code for finding in breaks if action.fix in finding.fixes}
    is_of_skip = action.fix is not None and suggested_for == {"GD111"}
    sites, noun = (skips, "skipped function") if is_of_skip else (breaks, "break")
    places = {finding.location.at for finding in sites}
    recompiles = [finding for finding in action.findings if finding.code.startswith("GD2")]
    values = [change.expression for finding in recompiles for change in finding.changes]
    few = f" for {few_text([*dict.fromkeys(values)], _MOST_VALUES)}" if values else ""
    said = join_texts(
        ", ",
        counted(len(places), noun) if places else None,
        f"recompiles{few}" if recompiles else None,
    )
    return said or counted(len(action.findings), "finding")


def per_call_text(action: Action) -> str:
    """Say what its findings cost in each call, unless that rounds to nothing; empty if nothing was
    measured.

    A gap between graphs is what the break costs today, not what a fix saves: it is named as such.
    """
    call = duration(abs(action.call_us))
    if call == duration(0.0):
        return ""
    sources = {finding.cost.call_from for finding in action.findings if finding.cost}
    lead = "gaps of "
    if "profile" in sources:
        lead = ""
    elif "host_gap" in sources:
        lead = "host gaps of "
    return lead + call
