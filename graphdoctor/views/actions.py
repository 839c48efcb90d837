"""What to do about findings: each thing once, with the findings it is for and what it is worth.

Comes in: the findings of a diagnosis. Goes out: actions, and phrases about them that all views share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted, duration
from graphdoctor.views.words import clusters

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Finding, Fix, Severity
    from graphdoctor.facts.fixes import SnippetPlace

_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
_BREAK, _RECOMPILE = "GD1", "GD2"


@dataclass
class Action:
    """One thing to do, and the findings it is for.

    Args:
        fix: The suggestion; None if none is known.
    """

    fix: Fix | None
    findings: list[Finding] = field(default_factory=list)
    counted_ids: frozenset[str] = frozenset()

    @property
    def recompile_ids(self) -> frozenset[str]:
        """The recompiles that it is for; several values can be to blame for one, so findings share them."""
        found = [finding for finding in self.findings if finding.code.startswith(_RECOMPILE)]
        # The first compile of a function is no recompile, though a finding can be about it.
        return frozenset(id_ for finding in found for id_ in finding.compile_ids if not id_.endswith("/0"))

    @property
    def call_us(self) -> float | None:
        """What its findings cost in a steady call, in microseconds; None if unknown.

        Gaps are of one finding each. What a trial of the fix saved is of all its findings together.
        """
        costs = [finding.cost for finding in self.findings if finding.cost and finding.cost.call_us is not None]
        if any(cost.call_from == "fix" for cost in costs):
            costs = [cost for cost in costs if cost.call_from == "fix"][:1]
        known = [cost.call_us for cost in costs if cost.call_us is not None]
        return sum(known) if known else None

    @property
    def compile_s(self) -> float | None:
        """What its findings cost in compile time, in seconds; None if unknown."""
        costs = [finding.cost.compile_s for finding in self.findings if finding.cost]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known else None

    @property
    def is_measured(self) -> bool:
        """Whether ``call_us`` is what a trial saved."""
        return any(finding.cost is not None and finding.cost.call_from == "fix" for finding in self.findings)

    @property
    def is_profiled(self) -> bool:
        """Whether ``call_us`` is what the profiler showed."""
        return any(finding.cost is not None and finding.cost.call_from == "profile" for finding in self.findings)

    @property
    def is_host_gap(self) -> bool:
        """Whether ``call_us`` is the host's time alone."""
        return any(finding.cost is not None and finding.cost.call_from == "host_gap" for finding in self.findings)


def actions(findings: Sequence[Finding]) -> list[Action]:
    """What to do, each thing once, the worst and costliest first.

    Findings without a known fix come last. A finding that other findings' fixes removed needs no action.
    """
    found: dict[tuple[str, str | None, SnippetPlace | None] | str, Action] = {}
    for cluster in clusters(findings):
        fix = _best_fix(cluster)
        if all(finding.is_mended for finding in cluster) and (fix is None or fix.verdict != "verified"):
            continue
        key = (fix.title, fix.diff or fix.snippet, fix.place) if fix else cluster[0].fingerprint
        found.setdefault(key, Action(fix)).findings.extend(cluster)
    ordered = sorted(found.values(), key=_rank)
    counted_ids: frozenset[str] = frozenset()
    for action in ordered:
        action.counted_ids = action.recompile_ids & counted_ids
        counted_ids |= action.recompile_ids
    return ordered


def _rank(action: Action) -> tuple[bool, int, float, float]:
    severity = min(_SEVERITIES.index(finding.severity) for finding in action.findings)
    return action.fix is None, severity, -(action.call_us or 0.0), -(action.compile_s or 0.0)


def _best_fix(cluster: Sequence[Finding]) -> Fix | None:
    """The verified fix, otherwise the first that no trial has ruled out."""
    fixes = list(dict.fromkeys(fix for finding in cluster for fix in finding.fixes))
    for verdict in ("verified", "contained", "not tried", "unproven"):
        chosen = next((fix for fix in fixes if fix.verdict == verdict), None)
        if chosen is not None:
            return chosen
    return None


def code_line(action: Action) -> str | None:
    """The line of code to write, if it is all there is to do and can stand anywhere; otherwise None."""
    fix = action.fix
    if fix is None or fix.kind == "code" or fix.diff is not None or fix.snippet is None:
        return None
    line = fix.snippet.strip()
    if "\n" in line:
        return None
    return f"torch.compile(..., {line})" if fix.place is not None and fix.place.where == "compile" else line


def mends_text(action: Action) -> str:
    """What it is for: ``3 breaks``, ``6 recompiles, 1 counted above``."""
    breaks = {(found.location.file, found.location.line) for found in action.findings if found.code.startswith(_BREAK)}
    recompiles, shared = len(action.recompile_ids), len(action.counted_ids)
    parts = [counted(len(breaks), "break")] if breaks else []
    parts += [counted(recompiles, "recompile")] if recompiles else []
    parts += [f"{'' if shared == recompiles else f'{shared} '}counted above"] if shared else []
    return ", ".join(parts) or counted(len(action.findings), "finding")


def worths(action: Action) -> Iterator[str]:
    """What it is worth, as far as that was measured and doesn't round to nothing.

    A gap between graphs is what the break costs today, not what a fix saves: it is named as such. Compiles can have
    other causes too, so their time is what can be saved at most.
    """
    call = duration(abs(action.call_us or 0.0))
    if call != duration(0.0) and action.call_us is not None:
        if action.is_measured:
            yield f"{'saves' if action.call_us > 0 else 'adds'} {call} per call"
        else:
            gaps = "" if action.is_profiled else "host gaps of " if action.is_host_gap else "gaps of "
            yield f"{gaps}{call} per call"
    seconds = f"{action.compile_s or 0.0:.1f}"
    if seconds != "0.0":
        yield f"up to {seconds} s of compiling"


def saves_text(action: Action) -> str:
    """What it saves, under a heading that says so; empty if nothing was measured."""
    parts = [worth.removeprefix("saves ") for worth in worths(action)]
    verdict = action.fix.verdict if action.fix else "not tried"
    if verdict != "not tried":
        parts.append(f"({verdict})")
    return " ".join(parts) if len(parts) < 3 else f"{parts[0]}, {parts[1]} {parts[2]}"
