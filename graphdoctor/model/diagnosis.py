"""The opinions: what the facts of a recording mean. ``Diagnosis`` is the JSON document.

Only additive changes keep ``SCHEMA_VERSION``'s major number; ``graphdoctor schema`` prints the JSON Schema.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graphdoctor.model.base import Fact
from graphdoctor.model.fixes import Treatment, Verdict
from graphdoctor.model.guards import Guards
from graphdoctor.model.recompiles import GuardChange
from graphdoctor.model.recording import (
    BreakEffect,
    BreakReason,
    Call,
    CaptureGap,
    Compile,
    CompileCall,
    Coverage,
    Environment,
    Frame,
    Graph,
    TargetInfo,
)
from graphdoctor.model.run import ProbeExit, Setting
from graphdoctor.model.stack import Origin, StackEntry
from graphdoctor.model.trials import WhatIf
from graphdoctor.model.variations import Variation

SCHEMA_VERSION = "1.0"

Severity = Literal["error", "warning", "info"]
"""``error``: code runs eagerly or fails; ``warning``: code is split or compiled again; ``info``: worth knowing."""


class Location(Fact):
    """Where a finding is."""

    file: str
    """Path; relative to the working directory where it lies below it."""
    line: int
    """1-based."""
    column: int | None = None
    """1-based start of the expression, where Python knows it."""
    end_column: int | None = None
    """1-based, exclusive."""
    function: str
    """Qualified name where the source could be read, else the function's name."""
    package: str | None = None
    """Owning package, or None for the user's own code."""
    origin: Origin = "user"
    """Who owns the file."""
    text: str | None = None
    """The source line, with its indentation removed."""
    indent: int | None = None
    """How many characters of indentation ``text`` lost."""
    note: str | None = None
    """For a related location: what it is."""

    @property
    def shown_file(self) -> str:
        """The path as people read it: a package's file from the package on."""
        if self.package is not None:
            _, found, rest = self.file.replace("\\", "/").rpartition(f"/{self.package}/")
            if found:
                return f"{self.package}/{rest}"
        return self.file


class Fix(Fact):
    """A suggestion."""

    title: str
    """One imperative sentence fitted to the line."""
    kind: Literal["code", "config", "call"]
    """An edit of source, of a torch config value, or of how the target is compiled and called."""
    snippet: str | None = None
    """Code or configuration to write."""
    is_safe: bool = False
    """Keeps results as they are for every input, by the rule's documentation."""
    verdict: Verdict = "not tried"
    """What a trial showed."""
    reason: str | None = None
    """Why, in a clause; for a fix that was not tried why not, where that is known."""
    setting: Setting | None = None
    """The torch setting that ``snippet`` writes, as data; None where it is something else."""
    diff: str | None = None
    """The edit as a unified diff; None where there is none to try."""
    source: str | None = None
    """Where the remedy is recommended."""


class Effects(Fact):
    """What one break site, or one recompiled function, caused."""

    graphs: tuple[str, ...] = ()
    """Compile ids of the graphs that end at the site or start behind it."""
    resume_functions: tuple[str, ...] = ()
    """Compile ids of the resume functions that exist because of it."""
    skipped_frames: tuple[str, ...] = ()
    """Functions that run eagerly as a whole because of it."""
    rest_eager_frames: tuple[str, ...] = ()
    """Functions of which everything behind the site runs eagerly."""


class Cost(Fact):
    """What a finding costs, measured."""

    call_us: float | None = None
    """Microseconds of a steady call; below 0 where the call is slower without the finding. None when not known."""
    call_from: Literal["fix", "gap"] | None = None
    """``fix``: the call with a verified fix against the call without, in turns; ``gap``: from the end of the graph that
    the break ends to the start of the next in a steady call, or the whole call where it runs no graph."""
    share: float | None = None
    """``call_us`` over the steady call's time."""
    compile_s: float | None = None
    """Seconds of the compiles that a recompile cause made, as torch measured them."""


class Finding(Fact):
    """One thing worth a person's attention."""

    code: str
    """Rule code, such as ``GD101``."""
    rule: str
    """The rule's name, such as ``print-or-log``."""
    severity: Severity
    """How bad it is."""
    message: str
    """One sentence."""
    location: Location
    """The primary location."""
    related: tuple[Location, ...] = ()
    """Other places that belong to it."""
    count: int
    """How often it happened: records of torch for a break, compiles for a recompile; 0 where source told it."""
    changes: tuple[GuardChange, ...] = ()
    """All values that changed, for a finding about recompiles: the first change of each; empty for other findings."""
    hidden_change_count: int = 0
    """How many more values changed in one recompile than were recorded."""
    torch_id: str | None = None
    """The cause's registry id, where torch gives one."""
    torch_reason: str | None = None
    """The cause in torch's words."""
    hints: tuple[str, ...] = ()
    """torch's hints for the cause."""
    reasons: tuple[BreakReason, ...] = ()
    """The whole chain of torch's messages, cause first."""
    break_effects: tuple[BreakEffect, ...] = ()
    """What torch did at the break, each kind once."""
    effects: Effects = Effects()
    """What it caused."""
    compile_ids: tuple[str, ...] = ()
    """The evidence: compiles in which it happened."""
    user_stack: tuple[StackEntry, ...] = ()
    """The longest call path to it, outermost first."""
    fixes: tuple[Fix, ...] = ()
    """Suggestions, best first."""
    cost: Cost | None = None
    """What it costs; None where nothing measured tells."""
    fingerprint: str
    """Survives lines moving; 16 hexadecimal digits."""
    is_mended: bool = False
    """It is gone once all verified fixes are applied, those of other findings included."""


