"""The top of the page: one sentence, the counts, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphdoctor.model.wording import counted, percent, times
from graphdoctor.render.words import Tone, clusters, headline, nothing_compiled

if TYPE_CHECKING:
    from graphdoctor.model.diagnosis import Diagnosis, Finding, Fix, Summary
    from graphdoctor.model.fixes import SnippetPlace


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


@dataclass
class Action:
    """One thing to do, and the findings it is for.

    Args:
        fix: The suggestion; None if none is known.
        findings: The worst first.
    """

    fix: Fix | None
    findings: list[Finding] = field(default_factory=list)

    @property
    def call_us(self) -> float | None:
        """What its findings cost in a steady call, in microseconds; None if unknown."""
        known = [finding.cost.call_us for finding in self.findings if finding.cost and finding.cost.call_us is not None]
        return sum(known) if known else None

    @property
    def is_host_gap(self) -> bool:
        """Whether ``call_us`` is the host's time alone."""
        return any(finding.cost is not None and finding.cost.call_from == "host_gap" for finding in self.findings)

    @property
    def compile_s(self) -> float | None:
        """What its findings cost in compile time, in seconds; None if unknown."""
        costs = [finding.cost.compile_s for finding in self.findings if finding.cost]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known else None


def sentence(diagnosis: Diagnosis) -> tuple[str, Tone]:
    """The verdict in one sentence, and its tone."""
    summary = diagnosis.summary
    if (empty := nothing_compiled(diagnosis)) is not None:
        return empty.message, "warning"
    if (said := headline(summary, is_partial=diagnosis.is_partial)) is not None:
        return said
    parts = []
    if summary.coverage is not None:
        parts.append(f"{percent(summary.coverage)} of a steady call's tensor operations run compiled")
    elif summary.graphs:
        parts.append(f"{counted(summary.graphs, 'graph')} compiled")
    if summary.break_sites:
        parts.append(
            f"{counted(summary.break_sites, 'line')} {'breaks' if summary.break_sites == 1 else 'break'} the graph"
        )
    if summary.frames_over_limit:
        verb = "is" if summary.frames_over_limit == 1 else "are"
        parts.append(f"{counted(summary.frames_over_limit, 'function')} {verb} over the recompile limit")
    text = ", ".join(parts) or "Nothing was compiled"
    is_bad = bool(summary.skipped_frames or summary.frames_over_limit)
    return text[0].upper() + text[1:] + ".", "bad" if is_bad else "warning"


def tiles(summary: Summary) -> Iterator[Tile]:
    """The counts, in the order people look for them."""
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


def actions(findings: Sequence[Finding]) -> list[Action]:
    """What to do, each thing once, the costliest first.

    Actions with a known cost in a steady call come first; the others keep the order of their findings. Findings without
    a known fix come last. A finding that other findings' fixes removed needs no action.
    """
    found: dict[tuple[str, str | None, SnippetPlace | None] | str, Action] = {}
    for cluster in clusters(findings):
        fix = _best_fix(cluster)
        if all(finding.is_mended for finding in cluster) and (fix is None or fix.verdict != "verified"):
            continue
        key = (fix.title, fix.diff or fix.snippet, fix.place) if fix else cluster[0].fingerprint
        found.setdefault(key, Action(fix)).findings.extend(cluster)
    ordered = list(found.values())
    return sorted(
        ordered,
        key=lambda action: (action.fix is None, -(action.call_us if action.call_us is not None else float("-inf"))),
    )


def _best_fix(cluster: Sequence[Finding]) -> Fix | None:
    """The verified fix, otherwise the first that no trial has ruled out."""
    fixes = list(dict.fromkeys(fix for finding in cluster for fix in finding.fixes))
    for verdict in ("verified", "contained", "not tried", "unproven"):
        chosen = next((fix for fix in fixes if fix.verdict == verdict), None)
        if chosen is not None:
            return chosen
    return None
