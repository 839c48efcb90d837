"""Expectations of a test on a diagnosis. Each function returns how the expectation is broken, or
None if it holds.

An expectation doesn't hold if the recording has missing records or nothing was compiled: it can't
have been tested.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.rules.gate.check import compile_switch, missing_records
from graphdoctor.wording import counted, switch_text


@dataclass(frozen=True)
class UnmetExpectation:
    """An expectation that doesn't hold.

    Args:
        expected: What was expected, such as ``no graph break``.
        found: What was found, such as ``2``.
        findings: The findings that break it, worst first.
        hint: What to do, if no finding says it.
    """

    expected: str
    found: str
    findings: tuple[Finding, ...] = ()
    hint: str | None = None


def breaks(diagnosis: Diagnosis, *, limit: int, own_code: bool) -> UnmetExpectation | None:
    """Expect that at most ``limit`` lines break a graph."""
    findings = _of_kind(diagnosis, "GD1", own_code=own_code)
    # A skipped frame has its own finding at the line of the break.
    sites = {finding.location.at for finding in findings if finding.break_effects}
    number = len(sites) if own_code else diagnosis.summary.break_sites
    expected = f"{_at_most(limit, 'graph break')}{' in your own code' if own_code else ''}"
    if number > limit:
        return UnmetExpectation(expected, str(number), findings)
    return _unknown(diagnosis, expected)


def fullgraph(diagnosis: Diagnosis) -> UnmetExpectation | None:
    """Return every compiled function became one graph, and none of it runs eagerly."""
    summary, expected = diagnosis.summary, "one graph for each compile and nothing eager"
    counts = {"graph break": summary.break_sites, "skipped frame": summary.skipped_frames}
    parts = [counted(number, noun) for noun, number in counts.items() if number]
    if summary.frames_over_limit:
        parts.append(f"{counted(summary.frames_over_limit, 'function')} over the recompile limit")
    eager = [frame for frame in diagnosis.frames if frame.state not in ("compiled", "empty")]
    if not parts and eager:
        parts = [f"{counted(len(eager), 'function')} {eager[0].state.replace('_', ' ')}"]
    if not parts and summary.graphs != summary.compiles:
        parts = [f"{counted(summary.graphs, 'graph')} for {counted(summary.compiles, 'compile')}"]
    if parts:
        over_limit = _recompiled(diagnosis) if summary.frames_over_limit else ()
        return UnmetExpectation(
            expected, ", ".join(parts), (*_of_kind(diagnosis, "GD1"), *over_limit)
        )
    return _unknown(diagnosis, expected)


def recompiles(
    diagnosis: Diagnosis, *, limit: int, is_empty_allowed: bool
) -> UnmetExpectation | None:
    """Expect at most ``limit`` recompiles, and no function over torch's recompile limit."""
    summary, expected = diagnosis.summary, _at_most(limit, "recompile")
    if summary.recompiles <= limit and not summary.frames_over_limit:
        return _unknown(diagnosis, expected, is_empty_allowed=is_empty_allowed)
    text = str(summary.recompiles)
    if over := summary.frames_over_limit:
        text += f", and {counted(over, 'function')} over torch's recompile limit"
    return UnmetExpectation(expected, text, _recompiled(diagnosis))


def limit_hits(diagnosis: Diagnosis) -> UnmetExpectation | None:
    """Expect no function over torch's recompile limit."""
    expected = "no function over torch's recompile limit"
    if over := diagnosis.summary.frames_over_limit:
        return UnmetExpectation(expected, str(over), _recompiled(diagnosis))
    return _unknown(diagnosis, expected)


def compile_time(diagnosis: Diagnosis, *, limit_s: float) -> UnmetExpectation | None:
    """Expect that torch compiles for at most ``limit_s`` seconds."""
    expected = f"at most {limit_s:g} s of compiling"
    seconds = diagnosis.summary.compile_time_s
    if seconds is not None and seconds > limit_s:
        return UnmetExpectation(expected, f"{seconds:.4g} s")
    return _unknown(diagnosis, expected)


def coverage(diagnosis: Diagnosis, *, limit: float) -> UnmetExpectation | None:
    """Expect that at least ``limit`` of a call's tensor operations run in graphs.

    Args:
        diagnosis: From a run that measured coverage.
        limit: A share, 0 to 1.
    """
    expected, value = f"coverage of at least {limit:.15g}", diagnosis.summary.coverage
    if (unknown := _unknown(diagnosis, expected, is_empty_allowed=True)) is not None:
        return unknown
    detail = diagnosis.summary.coverage_detail
    if value is None or detail is None:
        why = (
            " ".join(gap.message for gap in diagnosis.recording.gaps)
            or "The call has no tensor operations."
        )
        return UnmetExpectation(expected, "unknown coverage", hint=why)
    if value >= limit:
        return None
    total = detail.graph_ops + detail.eager_ops
    text = f"{_below(value, limit)} ({detail.graph_ops} of {total} operations)"
    return UnmetExpectation(expected, text, _of_kind(diagnosis, "GD1"))


def _of_kind(diagnosis: Diagnosis, prefix: str, *, own_code: bool = False) -> tuple[Finding, ...]:
    return tuple(
        finding
        for finding in diagnosis.findings
        if finding.code.startswith(prefix) and not (own_code and finding.location.origin != "user")
    )


def _recompiled(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Return the findings that summarize recompiles; other GD2 findings are about avoiding them."""
    names = {event.fingerprint for event in diagnosis.recompiles}
    return tuple(finding for finding in diagnosis.findings if finding.fingerprint in names)


def _unknown(
    diagnosis: Diagnosis, expected: str, *, is_empty_allowed: bool = False
) -> UnmetExpectation | None:
    """Return why the recording can't show that the expectation holds, or None if it can."""
    recording, missing = diagnosis.recording, missing_records(diagnosis)
    found, hint = "", None
    if recording.exit.reason != "finished":
        found, hint = "a recording that ended early", recording.exit.message
    elif missing is not None or recording.is_partial:
        found, hint = "a recording with missing records", missing.message if missing else None
    elif (off := compile_switch(diagnosis)) is not None:
        found, hint = "that torch.compile was off", f"{switch_text(off)}."
    elif not is_empty_allowed and (not diagnosis.frames or recording.gap("nothing_compiled")):
        gap = recording.gap("nothing_compiled")
        found, hint = "that nothing was compiled", gap.message if gap else None
    return UnmetExpectation(expected, found, hint=hint) if found else None


def _below(value: float, limit: float) -> str:
    """Return a share with four digits, or as many as it takes to show that it's below the limit."""
    return next(text for digits in range(4, 18) if float(text := f"{value:.{digits}g}") < limit)


def _at_most(limit: int, noun: str) -> str:
    return f"no {noun}" if limit == 0 else f"at most {counted(limit, noun)}"
