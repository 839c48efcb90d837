"""A check as SARIF 2.1.0: one run with one result for each finding of each target.

Comes in: a ``CheckReport``. Goes out: JSON text. ``§`` below is a section of the OASIS standard with Errata 01.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from graphdoctor.facts import links
from graphdoctor.facts.diagnosis import Finding, Fix, Location, Severity
from graphdoctor.rules.catalog import PAGES
from graphdoctor.views.edits import Replacement, edits_of
from graphdoctor.views.json import json_text
from graphdoctor.views.places import Place, file_place, place_of
from graphdoctor.views.words import baseline_notes, more_eager_texts, place_text, worse_text, worth_trying

if TYPE_CHECKING:
    from graphdoctor.facts.check import BaselineEntry, CheckReport, Ignored, TargetCheck
    from graphdoctor.facts.stack import StackEntry

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "graphdoctorFingerprint/v1"
"""The name of our fingerprints."""
LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
"""The level for each severity."""
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")
_SUPPRESSED: dict[str, str] = {
    "path": "per-path-ignores of the configuration",
    "setting": "ignore, select or own-code of the configuration",
}

_State = Literal["new", "unchanged", "updated"]
Json = dict[str, Any]
"""An object of the log."""


def render_sarif(report: CheckReport, *, root: Path | None = None) -> str:
    """A SARIF log.

    Args:
        report: What to write.
        root: The folder that the report's relative paths start from; stack entries in it become relative to it.

    Returns:
        JSON, indented, with a newline at the end.
    """
    codes = sorted({finding.code for target in report.targets for finding in _all_findings(target)})
    results = [
        result
        for target in report.targets
        for result in _results(target, codes, has_baseline=report.baseline is not None, root=root)
    ]
    return sarif_log(
        driver_of(report.graphdoctor_version, [rule_of(code) for code in codes]),
        _invocation(report, root),
        results,
        _run_properties(report),
    )


def sarif_log(driver: Json, invocation: Json, results: Sequence[Json], properties: Json) -> str:
    """A log of one run.

    Args:
        driver: The tool, from ``driver_of``.
        invocation: How it ran.
        results: What it found.
        properties: What the standard has no place for.
    """
    run: Json = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            "SRCROOT": {"description": {"text": "The git repository's root, or the project's folder outside any."}},
            "PACKAGES": {"description": {"text": "The folder that a package is installed in."}},
        },
        "invocations": [invocation],
        "results": results,
        "properties": properties,
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


# The tool and its run.


def driver_of(version: str, rules: Sequence[Json]) -> Json:
    """The tool, with the rules that results point to by their place."""
    driver: Json = {"name": "graphdoctor", "version": version, "rules": list(rules)}
    return driver | ({"informationUri": links.DOCS_URL} if links.DOCS_URL else {})


def rule_of(code: str) -> Json:
    """One of our rules, with its documentation."""
    rule = PAGES.get(code)
    if rule is None:  # a rule of another version, in a report that was read from a file
        return {"id": code}
    documentation = rule.documentation()
    url = links.rule_url(code)
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": rule.title()},
        "fullDescription": {"text": " ".join(next(iter(rule.sections().values())).split())},
        "help": {"text": documentation, "markdown": documentation},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    } | ({"helpUri": url} if url else {})


def _invocation(report: CheckReport, root: Path | None) -> Json:
    crashed = [target for target in report.targets if target.state == "crashed"]
    executed = [notification_of(*found) for target in report.targets for found in _told(target)]
    executed += [notification_of("note", note) for note in report.notes]
    configured: list[Json] = []
    for unused in report.unused_ignores:
        what = f"ignore[{', '.join(unused.codes)}]" if unused.codes else "This ignore"
        place = {"artifactLocation": artifact_of(file_place(unused.file, root))}
        if unused.line is not None:
            place["region"] = {"startLine": unused.line}
        told = notification_of("note", f"{what} matches no finding.")
        configured.append(told | {"locations": [{"physicalLocation": place}]})
    return {
        "executionSuccessful": not crashed,
        "exitCode": report.exit_code,
        "toolExecutionNotifications": executed,
        "toolConfigurationNotifications": configured,
    }


def _told(target: TargetCheck) -> Iterator[tuple[str, str]]:
    """What is said of a whole target: a level and a sentence."""
    if target.state == "crashed":
        yield "error", f"The target {target.name} crashed: {target.error or 'the reason is unknown.'}"
    elif target.error is not None:
        yield "error", f"The target {target.name} failed: {target.error}"
    if target.is_more_eager:
        yield from (("error", f"{target.name}: {words}.") for words in more_eager_texts(target))
    yield from (("note", f"{target.name}: {words}") for words in baseline_notes(target))


def notification_of(level: str, text: str) -> Json:
    """What is said of the run as a whole."""
    return {"level": level, "message": message_of(text)}


def _run_properties(report: CheckReport) -> Json:
    """What the standard has no place for: targets, budgets, fixed findings.

    A fixed finding isn't a result with ``baselineState`` ``absent``: GitHub takes every result for one that exists, and
    the baseline doesn't keep its line.
    """
    return {
        "baseline": report.baseline,
        "skippedTargets": list(report.skipped),
        "targets": [
            {
                "name": target.name,
                "target": target.target,
                "state": target.state,
                "torch": target.diagnosis.environment.torch if target.diagnosis else None,
                "baselineTorch": target.baseline_torch,
                "isOtherTorch": target.is_other_torch,
                "failOn": target.fail_on,
                "budgets": [budget.model_dump() for budget in target.budgets],
                "fixed": [_fixed(entry) for entry in target.fixed],
            }
            for target in report.targets
        ],
    }


def _fixed(entry: BaselineEntry) -> Json:
    return {name: getattr(entry, name) for name in ("fingerprint", "code", "file", "function", "message")}


# Results.


def _all_findings(target: TargetCheck) -> Iterator[Finding]:
    yield from target.new
    yield from target.known
    yield from (ignored.finding for ignored in target.ignored)


def _results(target: TargetCheck, codes: Sequence[str], *, has_baseline: bool, root: Path | None) -> Iterator[Json]:
    worse = {item.finding.fingerprint: worse_text(item) for item in target.worse}
    changed = {finding.fingerprint for finding in target.grown} | set(worse)
    failing = {finding.fingerprint for finding in target.failing}
    failing |= {item.finding.fingerprint for item in target.failing_worse}
    states: list[tuple[Finding, _State, Ignored | None]] = [(finding, "new", None) for finding in target.new]
    states += [
        (finding, "updated" if finding.fingerprint in changed else "unchanged", None) for finding in target.known
    ]
    # The baseline holds no ignored findings, but if one result has a state all need one (§3.27.24).
    states += [(ignored.finding, "new", ignored) for ignored in target.ignored]
    for finding, state, ignored in states:
        is_failing = ignored is None and finding.fingerprint in failing
        more = worse.get(finding.fingerprint) if ignored is None else None
        result = {
            "ruleId": finding.code,
            "ruleIndex": codes.index(finding.code),
            "level": LEVELS[finding.severity],
            "message": message_of(
                f"{finding.message}. Worse than in the baseline: {more}" if more else finding.message
            ),
            "locations": [_location(finding.location, root)],
            "occurrenceCount": finding.count,
            "partialFingerprints": {FINGERPRINT: finding.fingerprint},
            # Empty rather than absent: either all results of a run have it or none (§3.27.23).
            "suppressions": [_suppression(ignored)] if ignored is not None else [],
            "properties": _properties(finding, target) | {"isFailing": is_failing},
        }
        if has_baseline:
            result["baselineState"] = state
        if related := list(_related(finding, root)):
            result["relatedLocations"] = related
        if finding.user_stack:
            result["codeFlows"] = [_code_flow(finding, root)]
        if fixes := list(_fixes(finding.fixes, root)):
            result["fixes"] = fixes
        yield result


def _suppression(ignored: Ignored) -> Json:
    kind = "inSource" if ignored.by == "comment" else "external"
    reason = ignored.reason or _SUPPRESSED.get(ignored.by)
    return {"kind": kind} | ({"justification": reason} if reason else {})


def _properties(finding: Finding, target: TargetCheck) -> Json:
    verdicts = [
        {
            "title": fix.title,
            "kind": fix.kind,
            "isSafe": fix.is_safe,
            "verdict": fix.verdict,
            "reason": fix.reason,
            "snippet": fix.snippet,
            "place": None if fix.place is None else place_text(fix.place),
        }
        for fix in finding.fixes
    ]
    return {
        "target": target.name,
        "compileIds": list(finding.compile_ids),
        "torchId": finding.torch_id,
        "torchReason": finding.torch_reason,
        "suggestions": verdicts,
    }


def message_of(text: str) -> Json:
    """Text without links (§3.11.6)."""
    return {"text": _LINK.sub(r"\[", text)}


# Places.


def _location(found: Location | StackEntry, root: Path | None) -> Json:
    """A line; what isn't in a file has only a function."""
    function = (found.function if isinstance(found, Location) else found.qualname) or found.function
    location: Json = {"logicalLocations": [{"fullyQualifiedName": function, "kind": "function"}]}
    place = place_of(found, root)
    if place is None:
        return location
    physical: Json = {"artifactLocation": artifact_of(place)}
    if found.line > 0:
        physical |= _regions(found)
    return {"physicalLocation": physical} | location


