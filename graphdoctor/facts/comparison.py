"""Two diagnoses side by side: what is new, gone or the same, and how the two runs differ.

``DiagnosisComparison`` is the JSON document of ``graphdoctor diff``. It has the ``SCHEMA_VERSION``
of a diagnosis.
"""

from __future__ import annotations

from typing import Literal

from .base import SCHEMA_VERSION, Fact
from .counts import Counts
from .diagnosis import Finding
from .recording import Environment, TargetInfo


class Side(Fact):
    """Where one of the two diagnoses comes from."""

    name: str | None = None
    """What the user named it, such as a path; None if it has no name."""
    graphdoctor_version: str
    environment: Environment
    target: TargetInfo
    is_partial: bool
    """Whether calls are missing because the run or its log ended early."""
    summary: Counts
    has_calls: bool
    """Whether the user's calls are counted; False for a script and for a log that graphdoctor
    didn't record."""
    hidden_findings: int = 0
    """How many findings the selection of this comparison left out."""


Aspect = Literal[
    "recording",
    "partial",
    "target",
    "compile arguments",
    "config",
    "call options",
    "calls",
    "torch",
    "python",
    "graphdoctor",
    "machine",
    "selection",
    "guards",
    "files",
    "gap",
]
"""``recording``: a log that graphdoctor didn't record; ``selection``: findings left out when a
document was written; ``guards``: guards were only read on one side; ``files``: the findings are in
different files; ``gap``: only one side lacks something."""


class Mismatch(Fact):
    """One way in which the two runs differ, which can explain other differences."""

    aspect: Aspect
    before: str | None = None
    """The value before; None if there is none."""
    after: str | None = None
    message: str
    """One or two sentences: the difference and what it means for the comparison."""


Change = Literal["line", "severity", "count"]

Match = Literal["fingerprint", "place"]
"""How two findings were matched. ``place``: by rule, file, function without its class, line text
and torch's id, because one side is a log without classes."""


class SameFinding(Fact):
    """A finding that both sides have."""

    before: Finding
    after: Finding
    changes: tuple[Change, ...] = ()
    """What differs: the line, the severity, the count."""
    matched_by: Match = "fingerprint"


class DiagnosisComparison(Fact):
    """The JSON document of ``graphdoctor diff``."""

    schema_version: str = SCHEMA_VERSION
    before: Side
    after: Side
    """The second."""
    mismatches: tuple[Mismatch, ...]
    """Ways in which the two runs differ; empty if none is known."""
    new: tuple[Finding, ...]
    """Findings that only the second has, worst first."""
    gone: tuple[Finding, ...]
    """Findings that only the first has, worst first; empty if the second run is partial."""
    same: tuple[SameFinding, ...]
    """Findings that both have, worst first."""
    unseen: tuple[Finding, ...] = ()
    """Findings of the first that a partial second run doesn't have, which may only not have got
    there."""
