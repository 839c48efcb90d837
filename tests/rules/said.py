"""What rules find in hand-built facts, a few lines for each finding, for snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphdoctor.facts.diagnosis import Finding, Fix
from graphdoctor.facts.recording import Recording
from tests.factories import diagnosed


def findings(facts: Recording, *prefixes: str) -> list[Finding]:
    found = diagnosed(facts).findings
    return [finding for finding in found if finding.code.startswith(prefixes or ("GD",))]


def said(cases: Mapping[str, Recording], *prefixes: str) -> str:
    """The findings of each case whose codes begin so."""
    return "\n".join(
        line
        for name, facts in cases.items()
        for line in (f"# {name}", *(line for finding in findings(facts, *prefixes) for line in _lines(finding)))
    )


def _lines(finding: Finding) -> Iterator[str]:
    where, cost = finding.location, finding.cost
    about = ", ".join([*finding.compile_ids, *(change.expression for change in finding.changes)])
    yield f"{finding.code} {finding.severity}, {finding.count} times, {where.file}:{where.line} ({about})"
    yield f"    {finding.message}"
    if cost is not None and cost.call_us is not None:
        yield f"    {cost.call_us:g} us by {cost.call_from}"
    if finding.torch_reason is not None:
        yield f"    torch: {finding.torch_reason!r}"
    yield from (f"    also {place.line}: {place.note}" for place in finding.related)
    yield from (f"    {_fix(fix)}" for fix in finding.fixes)


def _fix(fix: Fix) -> str:
    place = f" [{fix.place.where}] {fix.snippet!r}" if fix.place is not None else ""
    return f"- {fix.kind}{', safe' if fix.is_safe else ''}: {fix.title}{place}"