FrameState = Literal["compiled", "partly_eager", "skipped", "empty", "over_limit", "failed", "unfinished"]
"""``partly_eager``: compiled up to a break, the rest of the function runs eagerly."""


class FrameReport(Frame):
    """A frame and what became of it."""

    state: FrameState
    """What became of it."""
    compile_ids: tuple[str, ...]
    """Its compiles."""
    call_path: tuple[StackEntry, ...] = ()
    """How the first compile was reached, outermost first."""


class GraphReport(Graph):
    """A graph and why it ends where it does."""

    function: str
    """The function it was captured from, as people call it."""
    resumes_at: int | None = None
    """For the graph of a resume function: the line after whose break it goes on."""
    ended_by: str
    """``return``, or the break site as ``file:line (GB0059)``."""
    ended_by_fingerprint: str | None = None
    """Fingerprint of the finding that ended it."""


class RecompileReport(Fact):
    """The compiles that one change caused in one call."""

    compile_ids: tuple[str, ...]
    """Every compile that the change caused: the function's own first, then those that followed from it."""
    function: str
    """The function that was compiled again first."""
    cause: tuple[GuardChange, ...]
    """The guarded values that differ from the nearest cache entry."""
    hidden_change_count: int = 0
    """Differing values beyond those listed."""
    followed_in: tuple[str, ...] = ()
    """Functions and resume functions that were compiled again only because of the same change."""
    call_index: int | None = None
    """The user's call; None where calls have no number."""
    call_site: Location | None = None
    """The user's line that made the call; None where it lies in no file of the user's."""
    loop_values: dict[str, str] = Field(default_factory=dict)
    """Numbers that count the loops around that line."""
    nearest: str | None = None
    """Compile id of the cache entry that the values are compared with."""
    cost_s: float | None = None
    """Seconds of all its compiles, as torch measured them."""
    backend_s: float | None = None
    """Seconds of these in the backend; the rest is Dynamo's."""
    is_over_limit: bool = False
    """Nothing was compiled: the function was over its recompile limit and ran eagerly."""
    is_exact: bool = True
    """False when the cause was read from torch's text: then only the first failed guard is known."""
    fingerprint: str | None = None
    """Fingerprint of the finding that sums it up."""


class Summary(Fact):
    """The counts. Each is derivable from the recording; None where the recording cannot tell."""

    calls: int
    """Calls of the target that were started."""
    calls_failed: int
    """Of these, those that raised or never ended."""
    compiles: int
    """Compiles that got guarded code; those dropped for having no operation are not counted."""
    graphs: int
    """Graphs handed to the backend."""
    break_sites: int
    """Distinct lines (file and line) that graph-break records point to."""
    break_records: int
    """torch's own graph-break records."""
    skipped_frames: int
    """Distinct frames that torch gave up."""
    recompiles: int
    """Compiles of code that had a cache entry already and got guarded code."""
    recompile_causes: int
    """Distinct sets of changed values behind the recompiles, however often each struck."""
    frames_over_limit: int
    """Distinct frames that hit the recompile limit."""
    coverage: float | None
    """Share, 0 to 1, of the tensor operations of a steady call that ran in a compiled graph."""
    coverage_detail: Coverage | None = None
    """The counts behind coverage."""
    compile_time_s: float | None = None
    """Seconds spent compiling during the user's calls, as torch measured it."""
    steady_call_us: float | None = None
    """Microseconds of a steady call, the median of at most 15; None when not measured."""
    hidden_findings: int = 0
    """Findings left out by ``--own-code``, ``--select`` or ``--ignore``."""


class Diagnosis(Fact):
    """The JSON document."""

    schema_version: str = SCHEMA_VERSION
    """Version of this document's shape."""
    graphdoctor_version: str
    """The program that wrote it."""
    is_partial: bool
    """Calls are missing: the run ended early."""
    environment: Environment
    """Where the target ran."""
    target: TargetInfo
    """What was compiled."""
    exit: ProbeExit
    """How the run ended."""
    summary: Summary
    """The counts."""
    findings: tuple[Finding, ...]
    """Worst first."""
    calls: tuple[Call, ...]
    """The user's calls."""
    compile_calls: tuple[CompileCall, ...] = ()
    """Where a script called torch.compile, in order; files as in locations."""
    frames: tuple[FrameReport, ...]
    """In the order of their first compile."""
    compiles: tuple[Compile, ...]
    """In order."""
    graphs: tuple[GraphReport, ...]
    """In order."""
    recompiles: tuple[RecompileReport, ...] = ()
    """In order, those that follow from one change in one call taken together."""
    what_if: WhatIf | None = None
    """What the same calls do under each remedy; None when not tried."""
    guards: Guards | None = None
    """What each compile's guards check and cost; None when they were not asked for."""
    sensitivity: tuple[Variation, ...] | None = None
    """What changing one property of the first call at a time does, arguments first; None when that was not asked for,
    or the first call could not be repeated."""
    treatment: Treatment | None = None
    """Fixes that were tried, and what the verified ones do together; None when none were."""
    gaps: tuple[CaptureGap, ...]
    """What the numbers lack."""
