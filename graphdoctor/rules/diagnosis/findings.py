"""Turns what a rule matched into a ``Finding``, and puts findings in order."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import SEVERITIES, Cost, Finding, Fix
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.stack import StackEntry, relative
from graphdoctor.rules.diagnosis.rule import Rule, RuleMatch


def fingerprint(code: str, entry: StackEntry, root: Path, subject: str) -> str:
    """The fingerprint of a finding, 16 hexadecimal digits.

    A package's file is named from the package on, so that another environment gives the same value.
    """
    file = relative(entry.file, root)
    if entry.package and f"/{entry.package}/" in file:
        file = entry.package + file.rpartition(f"/{entry.package}/")[2]
    return digest(
        code,
        Path(file).as_posix(),
        entry.qualname or entry.function,
        bare_text(entry.text),
        subject,
    )


def bare_text(text: str | None) -> str:
    """A line without its comment and its spacing, as a fingerprint sees it."""
    return re.sub(r"\s+", " ", re.sub(r"\s+#.*$", "", text or "")).strip()


def with_distinct_fingerprints(findings: Sequence[Finding]) -> list[Finding]:
    """The findings in the same order, with equal fingerprints made distinct.

    Two equal lines in one function are two findings: the second one's fingerprint also depends on
    its position.
    """
    seen: dict[str, int] = {}
    renamed: dict[int, str] = {}
    for index, finding in sorted(enumerate(findings), key=lambda item: item[1].location.line):
        number = seen.get(finding.fingerprint, 0)
        seen[finding.fingerprint] = number + 1
        if number:
            renamed[index] = digest(finding.fingerprint, str(number))
    return [
        finding.replace(fingerprint=renamed[index]) if index in renamed else finding
        for index, finding in enumerate(findings)
    ]


def digest(*parts: str) -> str:
    """The same 16 characters for the same parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


_BREAK = "GD1"
_AS_MATCHED = (
    *(
        "message",
        "changes",
        "hidden_change_count",
        "reasons",
        "effects",
        "break_effects",
        "user_stack",
    ),
    *("cuda_graph_skip", "ddp_split", "is_consequence"),
)


def finding_of(rule: Rule, match: RuleMatch, recording: Recording, root: Path) -> Finding:
    """What a rule matched in a recording as a finding."""
    cause = match.reasons[0] if match.reasons else None
    torch_id = cause.torch_id if cause else None
    words = ": ".join(filter(None, (cause.gb_type, cause.explanation))) if cause else None
    subject = torch_id or (cause.gb_type if cause else match.subject)
    return Finding(
        code=rule.code,
        rule=rule.name,
        severity=match.severity or rule.severity,
        location=location_of(match.entry, root),
        related=tuple(location_of(entry, root, note=note) for entry, note in match.related),
        torch_id=torch_id,
        torch_reason=match.torch_reason or words,
        hints=cause.hints if cause else (),
        count=len(match.of) if match.count is None else match.count,
        compile_ids=tuple(
            dict.fromkeys(each.compile_id for each in match.of if each.compile_id is not None)
        ),
        fixes=tuple(_placed(fix, recording, root) for fix in rule.sourced(match.fixes)),
        cost=None
        if match.call_us is None
        else Cost(call_us=match.call_us, call_from="profile", share=match.share),
        fingerprint=fingerprint(rule.code, match.entry, root, subject),
        **values_of(match, *_AS_MATCHED),
    )


def location_of(entry: StackEntry, root: Path, *, note: str | None = None) -> StackEntry:
    """A stack entry as a finding's location."""
    file, function = relative(entry.file, root), entry.qualname or entry.function
    return entry.replace(file=file, function=function, qualname=None, note=note)


def _placed(fix: Fix, recording: Recording, root: Path) -> Fix:
    """A fix whose place names its file as locations do, and the line of the only call of
    ``torch.compile``.
    """
    if fix.place is None:
        return fix
    file, line = fix.place.file, fix.place.line
    calls = {(call.file, call.line) for call in recording.compile_calls}
    if fix.place.where in ("compile", "compile_call") and len(calls) == 1:
        ((file, line),) = calls
    place = fix.place.replace(file=file and relative(file, root), line=line)
    return fix.replace(place=place)


def with_shared_first(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; a torch setting that is for breaks on several lines comes before what is for
    one line.

    Not one that drops output: what a program prints elsewhere would go too.
    """
    lines: dict[Setting, set[tuple[str, int]]] = defaultdict(set)
    for finding in findings:
        for fix in finding.fixes:
            if fix.setting is not None and not fix.setting.drops_output:
                lines[fix.setting].add(finding.location.at)

    def is_for_one(fix: Fix) -> bool:
        return fix.setting is None or len(lines[fix.setting]) < 2

    return [
        finding.replace(fixes=tuple(sorted(finding.fixes, key=is_for_one)))
        if finding.code.startswith(_BREAK)
        else finding
        for finding in findings
    ]


def by_effect(finding: Finding) -> tuple[int, int, int, int]:
    """Sort key: severity, then how much code runs eagerly, then how many graphs and how often."""
    effects = finding.effects
    eager_count = len(effects.eager_frames)
    return (SEVERITIES.index(finding.severity), -eager_count, -len(effects.graphs), -finding.count)


def with_causes(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; a break is as severe as what it causes, and the frame skipped for a consequence
    is one too.
    """
    breaks = [one for one in findings if one.is_consequence and one.code.startswith(_BREAK)]
    caused = {id_: one.severity for one in breaks for id_ in one.compile_ids}
    sites = {one.site for one in breaks}
    found = []
    for finding in findings:
        worse = [
            caused[id_]
            for id_ in finding.compile_ids
            if id_ in caused and finding.code.startswith(_BREAK)
        ]
        severity = min([finding.severity, *worse], key=SEVERITIES.index)
        is_consequence = finding.is_consequence or finding.site in sites
        found.append(finding.replace(severity=severity, is_consequence=is_consequence))
    return found


def by_cost(finding: Finding) -> tuple[object, ...]:
    """Sort key: rank, then measured time. A stable sort keeps the order of findings that cost the
    same.
    """
    cost = finding.cost or Cost()
    return *finding.rank, -(cost.call_us or 0.0), -(cost.compile_s or 0.0)
