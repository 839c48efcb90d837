"""Two diagnoses side by side: what is new, gone or the same, and where the two were made differently.

``DiagnosisComparison`` is the JSON document of ``graphdoctor diff``; it has the diagnosis' ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from typing import Literal

from graphdoctor.model.base import Fact
from graphdoctor.model.diagnosis import SCHEMA_VERSION, Finding
from graphdoctor.model.recording import Environment, TargetInfo


class Side(Fact):
    """Where one of the two diagnoses comes from."""

    name: str | None = None
    """What it was called when the comparison was asked for, such as a path; None where nobody named it."""
    graphdoctor_version: str
    """The program that made the diagnosis."""
    environment: Environment
    """Where the target ran."""
    target: TargetInfo
    """What was compiled."""
    is_partial: bool
    """Calls are missing: the run ended early."""
    hidden_findings: int = 0
    """Findings that the selection of this comparison left out."""


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
"""``recording``: a log that graphdoctor did not record; ``selection``: findings left out when a document was written;
``guards``: findings on guards are sought on one side only; ``files``: no finding of one side is in a file of the
other; ``gap``: something that is known on one side only."""


class Mismatch(Fact):
    """One way in which the two were not made alike, so that a difference between them can come from it."""

    aspect: Aspect
    """What is not alike."""
    before: str | None = None
    """What it was before, in short; None where that is not known or there is nothing to say."""
    after: str | None = None
    """What it is after."""
    message: str
    """One or two sentences: the difference and what it means for the comparison."""


class CountPair(Fact):
    """A count of both sides."""

    before: int | None
    """None when not known."""
    after: int | None
    """None when not known."""


class SharePair(Fact):
    """A share of both sides."""

    before: float | None
    """0 to 1; None when not known."""
    after: float | None
    """0 to 1; None when not known."""


class TimePair(Fact):
    """A time of both sides, measured in different processes: a single measurement of each, not a verdict."""

    before: float | None
    """None when not known."""
    after: float | None
    """None when not known."""
    ratio: float | None
    """After over before; None when one of them is not known or before is 0."""


class Numbers(Fact):
    """The counts and times of both sides, each as in ``Summary``."""

    calls: CountPair
    """Calls of the target that were started; None for a script and for a log of others."""
    compiles: CountPair
    """Compiles that got guarded code."""
    graphs: CountPair
    """Graphs handed to the backend."""
    break_sites: CountPair
    """Distinct lines that graph-break records point to."""
    skipped_frames: CountPair
    """Distinct frames that torch gave up."""
    recompiles: CountPair
    """Compiles of code that had a cache entry already."""
    recompile_causes: CountPair
    """Distinct sets of changed values behind the recompiles."""
    frames_over_limit: CountPair
    """Distinct frames that hit the recompile limit."""
    coverage: SharePair
    """Share of the tensor operations of a steady call that ran in a compiled graph."""
    compile_time_s: TimePair
    """Seconds spent compiling."""
    steady_call_us: TimePair
    """Microseconds of a steady call."""


Change = Literal["line", "severity", "count"]

Match = Literal["fingerprint", "place"]
"""How two findings were recognised as one. ``place``: by rule, file, function without its class, line text and torch's
id, as one side is a log that has no classes."""


class SameFinding(Fact):
    """A finding that both sides have."""

    before: Finding
    """As it was."""
    after: Finding
    """As it is."""
    changes: tuple[Change, ...] = ()
    """What differs: the line that it moved to, how bad it is, how often it happened."""
    matched_by: Match = "fingerprint"
    """How it was recognised."""


class DiagnosisComparison(Fact):
    """The JSON document of ``graphdoctor diff``."""

    schema_version: str = SCHEMA_VERSION
    """Version of this document's shape; the same as a diagnosis'."""
    before: Side
    """The first diagnosis."""
    after: Side
    """The second."""
    mismatches: tuple[Mismatch, ...]
    """Ways in which the two were not made alike; empty when none is known."""
    numbers: Numbers
    """Counts and times of both."""
    new: tuple[Finding, ...]
    """Findings that only the second has, worst first."""
    gone: tuple[Finding, ...]
    """Findings that only the first has, worst first."""
    same: tuple[SameFinding, ...]
    """Findings that both have, worst first."""
