"""Opinions: what the facts of a recording mean. ``Diagnosis`` is the JSON document.

``SCHEMA_VERSION`` keeps its major number as long as changes only add keys. ``graphdoctor schema`` prints the schema.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from .base import Fact
from .coverage import Coverage
from .ddp import DdpSplit
from .evidence import LogEvidence
from .fixes import SnippetPlace, Treatment, Verdict
from .guards import Guards
from .kernels import CudaGraphSkip
from .recompiles import GuardChange
from .recording import (
    BreakEffect,
    BreakReason,
    Call,
    CaptureGap,
    Compile,
    CompileCall,
    CompileSwitch,
    Environment,
    Frame,
    Graph,
    TargetInfo,
)
from .run import ProbeExit, Setting
from .shared import CompileId, Described, File, Fingerprint, Place, RuleCode, TorchId, Version
from .stack import Origin, StackEntry
from .stages import GraphStages
from .trials import WhatIf
from .variations import Variation
from .watch import CallWatch

SCHEMA_VERSION = "1.0"

Severity = Literal["error", "warning", "info"]
"""``error``: code runs eagerly or fails; ``warning``: code is split or recompiles; ``info``: worth knowing."""


class Location(Fact):
    """Where a finding is."""

    file: File
    """Path, relative to the working directory if it is below it."""
    line: int
    """1-based."""
    column: int | None = None
    """1-based column where the expression starts; None if unknown."""
    end_column: int | None = None
    """1-based column after the end of the expression; None if unknown."""
    function: str
    """Qualified name of the function, or only its name if the source couldn't be read."""
    package: str | None = None
    """Package that owns the file; None for the user's own code."""
    origin: Origin = "user"
    """Who owns the file."""
    text: str | None = None
    """The source line, without its indentation."""
    indent: int | None = None
    """Width of the indentation that was removed from ``text``."""
    note: str | None = None
    """What the location has to do with the finding, for a related one."""

    @property
    def shown_file(self) -> str:
        """The path to show: for a file of a package, from the package on."""
        if self.package is not None:
            _, found, rest = self.file.replace("\\", "/").rpartition(f"/{self.package}/")
            if found:
                return f"{self.package}/{rest}"
        return self.file


class Fix(Fact):
    """A suggestion."""

    title: str
    """One imperative sentence about this line."""
    kind: Literal["code", "config", "call"]
    """What it changes: the source, a torch setting, or how the target is compiled and called."""
    snippet: str | None = None
    """Python to write: it parses, and every name in it can be read at ``place``. None if words have to do."""
    place: SnippetPlace | None = None
    """Where ``snippet`` goes; None without one."""
    is_safe: bool = False
    """Whether results stay the same for every input, according to the rule's page."""
    verdict: Verdict = "not tried"
    """What a trial showed."""
    reason: str | None = None
    """Why, or why it was not tried; a clause."""
    setting: Setting | None = None
    """The torch setting that ``snippet`` applies; None if it is anything else."""
    diff: str | None = None
    """The edit as a unified diff; None if there is none."""
    source: str | None = None
    """Where the fix is recommended."""


class Effects(Fact):
    """What one break site, or one recompiled function, caused."""

    graphs: tuple[CompileId, ...] = ()
    """Compile ids of the graphs that end at the site or start after it."""
    resume_functions: tuple[CompileId, ...] = ()
    """Compile ids of the resume functions that exist because of it."""
    skipped_frames: tuple[Described, ...] = ()
    """Functions that torch skipped because of it, so that they run eagerly."""
    rest_eager_frames: tuple[Described, ...] = ()
    """Functions that run eagerly after the site."""


class Cost(Fact):
    """What a finding costs, measured."""

    call_us: float | None = None
    """Microseconds of a steady call; below 0 if the call is slower without the finding. None if unknown."""
    call_from: Literal["fix", "gap", "host_gap", "profile"] | None = None
    """How it was measured. ``fix``: the call without a verified fix minus the call with it, timed in turns; ``gap``:
    from the end of the graph that the break ends to the start of the next one, or the whole call if it runs no
    graph; ``host_gap``: the same in a run on an accelerator such as CUDA, where it is the host's time alone: neither
    the device's time nor what is lost because operations aren't fused is in it. Only a verified fix measures these;
    ``profile``: by torch.profiler, in a process of its own."""
    share: float | None = None
    """``call_us`` divided by the time of the steady call."""
    compile_s: float | None = None
    """Seconds of the recompiles that it caused, as torch measured them."""