def artifact_of(place: Place) -> Json:
    """A file."""
    return {"uri": place.uri} | ({} if place.base is None else {"uriBaseId": place.base})


def _regions(found: Location | StackEntry) -> Json:
    """The expression within its line if its columns are known, otherwise the line without its indentation."""
    line = _line_region(found)
    start, end = found.column, found.end_column
    if start is None or start < 1:
        return {"region": line}
    if end is not None and end <= start:
        end = None
    region: Json = {"startLine": found.line, "startColumn": start}
    if end is not None:
        region |= {"endLine": found.line, "endColumn": end}
    if found.text is not None and found.indent is not None:
        skipped = start - 1 - found.indent
        snippet = found.text[skipped : None if end is None else end - 1 - found.indent] if skipped >= 0 else ""
        if snippet:
            region["snippet"] = {"text": snippet}
    is_whole = region.get("snippet") == line.get("snippet")
    return {"region": region} if is_whole else {"region": region, "contextRegion": line}


def _line_region(found: Location | StackEntry) -> Json:
    region: Json = {"startLine": found.line}
    if found.text:
        if found.indent is not None:
            columns = (found.indent + 1, found.indent + 1 + len(found.text))
            region |= {"startColumn": columns[0], "endLine": found.line, "endColumn": columns[1]}
        region["snippet"] = {"text": found.text}
    return region


