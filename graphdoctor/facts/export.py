"""The facts of an export: what ``torch.export`` made of a target, or why it made nothing."""

from __future__ import annotations

from typing import Literal

from .base import Document, Fact
from .bench import Correctness
from .diagnosis import Finding
from .recording import CaptureGap, Environment, ExportInput, TargetInfo
from .trials import ResultKind

WayStatus = Literal["exported", "different", "unknown", "blocked", "failed"]
"""``exported``: the exported program computes what eager mode does; ``different``: it computes
something else; ``unknown``: torch made a program, and whether it is right isn't known; ``blocked``:
torch.export raised; ``failed``: the process ended before it was done."""

Best = Literal["strict", "non-strict"]


class ExportBlocker(Fact):
    """Cause of an exception of torch.export."""

    finding: Finding
    """Place, problem and possible fixes."""
    type: str
    message: str
    """torch's own words."""


class ExportWay(Fact):
    """One way to export: strict or not."""

    is_strict: bool
    """``strict`` of torch.export: whether Dynamo reads the program's bytecode, or Python runs
    it."""
    status: WayStatus
    reason: str | None = None
    """Reason, as a clause; None if the status says it all."""
    line: str | None = None
    """Python that makes the program; it was run. None if the process ended before."""
    seconds: float | None = None
    op_count: int | None = None
    """Operations in the program's graph."""
    inputs: tuple[ExportInput, ...] = ()
    """The program's inputs, parameters and buffers among them, in order."""
    constraints: tuple[str, ...] = ()
    """Conditions on sizes that the program checks, in Python."""
    correctness: Correctness | None = None
    """Comparison of its results with eager mode's; None if they weren't compared."""
    lost: tuple[str, ...] = ()
    """Attributes of modules that the calls change in eager mode, and that the program leaves as
    they are."""
    unwritten: tuple[ResultKind, ...] = ()
    """Output of eager mode that the program lacks: ``stdout``, or ``logs``, which are warnings
    too."""
    blockers: tuple[ExportBlocker, ...] = ()
    """The first problem, at which torch stopped; empty where it names no line."""


class ExportReport(Document):
    """Result of ``graphdoctor export``."""

    environment: Environment
    target: TargetInfo
    """Exported target, and its calls."""
    text: str
    best: Best | None
    """The way to take; None if there is none."""
    is_wrapped: bool = False
    """True if the target is no module, so that it was wrapped in one."""
    ways: tuple[ExportWay, ...]
    """Non-strict, which is torch's default, and strict."""
    calls_made: int
    """Calls that were compared: those with the sizes of the first."""
    calls_other: tuple[int, ...] = ()
    """Numbers of the calls with other sizes, numbers, strings or structures, which weren't made."""
    breaks: tuple[Finding, ...] = ()
    """Places where torch.compile breaks the graph of the same calls: strict export may stop there
    next. Empty if strict export made a program."""
    gaps: tuple[CaptureGap, ...] = ()
    """Facts that couldn't be determined."""