class Finding(Fact):
    """One problem, or one thing worth knowing."""

    code: RuleCode
    """Rule code, such as ``GD101``."""
    rule: str
    """The rule's name, such as ``print-or-log``."""
    severity: Severity
    """How bad it is."""
    message: str
    """One sentence."""
    location: Location
    """The line that it is about."""
    related: tuple[Location, ...] = ()
    """Other lines that belong to it."""
    count: int
    """How often it happened: graph-break records for a break, compiles for a recompile; 0 for a finding of lint."""
    changes: tuple[GuardChange, ...] = ()
    """All values that changed, for a finding about recompiles: the first change of each; empty for other findings."""
    hidden_change_count: int = 0
    """How many more values changed in one recompile than were recorded."""
    torch_id: TorchId | None = None
    """torch's registry id of the cause; None if it has none."""
    torch_reason: str | None = None
    """The cause in torch's words."""
    hints: tuple[str, ...] = ()
    """torch's hints on the cause."""
    reasons: tuple[BreakReason, ...] = ()
    """torch's chained messages, cause first."""
    break_effects: tuple[BreakEffect, ...] = ()
    """What torch did at the break, each kind once."""
    effects: Effects = Effects()
    """What it caused."""
    cuda_graph_skip: CudaGraphSkip | None = None
    """What torch didn't record as a CUDA graph, for a finding about that."""
    ddp_split: DdpSplit | None = None
    """The parts of the graph, for a finding about one that torch splits at DDP's buckets."""
    compile_ids: tuple[CompileId, ...] = ()
    """The compiles in which it happened."""
    user_stack: tuple[StackEntry, ...] = ()
    """The longest call path to it, outermost first."""
    fixes: tuple[Fix, ...] = ()
    """Suggestions, best first."""
    cost: Cost | None = None
    """What it costs; None if not measured."""
    fingerprint: Fingerprint
    """Identifies the finding even if its line moves; 16 hexadecimal digits."""
    is_mended: bool = False
    """Whether it is gone with all verified fixes applied, including those of other findings."""


FrameState = Literal["compiled", "partly_eager", "skipped", "empty", "over_limit", "failed", "unfinished"]
"""``partly_eager``: compiled up to a graph break; the rest of the function runs eagerly."""


class FrameReport(Frame):
    """A frame and its state."""

    state: FrameState
    """How it ended up."""
    compile_ids: tuple[CompileId, ...]
    """Its compiles."""
    call_path: tuple[StackEntry, ...] = ()
    """The call path of the first compile, outermost first."""


class GraphReport(Graph):
    """A graph and what ended it."""

    function: Described
    """The function it was captured from, by the name to show for it."""
    resumes_at: int | None = None
    """For the graph of a resume function, the line that it continues from."""
    ended_by: Place
    """``return``, or the break site as ``file:line (GB0059)``."""
    ended_by_fingerprint: Fingerprint | None = None
    """Fingerprint of the finding about that break; None if it ends with a return."""


class RecompileReport(Fact):
    """The recompiles that one change caused in one call."""

    compile_ids: tuple[CompileId, ...]
    """All compiles that the change caused: first that of the function, then those that followed."""
    function: Described
    """The function that recompiled first."""
    cause: tuple[GuardChange, ...]
    """The guarded values that differ from the nearest cache entry."""
    hidden_change_count: int = 0
    """How many more values differ than are listed."""
    followed_in: tuple[Described, ...] = ()
    """Functions and resume functions that recompiled only because of the same change."""
    call_index: int | None = None
    """Number of the call; None if calls have no numbers."""
    call_site: Location | None = None
    """The line that made the call; None if it isn't in user or package code."""
    loop_values: dict[str, str] = field(default_factory=dict)
    """Loop counters around that line and their values."""
    also_changed: tuple[GuardChange, ...] = ()
    """Values that changed since the function's last call too, but to what the nearest entry was compiled for."""
    nearest: CompileId | None = None
    """Compile id of the cache entry that was compared; None if unknown."""
    cost_s: float | None = None
    """Seconds of all its compiles, as torch measured them."""
    backend_s: float | None = None
    """Seconds of these in the backend; the rest is spent in Dynamo."""
    is_over_limit: bool = False
    """Whether nothing compiled, because the function was over its recompile limit and ran eagerly."""
    is_exact: bool = True
    """False if the cause was read from torch's log: then only the first failed guard is known."""
    fingerprint: Fingerprint | None = None
    """Fingerprint of the finding about it."""


SteadyState = Literal["settled", "compiling", "over_limit", "never"]
"""``settled``: the last call compiled nothing, at least when it was repeated. ``compiling``: the last of several calls
still compiled something, though not when it was repeated. ``over_limit``: the calls took a function over its recompile
limit. ``never``: the last call compiles something each time it is repeated with the same arguments."""


