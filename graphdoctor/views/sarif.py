"""Annotations as SARIF 2.1.0: one run with one result for each finding of each target.

Goes out: JSON text. ``§`` below is a section of the OASIS standard with Errata 01.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from graphdoctor.facts import command
from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.check import CheckReport, TargetCheck
from graphdoctor.facts.diagnosis import Finding, Severity
from graphdoctor.facts.reading import plain
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.catalog import PAGES
from graphdoctor.views.annotations import Annotation, UriPath, annotations_of, file_place, place_of
from graphdoctor.views.json import json_text
from graphdoctor.views.words import fix_text

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
    """Return a SARIF log of a check, indented, with a newline at the end."""
    writer = _Writer(report, root)
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [writer.run()]})


class _Writer:
    """The one run of a log, with places relative to ``root``."""

    def __init__(self, report: CheckReport, root: Path | None) -> None:
        self._report = report
        self._root = root
        self._annotations = list(annotations_of(report))
        findings = (annotation.finding for annotation in self._annotations)
        self._codes = sorted({finding.code for finding in findings if finding is not None})

    def run(self) -> _Json:
        """Return the object."""
        report, url = self._report, command.DOCS_URL
        driver = {
            "name": "graphdoctor",
            "version": report.graphdoctor_version,
            "rules": [_rule(code) for code in self._codes],
        }
        bases = {
            "SRCROOT": "The git repository's root, or the project's folder outside any.",
            "PACKAGES": "The folder that a package is installed in.",
        }
        notifications = grouped(
            (annotation.kind == "ignore", self._notification(annotation))
            for annotation in self._annotations
            if annotation.kind != "finding"
        )
        invocation = {
            "executionSuccessful": all(target.state != "crashed" for target in report.targets),
            "toolExecutionNotifications": notifications.get(False, []),
            "toolConfigurationNotifications": notifications.get(True, []),
            "exitCode": report.exit_code,
        }
        return {
            "tool": {"driver": driver | ({"informationUri": url} if url else {})},
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {
                name: {"description": {"text": text}} for name, text in bases.items()
            },
            "invocations": [invocation],
            "results": [
                self._result(annotation, annotation.finding)
                for annotation in self._annotations
                if annotation.finding is not None
            ],
            # A fixed finding isn't a result with ``baselineState`` ``absent``: GitHub takes every
            # result for one that exists, and the baseline doesn't keep its line.
            "properties": {
                "baseline": report.baseline,
                "skippedTargets": list(report.skipped),
                "targets": [_target(target) for target in report.targets],
            },
        }

    def _notification(self, annotation: Annotation) -> _Json:
        is_named = annotation.kind != "ignore" and annotation.target is not None
        title = f"{annotation.title}: " if is_named else ""
        notification: _Json = {
            "level": _LEVELS[annotation.level],
            "message": _message(f"{title}{annotation.message}"),
        }
        if (unused := annotation.unused) is not None:
            place: _Json = {"artifactLocation": _artifact(file_place(unused.file, self._root))}
            if unused.line is not None:
                place["region"] = {"startLine": unused.line}
            notification["locations"] = [{"physicalLocation": place}]
        return notification

    def _result(self, annotation: Annotation, finding: Finding) -> _Json:
        worse = f". Worse than in the baseline: {annotation.worse}" if annotation.worse else ""
        suppressions = []
        if (ignored := annotation.ignored) is not None:
            kind = {"kind": "inSource" if ignored.by == "comment" else "external"}
            reason = ignored.reason or _SUPPRESSED.get(ignored.by)
            suppressions = [kind | ({"justification": reason} if reason else {})]
        result = {
            "ruleId": finding.code,
            "ruleIndex": self._codes.index(finding.code),
            "level": _LEVELS[finding.severity],
            "message": _message(finding.message + worse),
            "locations": [self._location(finding.location)],
            "occurrenceCount": finding.count,
            "partialFingerprints": {"graphdoctorFingerprint/v1": finding.fingerprint},
            # Empty rather than absent: either all results of a run have it or none (§3.27.23).
            "suppressions": suppressions,
            "properties": _properties(finding, annotation),
        }
        if self._report.baseline is not None:
            # The baseline holds no ignored findings, but if one result has a state all need one
            # (§3.27.24).
            result["baselineState"] = annotation.state
        related = []
        for entry in finding.related:
            message = {"message": _message(entry.note)} if entry.note else {}
            location = self._location(entry) | message
            related += [location] if location not in related else []
        if related:
            numbered = enumerate(related, start=1)
            result["relatedLocations"] = [{"id": id_} | location for id_, location in numbered]
        # The call path to the line, outermost first; viewers may hide torch's own lines.
        steps = [
            {
                "location": self._location(entry)
                | {"message": {"text": f"in {entry.qualname or entry.function}"}},
                "nestingLevel": depth,
                "importance": "unimportant" if entry.origin in ("torch", "stdlib") else "essential",
            }
            for depth, entry in enumerate(finding.user_stack)
        ]
        if steps:
            result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
        return result

    def _location(self, entry: StackEntry) -> _Json:
        """Return a line; what isn't in a file has only a function."""
        function = {"fullyQualifiedName": entry.qualname or entry.function, "kind": "function"}
        location = {"logicalLocations": [function]}
        place = place_of(entry, self._root)
        if place is None:
            return location
        regions = _regions(entry) if entry.line > 0 else {}
        return {"physicalLocation": {"artifactLocation": _artifact(place)} | regions} | location


def _target(target: TargetCheck) -> _Json:
    diagnosis = target.diagnosis
    names = ("fingerprint", "code", "file", "function", "message")
    return {
        "name": target.name,
        "target": target.target,
        "state": target.state,
        "torch": None if diagnosis is None else diagnosis.recording.environment.torch,
        "baselineTorch": target.baseline_torch,
        "failOn": target.fail_on,
        "budgets": [plain(budget) for budget in target.budgets],
        "fixed": [values_of(entry, *names) for entry in target.fixed],
    }


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


def _properties(finding: Finding, annotation: Annotation) -> _Json:
    return {
        "target": annotation.target,
        "compileIds": list(finding.compile_ids),
        "torchId": finding.torch_id,
        "torchReason": finding.torch_reason,
        "suggestions": [fix_text(fix) for fix in finding.fixes],
        "isFailing": annotation.is_failing,
    }


def _message(text: str) -> _Json:
    """Return text without links (§3.11.6)."""
    return {"text": _LINK.sub(r"\[", text)}


def _artifact(place: UriPath) -> _Json:
    return {"uri": place.uri} | ({} if place.base is None else {"uriBaseId": place.base})


def _regions(entry: StackEntry) -> _Json:
    """Return the expression if its columns are known, otherwise the line without its
    indentation.
    """
    region: _Json = {"startLine": entry.line}
    start, end = entry.column, entry.end_column
    if start is None and entry.text and entry.indent is not None:
        start, end = entry.indent + 1, entry.indent + 1 + len(entry.text)
    if start is not None and start > 0:
        region["startColumn"] = start
        if end is not None and end > start:
            region |= {"endLine": entry.line, "endColumn": end}
    if entry.text:
        context = {"startLine": entry.line, "snippet": {"text": entry.text}}
        return {"region": region, "contextRegion": context}
    return {"region": region}
