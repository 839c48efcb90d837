"""Two diagnoses side by side: what is new, gone or the same, and how the two runs differ.

``DiagnosisComparison`` is the JSON document of ``graphdoctor diff``. It has the ``SCHEMA_VERSION`` of a diagnosis.
"""

from __future__ import annotations

from typing import Literal

from .base import Fact
from .diagnosis import SCHEMA_VERSION, Finding
from .recording import Environment, TargetInfo


class Side(Fact):
    """Where one of the two diagnoses comes from."""

    name: str | None = None
    """What the user named it, such as a path; None if it has no name."""
    graphdoctor_version: str
    """The program that made the diagnosis."""
    environment: Environment
    """Where the target ran."""
    target: TargetInfo
    """What was compiled."""
    is_partial: bool
    """Whether calls are missing because the run or its log ended early."""
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
"""``recording``: a log that graphdoctor didn't record; ``selection``: findings left out when a document was written;
``guards``: guards were only read on one side; ``files``: the findings are in different files; ``gap``: only one side
lacks something."""


class Mismatch(Fact):
    """One way in which the two runs differ, which can explain other differences."""

    aspect: Aspect
    """What differs."""
    before: str | None = None
    """The value before; None if there is none."""
    after: str | None = None
    """The value after."""
    message: str
    """One or two sentences: the difference and what it means for the comparison."""


class CountPair(Fact):
    """A count of both sides."""

    before: int | None
    """None if unknown."""
    after: int | None
    """None if unknown."""


class SharePair(Fact):
    """A share of both sides."""

    before: float | None
    """0 to 1; None if unknown."""
    after: float | None
    """0 to 1; None if unknown."""


class TimePair(Fact):
    """A time of both sides, each measured once and in different processes, so the ratio is only a hint."""

    before: float | None
    """None if unknown."""
    after: float | None
    """None if unknown."""
    ratio: float | None
    """After divided by before; None if one of them is unknown or before is 0."""


class Numbers(Fact):
    """The counts and times of both sides, each as in ``Summary``."""

    calls: CountPair
    """Calls of the target that were started; None for a script and for a log that graphdoctor didn't record."""
    compiles: CountPair
    """Compiles that got guarded code."""
    graphs: CountPair
    """Graphs handed to the backend."""
    break_sites: CountPair
    """Distinct lines that graph-break records point to."""
    skipped_frames: CountPair
    """Distinct frames that torch skipped."""
    recompiles: CountPair
    """Compiles of a function that already had a cache entry."""
    recompile_causes: CountPair
    """Distinct sets of changed values among the recompiles."""
    frames_over_limit: CountPair
    """Distinct frames that hit the recompile limit."""
    coverage: SharePair
    """Share of the tensor operations of a steady call that ran in compiled graphs."""
    compile_time_s: TimePair
    """Seconds spent compiling."""
    steady_call_us: TimePair
    """Microseconds of a steady call."""


Change = Literal["line", "severity", "count"]

Match = Literal["fingerprint", "place"]
"""How two findings were matched. ``place``: by rule, file, function without its class, line text and torch's id,
because one side is a log without classes."""


class SameFinding(Fact):
    """A finding that both sides have."""

    before: Finding
    """The finding before."""
    after: Finding
    """The finding after."""
    changes: tuple[Change, ...] = ()
    """What differs: the line, the severity, the count."""
    matched_by: Match = "fingerprint"
    """How the two were matched."""


class DiagnosisComparison(Fact):
    """The JSON document of ``graphdoctor diff``."""

    schema_version: str = SCHEMA_VERSION
    """Version of this document's shape; the same as a diagnosis's."""
    before: Side
    """The first diagnosis."""
    after: Side
    """The second."""
    mismatches: tuple[Mismatch, ...]
    """Ways in which the two runs differ; empty if none is known."""
    numbers: Numbers
    """The counts and times of both."""
    new: tuple[Finding, ...]
    """Findings that only the second has, worst first."""
    gone: tuple[Finding, ...]
    """Findings that only the first has, worst first."""
    same: tuple[SameFinding, ...]
    """Findings that both have, worst first."""