class Steadiness(Fact):
    """Whether the program stops compiling."""

    state: SteadyState | None
    """None if unknown: there was one call, and it wasn't repeated; or a script ended before it showed."""
    compiles_per_call: tuple[int, ...]
    """Compiles that got guarded code in each of the user's calls; empty for a script, whose calls have no numbers."""
    compiles_repeated: tuple[int, ...] | None = None
    """Compiles that began each time the last call was repeated; None if it wasn't."""
    function: str | None = None
    """For ``over_limit`` and ``never``, and for a script's ``compiling``: the function that shows it."""
    compiling_calls: int | None = None
    """For a script's ``compiling``: in how many calls of that function in a row, up to its last, torch compiled."""
    changing: tuple[str, ...] = ()
    """The guarded values that differed in every recompile of that function, for ``never`` in every repetition, in the
    user's words."""
    compiles_to_limit: int | None = None
    """How often torch compiled that function until it hit the limit; None if it didn't."""
    limit_call: int | None = None
    """The call in which it hit the limit; None if it didn't, or only when the last call was repeated."""


class Summary(Fact):
    """The counts, derived from the recording; None if unknown."""

    calls: int
    """Calls of the target that were started."""
    calls_failed: int
    """Of these, the ones that raised an exception or didn't finish."""
    compiles: int
    """Compiles that got guarded code, without those dropped because they have no operations."""
    graphs: int
    """Graphs handed to the backend."""
    break_sites: int
    """Distinct lines (file and line) that graph-break records point to."""
    break_records: int
    """torch's own graph-break records."""
    skipped_frames: int
    """Distinct frames that torch skipped."""
    recompiles: int
    """Compiles of a function that already had a cache entry, as torch counts them: also those that ended with a skipped
    function, and the last one, that the recompile limit prevented."""
    recompile_causes: int
    """Distinct functions with distinct sets of changed values among the recompiles."""
    frames_over_limit: int
    """Distinct frames that hit the recompile limit."""
    coverage: float | None
    """Share, 0 to 1, of the tensor operations of a steady call that ran in compiled graphs; for a script of one steady
    call of each compiled function, added up."""
    coverage_detail: Coverage | None = None
    """The counts that coverage is computed from."""
    compile_time_s: float | None = None
    """Seconds spent compiling during the user's calls, as torch measured it."""
    steady_call_us: float | None = None
    """Microseconds of a steady call, the median of up to 15; for a script one call of each compiled function, added up.
    None if not measured."""
    graphs_per_call: int | None = None
    """How often a graph ran in a steady call; None if not measured, and a script with several functions."""
    steadiness: Steadiness | None = None
    """Whether the program stops compiling; None for a block, and for a script whose calls weren't watched."""
    hidden_findings: int = 0
    """Findings left out by ``--own-code``, ``--select`` or ``--ignore``."""


class Diagnosis(Fact):
    """The JSON document."""

    schema_version: Version = SCHEMA_VERSION
    """Version of this document's shape."""
    graphdoctor_version: Version
    """The version of graphdoctor that wrote it."""
    is_partial: bool
    """Whether calls are missing because the run or its log ended early."""
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
    """Where a script called torch.compile, in order, with files as in locations."""
    watch: CallWatch | None = None
    """The calls of a script that were watched as they happened; None for other targets."""
    switches: tuple[CompileSwitch, ...] = ()
    """What could keep torch.compile from compiling, in the order in which it was found."""
    frames: tuple[FrameReport, ...]
    """In the order of their first compile."""
    compiles: tuple[Compile, ...]
    """In order."""
    graphs: tuple[GraphReport, ...]
    """In order."""
    ddp_splits: tuple[DdpSplit, ...] = ()
    """Graphs that torch split at the buckets of DistributedDataParallel, in order."""
    recompiles: tuple[RecompileReport, ...] = ()
    """In order, those that follow from one change in one call taken together."""
    what_if: WhatIf | None = None
    """What the same calls do with each remedy; None if not tried."""
    guards: Guards | None = None
    """What the guards check and cost; None if not requested."""
    sensitivity: tuple[Variation, ...] | None = None
    """What changing one property of the first call at a time does, arguments first; None if not requested, or if the
    first call can't be repeated."""
    treatment: Treatment | None = None
    """Fixes that were tried, and what the verified ones do together; None if there were none."""
    stages: tuple[GraphStages, ...] | None = None
    """Each graph from Dynamo to the generated code; None if not requested."""
    evidence: LogEvidence = field(default_factory=LogEvidence)
    """What else torch's trace log has."""
    gaps: tuple[CaptureGap, ...]
    """What the numbers lack."""
