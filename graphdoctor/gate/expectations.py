"""What a test expects of a diagnosis: each function here says how an expectation is broken, or None where it holds.

A recording that lacks records, or in which nothing was compiled, holds no expectation that it could not have broken.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphdoctor.model.diagnosis import Diagnosis, Finding
from graphdoctor.model.wording import counted

_LOST = "GD902"
_NOTHING_COMPILED = "GD905"
_UNRECORDED = "left a function to eager mode and wrote no record"
"""From the gap's message of ``probe/ways_in/block.py``."""


@dataclass(frozen=True)
class Broken:
    """An expectation that does not hold.

    Args:
        expected: What was expected, as ``no graph break``.
        found: What there is, as ``2``.
        findings: The findings that break it, worst first.
        hint: What to do where no finding says it.
    """

    expected: str
    found: str
    findings: tuple[Finding, ...] = ()
    hint: str | None = None


def breaks(diagnosis: Diagnosis, *, limit: int, own_code: bool) -> Broken | None:
    """At most so many lines at which a graph breaks.

    Args:
        diagnosis: What to judge.
        limit: How many are allowed.
        own_code: Leave out lines of installed packages.
    """
    found = _of_kind(diagnosis, "GD1", own_code=own_code)
    # Skipped frames have findings of their own at the line of the break.
    sites = {(finding.location.file, finding.location.line) for finding in found if finding.break_effects}
    number = len(sites) if own_code else diagnosis.summary.break_sites
    where = " in your own code" if own_code else ""
    expected = f"{_at_most(limit, 'graph break')}{where}"
    if number > limit:
        return Broken(expected, str(number), found)
    return _unknown(diagnosis, expected, is_empty_allowed=False)


def fullgraph(diagnosis: Diagnosis) -> Broken | None:
    """Every function that was compiled became one graph, and nothing of it runs eagerly."""
    summary, expected = diagnosis.summary, "one graph for each compile and nothing eager"
    parts = [
        counted(number, noun)
        for number, noun in (
            (summary.break_sites, "graph break"),
            (summary.skipped_frames, "skipped frame"),
        )
        if number
    ]
    if summary.frames_over_limit:
        parts.append(f"{counted(summary.frames_over_limit, 'function')} over the recompile limit")
    eager = [frame for frame in diagnosis.frames if frame.state not in ("compiled", "empty")]
    if not parts and eager:
        parts = [f"{counted(len(eager), 'function')} {eager[0].state.replace('_', ' ')}"]
    if not parts and summary.graphs != summary.compiles:
        parts = [f"{counted(summary.graphs, 'graph')} of {counted(summary.compiles, 'compile')}"]
    if parts:
        over_limit = _recompiled(diagnosis) if summary.frames_over_limit else ()
        return Broken(expected, ", ".join(parts), (*_of_kind(diagnosis, "GD1"), *over_limit))
    return _unknown(diagnosis, expected, is_empty_allowed=False)


def recompiles(diagnosis: Diagnosis, *, limit: int, is_empty_allowed: bool) -> Broken | None:
    """At most so many recompiles, and no function over torch's own limit.

    Args:
        diagnosis: What to judge.
        limit: How many are allowed.
        is_empty_allowed: Nothing compiled holds it: that is what a warm program does.
    """
    summary, expected = diagnosis.summary, _at_most(limit, "recompile")
    over = summary.frames_over_limit
    if summary.recompiles > limit or over:
        found = str(summary.recompiles)
        if over:
            found += f", and {counted(over, 'function')} over torch's recompile limit"
        return Broken(expected, found, _recompiled(diagnosis))
    return _unknown(diagnosis, expected, is_empty_allowed=is_empty_allowed)


def coverage(diagnosis: Diagnosis, *, limit: float) -> Broken | None:
    """At least this share of the tensor operations of a call runs in graphs.

    Args:
        diagnosis: Of a run that measured it.
        limit: 0 to 1.
    """
    expected, value = f"coverage of at least {limit:g}", diagnosis.summary.coverage
    if (unknown := _unknown(diagnosis, expected, is_empty_allowed=True)) is not None:
        return unknown
    detail = diagnosis.summary.coverage_detail
    if value is None or detail is None:
        why = " ".join(gap.message for gap in diagnosis.gaps) or "The call has no tensor operation."
        return Broken(expected, "none: it is not known", hint=why)
    if value >= limit:
        return None
    total = detail.graph_ops + detail.eager_ops
    found = f"{value:.4g} ({detail.graph_ops} of {total} operations)"
    return Broken(expected, found, _of_kind(diagnosis, "GD1"))


def _of_kind(diagnosis: Diagnosis, prefix: str, *, own_code: bool = False) -> tuple[Finding, ...]:
    return tuple(
        finding
        for finding in diagnosis.findings
        if finding.code.startswith(prefix) and not (own_code and finding.location.origin != "user")
    )


def _recompiled(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """The findings that sum up recompiles; others of their kind say what they could have been spared."""
    names = {event.fingerprint for event in diagnosis.recompiles}
    return tuple(finding for finding in diagnosis.findings if finding.fingerprint in names)


def _unknown(diagnosis: Diagnosis, expected: str, *, is_empty_allowed: bool) -> Broken | None:
    """The recording cannot tell that the expectation holds."""
    if diagnosis.exit.reason != "finished":
        message = diagnosis.exit.message or "The recording ended early."
        return Broken(expected, "a recording that ended early", hint=message)
    lost = next((g.message for g in diagnosis.gaps if g.code == _LOST or _UNRECORDED in g.message), None)
    if lost is not None or diagnosis.is_partial:
        return Broken(expected, "a recording that lacks records", hint=lost)
    empty = next((gap.message for gap in diagnosis.gaps if gap.code == _NOTHING_COMPILED), None)
    if not is_empty_allowed and (empty is not None or not diagnosis.frames):
        return Broken(expected, "that nothing was compiled", hint=empty)
    return None


def _at_most(limit: int, noun: str) -> str:
    return f"no {noun}" if limit == 0 else f"at most {counted(limit, noun)}"
