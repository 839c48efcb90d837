"""Fingerprints: how a finding is recognized after lines have moved.

A fingerprint is made of the rule's code, the file, the function, the line's text, and torch's id or the changed value.
It never depends on a message, so rewording one leaves baselines as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.stack import StackEntry, relative


def fingerprint(code: str, entry: StackEntry, root: Path, subject: str) -> str:
    """The fingerprint of a finding, 16 hexadecimal digits.

    A package's file is named from the package on, so that another environment gives the same value.

    Args:
        code: The rule's code.
        entry: The finding's line.
        root: Paths below it are taken relative to it.
        subject: torch's id of the cause, or the value that changed.
    """
    file = relative(entry.file, root)
    if entry.package and f"/{entry.package}/" in file:
        file = entry.package + file.rpartition(f"/{entry.package}/")[2]
    return _digest(code, Path(file).as_posix(), entry.qualname or entry.function, bare_text(entry.text), subject)


def bare_text(text: str | None) -> str:
    """A line without its comment and its spacing, as a fingerprint sees it."""
    return re.sub(r"\s+", " ", re.sub(r"\s+#.*$", "", text or "")).strip()


def with_distinct_fingerprints(findings: Sequence[Finding]) -> list[Finding]:
    """The findings in the same order, with equal fingerprints made distinct.

    Two equal lines in one function are two findings: the second one's fingerprint also depends on its position.
    """
    seen: dict[str, int] = {}
    renamed: dict[int, str] = {}
    for index, finding in sorted(enumerate(findings), key=lambda item: item[1].location.line):
        number = seen.get(finding.fingerprint, 0)
        seen[finding.fingerprint] = number + 1
        if number:
            renamed[index] = _digest(finding.fingerprint, str(number))
    return [
        finding.model_copy(update={"fingerprint": renamed[index]}) if index in renamed else finding
        for index, finding in enumerate(findings)
    ]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
