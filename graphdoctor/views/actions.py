"""Actions for findings: each once, with the findings it is for and what it is worth.

Comes in: the findings of a diagnosis. Goes out: actions, and phrases about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphdoctor.facts.diagnosis import Cost, Finding
from graphdoctor.facts.fixes import Fix, SnippetPlace
from graphdoctor.views.words import clusters
from graphdoctor.wording import counted, duration, join_texts


@dataclass
class Action:
    """One thing to do, and the findings it is for; ``fix`` is None if none is known."""

    fix: Fix | None
    findings: list[Finding] = field(default_factory=list)
    counted_ids: frozenset[str] = frozenset()

    @property
    def recompile_ids(self) -> frozenset[str]:
        """The recompiles that it is for; several values can be to blame for one, so findings share
        them.
        """
        recompiles = [finding for finding in self.findings if finding.code.startswith("GD2")]
        # The first compile of a function is no recompile, though a finding can be about it.
        return frozenset(
            id_ for finding in recompiles for id_ in finding.compile_ids if not id_.endswith("/0")
        )

    @property
    def changed(self) -> set[tuple[str, str]]:
        """The values whose changes it is for."""
        return {change.key for finding in self.findings for change in finding.changes}

    @property
    def _costs(self) -> list[Cost]:
        return [finding.cost for finding in self.findings if finding.cost is not None]

    @property
    def call_from(self) -> set[str | None]:
        """Sources of ``call_us``."""
        return {cost.call_from for cost in self._costs}

    @property
    def call_us(self) -> float:
        """Cost of its findings in a steady call, in microseconds, as far as known.

        A gap is of one line, whose findings all have it. What a trial of the fix saved is of all
        its findings together.
        """
        saved = [
            cost.call_us
            for cost in self._costs
            if cost.call_us is not None and cost.call_from == "fix"
        ]
        gaps = {
            finding.location.at: finding.cost.call_us or 0.0
            for finding in self.findings
            if finding.cost is not None
        }
        return saved[0] if saved else sum(gaps.values())

    @property
    def compile_s(self) -> float:
        """Cost of its findings in compile time, in seconds, as far as known."""
        return sum(cost.compile_s or 0.0 for cost in self._costs)


def actions(findings: Sequence[Finding]) -> list[Action]:
    """Return what to do, each thing once, the worst and costliest first.

    Findings without a known fix come last. A finding that other findings' fixes removed needs no
    action.
    """
    by_fix: dict[tuple[str, SnippetPlace | None] | str, Action] = {}
    for cluster in clusters(findings):
        fix = _best_fix(cluster)
        if all(finding.is_mended for finding in cluster) and (
            fix is None or fix.verdict != "verified"
        ):
            continue
        # One line of code is one thing to do, however findings put it.
        edit = None if fix is None else fix.diff or fix.snippet
        key = (edit or fix.title, fix.place) if fix else cluster[0].fingerprint
        by_fix.setdefault(key, Action(fix)).findings.extend(cluster)
    ordered = sorted(_with_limits([*by_fix.values()]), key=_rank)
    counted_ids: frozenset[str] = frozenset()
    for action in ordered:
        action.counted_ids = action.recompile_ids & counted_ids
        counted_ids |= action.recompile_ids
    return ordered


def _with_limits(proposed: list[Action]) -> list[Action]:
    """The actions, without those that only point to what changes: what to do about that is for
    both.
    """
    pointing = [action for action in proposed if action.fix and action.fix.kind == "call"]
    limits = [
        action
        for action in pointing
        if {finding.code for finding in action.findings} <= {"GD201", "GD303"}
    ]
    for limit in limits:
        causes = [
            action
            for action in proposed
            if action not in limits and action.fix and not limit.changed.isdisjoint(action.changed)
        ]
        if causes:
            cause = max(causes, key=lambda cause: len(cause.recompile_ids))
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


def _best_fix(cluster: Sequence[Finding]) -> Fix | None:
    """The verified fix, otherwise the first that no trial has ruled out."""
    order = ("verified", "contained", "not tried", "unproven")
    fixes = [fix for finding in cluster for fix in finding.fixes if fix.verdict in order]
    return min(fixes, key=lambda fix: order.index(fix.verdict), default=None)


def code_line(action: Action) -> str | None:
    """The line of code to write, if it is all there is to do and can stand anywhere; otherwise
    None.
    """
    fix = action.fix
    if fix is None or fix.kind == "code" or fix.diff is not None or fix.snippet is None:
        return None
    line = fix.snippet.strip()
    if "\n" in line:
        return None
    return (
        f"torch.compile(..., {line})"
        if fix.place is not None and fix.place.where == "compile"
        else line
    )


def mends_text(action: Action) -> str:
    """Count what it is for: ``3 breaks``, ``6 recompiles, 1 counted above``.

    A fix suggested only for the function that torch skips leaves the break that made torch skip it.
    """
    breaks = [finding for finding in action.findings if finding.code.startswith("GD1")]
    skips = [finding for finding in breaks if finding.code == "GD111"]
    is_of_skip = action.fix is not None and {
        finding.code for finding in breaks if action.fix in finding.fixes
    } == {"GD111"}
    sites, noun = (skips, "skipped function") if is_of_skip else (breaks, "break")
    places = {finding.location.at for finding in sites}
    recompiles, shared = len(action.recompile_ids), len(action.counted_ids)
    said = join_texts(
        ", ",
        counted(len(places), noun) if places else None,
        counted(recompiles, "recompile") if recompiles else None,
        f"{'' if shared == recompiles else f'{shared} '}counted above" if shared else None,
    )
    return said or counted(len(action.findings), "finding")


def saves_text(action: Action) -> str:
    """What it saves, under a heading that says so, unless it rounds to nothing; empty if nothing
    was measured.

    A gap between graphs is what the break costs today, not what a fix saves: it is named as such.
    Compiles can have other causes too, so their time is what can be saved at most.
    """
    parts = []
    if (call := duration(abs(action.call_us))) != duration(0.0):
        sources = action.call_from
        gaps = (
            "" if "profile" in sources else "host gaps of " if "host_gap" in sources else "gaps of "
        )
        adds = "" if action.call_us > 0 else "adds "
        parts.append(f"{adds if 'fix' in sources else gaps}{call} per call")
    if (seconds := f"{action.compile_s:.1f}") != "0.0":
        parts.append(f"up to {seconds} s of compiling")
    if action.fix is not None and action.fix.verdict != "not tried":
        parts.append(f"({action.fix.verdict})")
    return " ".join(parts) if len(parts) < 3 else f"{parts[0]}, {parts[1]} {parts[2]}"
