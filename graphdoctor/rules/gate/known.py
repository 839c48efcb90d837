"""Which findings a baseline knows when no target was run: neither the target nor the torch release is certain then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.rules.diagnosis.fingerprints import bare_text
from graphdoctor.rules.gate.baseline import Baseline

_Place = tuple[str, str, str, str]


def known_in(baseline: Baseline, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that some target of a baseline has.

    A finding is known by its fingerprint. A break is also known by its file, function and line, because another release
    of torch may call its cause something else; as many breaks at equal lines as the baseline has.

    Args:
        baseline: The known findings.
        findings: Findings whose files are relative to the project's folder.
    """
    fingerprints: set[str] = set()
    left: Counter[_Place] = Counter()
    for entries in baseline.all_entries():
        fingerprints |= {entry.fingerprint for entry in entries}
        left |= Counter(_place(entry.code, entry.file, entry.function, entry.text) for entry in entries)
    known: list[Finding] = []
    for finding in sorted(findings, key=lambda one: one.fingerprint not in fingerprints):
        location = finding.location
        place = _place(finding.code, location.shown_file.replace("\\", "/"), location.function, location.text)
        if finding.fingerprint in fingerprints or left[place] > 0:
            known.append(finding)
            left[place] -= 1
    return tuple(known)


def _place(code: str, file: str, function: str, text: str | None) -> _Place:
    return code[:3] if code.startswith("GD1") else code, file, function, bare_text(text)
