"""Annotations as SARIF 2.1.0: one run with one result for each finding of each target.

Goes out: JSON text. ``§`` below is a section of the OASIS standard with Errata 01.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphdoctor.facts import command
from graphdoctor.facts.base import values_of
from graphdoctor.facts.check import CheckReport, Ignored
from graphdoctor.facts.diagnosis import Finding, Severity
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.reading import plain
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.catalog import PAGES
from graphdoctor.views.annotations import Annotation, UriPath, annotations_of, file_place, place_of
from graphdoctor.views.edits import Replacement, edits_of
from graphdoctor.views.json import json_text
from graphdoctor.views.reasons import why_text
from graphdoctor.views.words import fix_text, place_text, worth_trying

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")
_SUPPRESSED: dict[str, str] = {
    "path": "per-path-ignores of the configuration",
    "setting": "ignore, select or own-code of the configuration",
}
_Json = dict[str, Any]


def render_sarif(report: CheckReport, *, root: Path | None = None) -> str:
    """A SARIF log of a check, indented, with a newline at the end."""
    annotations = list(annotations_of(report))
    results = [
        (annotation, annotation.finding)
        for annotation in annotations
        if annotation.finding is not None
    ]
    codes = sorted({finding.code for _, finding in results})
    rules = [_rule(code) for code in codes]
    driver: _Json = {"name": "graphdoctor", "version": report.graphdoctor_version, "rules": rules}
    has_states = report.baseline is not None
    run = {
        "tool": {
            "driver": driver | ({"informationUri": command.DOCS_URL} if command.DOCS_URL else {})
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            "SRCROOT": {
                "description": {
                    "text": "The git repository's root, or the project's folder outside any."
                }
            },
            "PACKAGES": {"description": {"text": "The folder that a package is installed in."}},
        },
        "invocations": [
            {
                "executionSuccessful": not any(
                    target.state == "crashed" for target in report.targets
                ),
                "toolExecutionNotifications": [
                    _notification(annotation, root)
                    for annotation in annotations
                    if annotation.kind not in ("finding", "ignore")
                ],
                "toolConfigurationNotifications": [
                    _notification(annotation, root)
                    for annotation in annotations
                    if annotation.kind == "ignore"
                ],
                "exitCode": report.exit_code,
            }
        ],
        "results": [
            _result(annotation, finding, codes, root, has_states=has_states)
            for annotation, finding in results
        ],
        # A fixed finding isn't a result with ``baselineState`` ``absent``: GitHub takes every
        # result for one that exists, and the baseline doesn't keep its line.
        "properties": {
            "baseline": report.baseline,
            "skippedTargets": list(report.skipped),
            "targets": [
                {
                    "name": target.name,
                    "target": target.target,
                    "state": target.state,
                    "torch": target.diagnosis.recording.environment.torch
                    if target.diagnosis
                    else None,
                    "baselineTorch": target.baseline_torch,
                    "isOtherTorch": target.is_other_torch,
                    "failOn": target.fail_on,
                    "budgets": [plain(budget) for budget in target.budgets],
                    "fixed": [
                        values_of(entry, "fingerprint", "code", "file", "function", "message")
                        for entry in target.fixed
                    ],
                }
                for target in report.targets
            ],
        },
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(code: str) -> _Json:
    rule = PAGES.get(code)
    if rule is None:  # a rule of another version, in a report that was read from a file
        return {"id": code}
    documentation, url = rule.documentation(), command.rule_url(code)
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": rule.title()},
        "fullDescription": {"text": " ".join(next(iter(rule.sections().values())).split())},
        "help": {"text": documentation, "markdown": documentation},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    } | ({"helpUri": url} if url else {})


def _notification(annotation: Annotation, root: Path | None) -> _Json:
    is_named = annotation.kind != "ignore" and annotation.target is not None
    notification: _Json = {
        "level": _LEVELS[annotation.level],
        "message": _message(
            f"{annotation.title}: {annotation.message}" if is_named else annotation.message
        ),
    }
    if annotation.unused is not None:
        place: _Json = {"artifactLocation": _artifact(file_place(annotation.unused.file, root))}
        if annotation.unused.line is not None:
            place["region"] = {"startLine": annotation.unused.line}
        notification["locations"] = [{"physicalLocation": place}]
    return notification


# Results.


def _result(
    annotation: Annotation,
    finding: Finding,
    codes: Sequence[str],
    root: Path | None,
    *,
    has_states: bool,
) -> _Json:
    worse = f". Worse than in the baseline: {annotation.worse}" if annotation.worse else ""
    result: _Json = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": _message(finding.message + worse),
        "locations": [_location(finding.location, root)],
        "occurrenceCount": finding.count,
        "partialFingerprints": {"graphdoctorFingerprint/v1": finding.fingerprint},
        # Empty rather than absent: either all results of a run have it or none (§3.27.23).
        "suppressions": [] if annotation.ignored is None else [_suppression(annotation.ignored)],
        "properties": _properties(finding, annotation),
    }
    if has_states:
        # The baseline holds no ignored findings, but if one result has a state all need one
        # (§3.27.24).
        result["baselineState"] = annotation.state
    if related := list(_related(finding, root)):
        result["relatedLocations"] = related
    if finding.user_stack:
        result["codeFlows"] = [_code_flow(finding, root)]
    if fixes := list(_fixes(finding.fixes, root)):
        result["fixes"] = fixes
    return result


def _suppression(ignored: Ignored) -> _Json:
    reason = ignored.reason or _SUPPRESSED.get(ignored.by)
    return {"kind": "inSource" if ignored.by == "comment" else "external"} | (
        {"justification": reason} if reason else {}
    )


def _properties(finding: Finding, annotation: Annotation) -> _Json:
    return {
        "target": annotation.target,
        "compileIds": list(finding.compile_ids),
        "torchId": finding.torch_id,
        "torchReason": finding.torch_reason,
        "suggestions": [
            {
                "title": fix_text(fix),
                "kind": fix.kind,
                "isSafe": fix.is_safe,
                "verdict": fix.verdict,
                "reason": why_text(fix),
                "snippet": fix.snippet,
                "place": None if fix.place is None else place_text(fix.place),
            }
            for fix in finding.fixes
        ],
        "isFailing": annotation.is_failing,
    }


def _message(text: str) -> _Json:
    """Text without links (§3.11.6)."""
    return {"text": _LINK.sub(r"\[", text)}


# Places.


def _location(entry: StackEntry, root: Path | None) -> _Json:
    """A line; what isn't in a file has only a function."""
    function = entry.qualname or entry.function
    location: _Json = {"logicalLocations": [{"fullyQualifiedName": function, "kind": "function"}]}
    place = place_of(entry, root)
    if place is None:
        return location
    physical: _Json = {"artifactLocation": _artifact(place)}
    if entry.line > 0:
        physical |= _regions(entry)
    return {"physicalLocation": physical} | location


