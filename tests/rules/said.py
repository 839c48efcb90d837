"""What rules find in hand-built facts, a few lines for each finding, for snapshots."""

from __future__ import annotations

from tests.factories import diagnosed


def advice(fix):
    """A suggestion, and when it holds."""
    return fix.title if fix.condition is None else f"{fix.title}, {fix.condition}"


def findings(facts, *prefixes):
    return [
        finding
        for finding in diagnosed(facts).findings
        if finding.code.startswith(prefixes or ("GD",))
    ]


def said(cases, *prefixes):
    """The findings of each case whose codes begin so."""
    return "\n".join(
        line
        for name, facts in cases.items()
        for line in (
            f"# {name}",
            *(line for finding in findings(facts, *prefixes) for line in _lines(finding)),
        )
    )


def _lines(finding):
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


def _fix(fix):
    place = f" [{fix.place.where}] {fix.snippet!r}" if fix.place is not None else ""
    return f"- {fix.kind}{', safe' if fix.is_safe else ''}: {advice(fix)}{place}"


def said_in_full(cases):
    """All that is diagnosed in each case: findings, recompiles, graphs, frames and counts."""
    return "\n".join(
        line
        for name, facts in cases.items()
        for line in (f"# {name}", *_diagnosed_lines(diagnosed(facts)))
    )


def _diagnosed_lines(diagnosis):
    for found in diagnosis.findings:
        at, path = found.location, " > ".join(step.function for step in found.user_stack)
        yield f"{found.code} {found.severity} {found.torch_id}, {found.count} times at {at.file}:{at.line} by {path!r}"
        yield f"    {at.text!r} in {found.compile_ids}: {found.message}"
        yield f"    torch: {found.torch_reason!r} {found.hints}, {_known(found.effects)}"
        if found.changes:
            hidden = f" and {found.hidden_change_count} more" * bool(found.hidden_change_count)
            yield f"    {', '.join(each.expression for each in found.changes)}{hidden} changed"
        yield from (f"    at line {place.line}: {place.note}" for place in found.related)
        for fix in found.fixes:
            yield f"    {_fix(fix)}{f' sets {fix.setting.name}' if fix.setting else ''}"
    fingerprints = [found.fingerprint for found in diagnosis.findings]
    for report in diagnosis.recompiles:
        of = fingerprints.index(report.fingerprint) if report.fingerprint in fingerprints else None
        changed = ", ".join(f"{each.expression} {each.old} -> {each.new}" for each in report.cause)
        yield f"recompile {report.compile_ids} in call {report.call_index}, {report.cost_s} s, finding {of}: {changed}"
        yield f"    nearest {report.nearest}, followed in {report.followed_in}, over limit: {report.is_over_limit}"
    for number, graph in enumerate(diagnosis.graphs):
        of = graph.ended_by_fingerprint and fingerprints.index(graph.ended_by_fingerprint)
        yield f"graph of {diagnosis.recording.graphs[number].function}, ended by {graph.ended_by}, finding {of}"
    yield f"frames {[report.state for report in diagnosis.frames]}"
    yield f"{_known(diagnosis.summary)}"


def _known(fact):
    """What isn't zero or nothing; None stays."""
    return {name: value for name, value in vars(fact).items() if value or value is None}