def _related(finding: Finding, root: Path | None) -> Iterator[Json]:
    seen: list[Json] = []
    for related in finding.related:
        location = _location(related, root)
        if related.note:
            location["message"] = message_of(related.note)
        if location not in seen:
            seen.append(location)
            yield {"id": len(seen)} | location


def _code_flow(finding: Finding, root: Path | None) -> Json:
    """The call path to the line, outermost first; viewers may hide torch's own lines."""
    steps = [
        {
            "location": _location(entry, root) | {"message": {"text": f"in {entry.qualname or entry.function}"}},
            "nestingLevel": depth,
            "importance": "unimportant" if entry.origin in ("torch", "stdlib") else "essential",
        }
        for depth, entry in enumerate(finding.user_stack)
    ]
    return {"threadFlows": [{"locations": steps}]}


# Fixes.


def _fixes(fixes: Sequence[Fix], root: Path | None) -> Iterator[Json]:
    """Edits that a viewer applies with one click, so none that a trial has ruled out."""
    for fix in worth_trying(fixes):
        if not fix.diff:
            continue
        changes = [
            {
                "artifactLocation": artifact_of(file_place(edit.path, root)),
                "replacements": [_replacement(replacement) for replacement in edit.replacements],
            }
            for edit in edits_of(fix.diff)
        ]
        if changes:
            yield {"description": message_of(f"{fix.title} ({fix.verdict})"), "artifactChanges": changes}


def _replacement(replacement: Replacement) -> Json:
    region = {
        "startLine": replacement.line,
        "startColumn": 1,
        "endLine": replacement.end_line,
        "endColumn": replacement.end_column,
    }
    inserted = {"insertedContent": {"text": replacement.text}} if replacement.text else {}
    return {"deletedRegion": region} | inserted