def _artifact(place: UriPath) -> _Json:
    return {"uri": place.uri} | ({} if place.base is None else {"uriBaseId": place.base})


def _regions(entry: StackEntry) -> _Json:
    """The expression within its line if its columns are known, otherwise the line without its
    indentation.
    """
    line: _Json = {"startLine": entry.line}
    if entry.text:
        if entry.indent is not None:
            columns = (entry.indent + 1, entry.indent + 1 + len(entry.text))
            line |= {"startColumn": columns[0], "endLine": entry.line, "endColumn": columns[1]}
        line["snippet"] = {"text": entry.text}
    start, end = entry.column, entry.end_column
    if start is None or start < 1:
        return {"region": line}
    if end is not None and end <= start:
        end = None
    region: _Json = {"startLine": entry.line, "startColumn": start}
    if end is not None:
        region |= {"endLine": entry.line, "endColumn": end}
    if entry.text is not None and entry.indent is not None:
        skipped = start - 1 - entry.indent
        snippet = (
            entry.text[skipped : None if end is None else end - 1 - entry.indent]
            if skipped >= 0
            else ""
        )
        if snippet:
            region["snippet"] = {"text": snippet}
    is_whole = region.get("snippet") == line.get("snippet")
    return {"region": region} if is_whole else {"region": region, "contextRegion": line}


def _related(finding: Finding, root: Path | None) -> Iterator[_Json]:
    seen: list[_Json] = []
    for related in finding.related:
        location = _location(related, root)
        if related.note:
            location["message"] = _message(related.note)
        if location not in seen:
            seen.append(location)
            yield {"id": len(seen)} | location


def _code_flow(finding: Finding, root: Path | None) -> _Json:
    """The call path to the line, outermost first; viewers may hide torch's own lines."""
    steps = [
        {
            "location": _location(entry, root)
            | {"message": {"text": f"in {entry.qualname or entry.function}"}},
            "nestingLevel": depth,
            "importance": "unimportant" if entry.origin in ("torch", "stdlib") else "essential",
        }
        for depth, entry in enumerate(finding.user_stack)
    ]
    return {"threadFlows": [{"locations": steps}]}


def _fixes(fixes: Sequence[Fix], root: Path | None) -> Iterator[_Json]:
    """Edits that a viewer applies with one click, so none that a trial has ruled out."""
    for fix in worth_trying(fixes):
        changes = [
            {
                "artifactLocation": _artifact(file_place(path, root)),
                "replacements": list(map(_replacement, replacements)),
            }
            for path, replacements in edits_of(fix.diff or "").items()
        ]
        if changes:
            yield {
                "description": _message(f"{fix_text(fix)} ({fix.verdict})"),
                "artifactChanges": changes,
            }


def _replacement(replacement: Replacement) -> _Json:
    region = {
        "startLine": replacement.line,
        "startColumn": 1,
        "endLine": replacement.end_line,
        "endColumn": replacement.end_column,
    }
    return {"deletedRegion": region} | (
        {"insertedContent": {"text": replacement.text}} if replacement.text else {}
    )
