"""The facts of one recorded run: what torch said, what the calls did, what could not be told.

Nothing here is an opinion; opinions are in ``diagnosis``. ``None`` always means "not known", and each unknown
that matters has a ``CaptureGap``. Lines and columns: lines are 1-based; columns are 1-based and count
characters, ``end_column`` is exclusive.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graphdoctor.model.base import Fact
from graphdoctor.model.fixes import Treatment
from graphdoctor.model.guards import Guards
from graphdoctor.model.picture import Picture
from graphdoctor.model.recompiles import RecompileCause
from graphdoctor.model.run import ProbeExit
from graphdoctor.model.stack import Origin, StackEntry
from graphdoctor.model.trials import Replay, WhatIf
from graphdoctor.model.variations import Variation
from graphdoctor.probe.wire import GapKind


class CaptureGap(Fact):
    """Something that a complete recording would hold and this one does not."""

    code: str
    """A GD9xx rule code, such as ``GD900``."""
    kind: GapKind | None = None
    """What is missing, for whoever decides by it; None in a document of graphdoctor 0.1."""
    message: str
    """What is missing and what it means for the numbers, one or two sentences."""


class Environment(Fact):
    """The interpreter and the torch that the probe ran in."""

    python: str | None = None
    """Python's version, such as ``3.11.7``."""
    torch: str | None = None
    """torch's version with its build tag, such as ``2.13.0+cpu``."""
    torch_build: str | None = None
    """What torch was built for, such as ``CUDA 12.8`` or ``CPU``."""
    platform: str | None = None
    """Operating system and machine, such as ``Linux-6.1-x86_64``."""
    executable: str | None = None
    """Path of the interpreter."""
    device_name: str | None = None
    """Name of the first CUDA device, or None without one."""
    torch_root: str | None = None
    """The folder that torch's own files lie in."""
    stdlib_root: str | None = None
    """The folder of Python's standard library."""
    site_roots: tuple[str, ...] = ()
    """Folders that packages are installed into."""
    packages: dict[str, str] | None = None
    """Versions of installed packages that matter to torch.compile, by the name that they are installed under; packages
    that are not named were not there. None when not known."""


class TargetInfo(Fact):
    """What was compiled, and with which arguments."""

    text: str | None = None
    """The target as it was asked for, such as ``model.py:Net``."""
    name: str | None = None
    """The name that it resolved to in its module."""
    kind: Literal["module", "module class", "function", "factory", "script", "block"] | None = None
    """What the name turned out to be; ``script``: a whole program, run as it is; ``block``: a part of one, recorded
    in its own process."""
    class_name: str | None = None
    """Qualified name of the compiled object's class, or of the function."""
    file: str | None = None
    """Absolute path of the file that holds it."""
    parameters: tuple[str, ...] | None = None
    """Names of the parameters of what is called; None when Python cannot tell."""
    inputs_from: str | None = None
    """Where the calls came from: ``--input``, ``example_inputs()``, ``dummy_inputs``, …"""
    compile_arguments: dict[str, object] = Field(default_factory=dict)
    """What ``torch.compile`` was given: backend, mode, dynamic, fullgraph, options."""
    config: dict[str, object] = Field(default_factory=dict)
    """The values set with ``--config``."""
    call_options: dict[str, object] = Field(default_factory=dict)
    """How calls were made: calls, backward, train, no_grad, seed, device."""

    @property
    def runs_itself(self) -> bool:
        """The program makes its own calls, which have no numbers and are not repeated."""
        return self.kind in ("script", "block")


class CallError(Fact):
    """An exception that ended a call."""

    type: str
    """Qualified type name, such as ``torch._dynamo.exc.Unsupported``."""
    message: str
    """``str()`` of it, cut at 20,000 characters."""
    traceback: str
    """As Python prints it, without graphdoctor's own lines."""
    eager: str | None = None
    """What the same call did without torch.compile: ``ok``, or the type name it raised, or None when not tried."""
    eager_message: str | None = None
    """What that exception says."""
    from_compiler: bool = False
    """torch.compile itself raised it, by ``fullgraph`` or a backend: the program is not to blame."""


class CompileCall(Fact):
    """One call of ``torch.compile`` or ``Module.compile`` in a program that was run as it is."""

    file: str
    """The innermost line that is not torch's."""
    line: int
    """1-based."""
    function: str
    """Name of the code object that the line is in."""
    compiled: str
    """What was handed to torch.compile: a class's or a function's qualified name."""
    arguments: dict[str, str] = Field(default_factory=dict)
    """The arguments that differ from torch.compile's defaults, each value in short."""
    process: str | None = None
    """The process that made the call, such as ``p2``; None for the main one."""


class Call(Fact):
    """One call of the compiled target."""

    index: int
    """1-based, in the order of the calls."""
    inputs: str | None = None
    """The arguments in short, such as ``f32[8, 128], flag=True``."""
    outcome: Literal["ok", "error", "unfinished"] = "unfinished"
    """``unfinished``: the process ended during the call."""
    duration_s: float | None = None
    """Wall time in seconds, compilation included."""
    error: CallError | None = None
    """Set when outcome is ``error``."""


class BreakReason(Fact):
    """One of the messages that torch chains in a graph-break record."""

    gb_type: str
    """torch's context-free name of the break, such as ``Data-dependent branching``."""
    torch_id: str | None = None
    """Its registry id, such as ``GB0170``, when torch printed the link."""
    explanation: str | None = None
    """torch's explanation, with newlines as printed."""
    hints: tuple[str, ...] = ()
    """torch's hints, each once."""
    context: str | None = None
    """torch's developer debug context."""


BreakEffect = Literal["resumed", "rest_eager", "frame_skipped", "raised"]
"""What torch did at the break: went on in a resume function, left the rest of the function to eager,
gave up the whole frame, or raised (``fullgraph``)."""


class BreakRecord(Fact):
    """One graph-break record of torch's log."""

    compile_id: str | None
    """Such as ``0/1``; None for a record outside any compile."""
    attempt: int | None = None
    """Which analysis attempt of that compile, from 0."""
    call_index: int | None = None
    """The call during which it was logged; None outside the user's calls."""
    effect: BreakEffect
    """What torch did about it."""
    instruction: str | None = None
    """The bytecode instruction that torch could not go past, such as ``CALL``."""
    chain: tuple[BreakReason, ...]
    """torch's messages, the cause first; at least one."""
    stack: tuple[StackEntry, ...]
    """Outermost first. From the exception itself when recorded live, else as printed."""
    is_stack_exact: bool = False
    """False when the stack is the printed one, which merges neighbouring lines of one function name."""
    higher_order_operator: str | None = None
    """The higher-order operator in whose body it happened, if any."""
    words: str
    """Everything torch printed as the reason, up to the user's stack."""


class FailedCompile(Fact):
    """Why a compile ended without code, from ``dynamo_error`` and the compile's metrics."""

    type: str
    """Exception type, such as ``Unsupported`` or ``BackendCompilerFailed``."""
    message: str
    """torch's words without Python's traceback, cut at 20,000 characters."""
    chain: tuple[BreakReason, ...] = ()
    """The same as torch's chained messages, the cause first."""
    stack: tuple[StackEntry, ...] = ()
    """The user's code being traced, outermost first."""


CompileOutcome = Literal["compiled", "empty", "skipped", "failed", "limit", "unfinished"]
"""``compiled``: got guarded code. ``empty``: dropped for having no operation. ``skipped``: torch gave the frame up.
``failed``: raised to the caller. ``limit``: not tried, the recompile limit was hit. ``unfinished``: the process
ended meanwhile."""


class Compile(Fact):
    """One compile of one frame."""

    compile_id: str
    """Frame id / frame compile id, such as ``0/1``. One that another process compiled begins with that process, as in
    ``p2:0/1`` or ``rank1:0/1``, one behind a ``torch._dynamo.reset()``, which counts from 0 again, with its number, as
    in ``reset1:0/1``."""
    frame_id: int
    """torch's id of the frame (of its code object); a number of ours where the compile id begins with a prefix."""
    process: str | None = None
    """The process that compiled it, such as ``p2`` or ``rank1``; None for the main one."""
    call_index: int | None = None
    """The user's call that caused it."""
    outcome: CompileOutcome
    """How it ended."""
    is_recompile: bool = False
    """The code had a cache entry already."""
    recompile_reasons: tuple[str, ...] = ()
    """torch's words: the first failing guard of each cache entry, newest entry first."""
    attempts: int = 1
    """How often the analysis was started."""
    restart_reasons: tuple[str, ...] = ()
    """Why torch restarted it, from the metrics."""
    op_count: int | None = None
    """Calls in its graph, as torch counts them; None when it got no graph."""
    guard_count: int | None = None
    """Guards, as torch counts them."""
    duration_s: float | None = None
    """Wall time of the whole compile in seconds, from the metrics."""
    backend_s: float | None = None
    """Seconds of it spent in the backend."""
    failure: FailedCompile | None = None
    """Set when outcome is skipped, failed or limit and torch gave a reason."""
    stack: tuple[StackEntry, ...] = ()
    """The call path that led to the frame, outermost first, the frame itself last."""
    cause: RecompileCause | None = None
    """Set for a recompile and for a frame over its limit."""


class Frame(Fact):
    """One code object that torch tried to compile."""

    frame_id: int
    """torch's id; a number of ours for a frame of another process, or behind a ``torch._dynamo.reset()``."""
    process: str | None = None
    """The process that it ran in, such as ``p2`` or ``rank1``; None for the main one."""
    function: str
    """Name of the user's function, also for a resume function."""
    qualname: str | None = None
    """Qualified name, where the source could be read."""
    file: str
    """Where the function is defined."""
    line: int
    """1-based first line of the function."""
    text: str | None = None
    """That line without indentation, where the source could be read."""
    origin: Origin
    """Who owns the file."""
    package: str | None = None
    """Top-level package of a file that is not the user's."""
    resumes_at: int | None = None
    """For a resume function: the line after whose break it goes on; None for a function of its own."""
    code_name: str
    """The code object's name, such as ``torch_dynamo_resume_in_forward_at_12``."""


class GraphInput(Fact):
    """One input of a graph."""

    name: str
    """Placeholder's name in the graph."""
    source: str | None = None
    """Where Dynamo takes it from, such as ``L['x']``."""
    kind: Literal["tensor", "symbol", "other"]
    """``symbol``: a dynamic size or number."""
    dtype: str | None = None
    """Short dtype in torch's notation, such as ``f32``."""
    shape: tuple[int | str, ...] | None = None
    """Sizes; a dynamic dim is its symbol, such as ``s0``."""
    device: str | None = None
    """Such as ``cpu`` or ``cuda:0``."""
    is_parameter: bool | None = None
    """A parameter or buffer of a module rather than an argument."""


class GraphNode(Fact):
    """One node of a graph."""

    name: str
    """The node's name."""
    opcode: str
    """``placeholder``, ``call_function``, ``call_method``, ``call_module``, ``get_attr`` or ``output``."""
    target: str
    """What is called, as torch prints it."""
    args: str
    """Positional arguments, cut at 500 characters."""
    kwargs: str
    """Keyword arguments, cut at 500 characters."""
    value: str | None = None
    """What it yields, such as ``f32[2, 4]``."""
    inputs: tuple[str, ...] | None = None
    """Names of the nodes that it takes, in order, each once; None when not known."""
    file: str | None = None
    """The innermost line of the user's or a package's code that made it; None when there is none."""
    line: int | None = None
    """1-based."""
    module: str | None = None
    """torch's path of the innermost module that it was traced in, such as ``L['self'].blocks.0.lin``; None outside any
    and when not known."""


class Graph(Fact):
    """One graph that was handed to the backend."""

    compile_id: str
    """The compile that made it."""
    index: int
    """From 0 in the order in which graphs reached the backend."""
    op_count: int | None
    """``call_*`` nodes, as torch counts them."""
    tensor_op_count: int | None = None
    """Of these (and of the bodies of higher-order operators) those that compute a tensor; None without our record."""
    inputs: tuple[GraphInput, ...] | None = None
    """None without our record."""
    nodes: tuple[GraphNode, ...] | None = None
    """None without our record."""
    code: str | None = None
    """The graph as torch printed it."""
    backend: str | None = None
    """The backend's name."""
    backend_s: float | None = None
    """Seconds the backend took."""
    backend_error: str | None = None
    """Type and message of what the backend raised."""


class Coverage(Fact):
    """How much of one steady call ran in compiled graphs, measured under torch.profiler."""

    graph_ops: int
    """Tensor operations of the graphs that ran, each as often as it ran."""
    eager_ops: int
    """Outermost ``aten::`` operations outside any graph; those of autograd's backward pass are not counted."""
    extra_calls: int
    """Calls made after the user's own until no compile happened, the measured one included."""
    extra_compiles: int
    """Compiles that these extra calls caused: above 0, the last call's arguments alone recompile."""
    eager_op_names: dict[str, int] = Field(default_factory=dict)
    """The eager operations by name, most frequent first, at most 20."""

    @property
    def share(self) -> float | None:
        """Graph operations over all operations, 0 to 1; None when the call has no tensor operation."""
        total = self.graph_ops + self.eager_ops
        return self.graph_ops / total if total else None


class GraphRun(Fact):
    """One run of a compiled graph within a steady call."""

    graph: int
    """The graph's ``index``."""
    start_us: float
    """Microseconds since the call began."""
    end_us: float
    """Microseconds since the call began; on a GPU the work may still be under way."""


class SteadyCall(Fact):
    """The steady call of median length, in the profiling pass."""

    call_us: float
    """Its length in microseconds."""
    runs: tuple[GraphRun, ...]
    """In order. What lies between them ran outside the graphs: guards, Python, eager operations."""


class Enclosing(Fact):
    """A compound statement around a line, within the same function."""

    kind: Literal["for", "while", "try", "with", "if", "comprehension"]
    """Which statement."""
    line: int
    """1-based line where it starts."""
    text: str
    """Its first line, without indentation."""


class SourceContext(Fact):
    """What surrounds a line that torch pointed to, read while the program was running."""

    file: str
    """Path as in the stack entries."""
    line: int
    """1-based."""
    qualname: str
    """Enclosing class and function, such as ``Net.forward``; ``<module>`` outside any."""
    function_line: int | None
    """1-based line of the enclosing ``def`` or ``lambda``; None outside any."""
    statement: str
    """The innermost statement that covers the line, dedented, at most 12 lines."""
    enclosing: tuple[Enclosing, ...] = ()
    """Compound statements around it, innermost first, up to the function."""


class Recording(Fact):
    """All that is known of one run."""

    environment: Environment
    """Where it ran."""
    target: TargetInfo
    """What was compiled."""
    exit: ProbeExit
    """How the run ended."""
    is_partial: bool
    """The run ended before all calls were made, or the log is cut."""
    calls: tuple[Call, ...]
    """The user's calls; empty for a script and for a log without our records."""
    compile_calls: tuple[CompileCall, ...] = ()
    """Where a script called torch.compile, in order."""
    frames: tuple[Frame, ...]
    """In the order of their first compile."""
    compiles: tuple[Compile, ...]
    """In order; those of the extra calls for coverage are left out."""
    graphs: tuple[Graph, ...]
    """In order; those of the extra calls left out."""
    breaks: tuple[BreakRecord, ...]
    """torch's own records in order; those of the extra calls left out."""
    sources: tuple[SourceContext, ...] = ()
    """Around the lines that breaks point to; empty for a log without our records."""
    coverage: Coverage | None
    """None when not measured; a gap says why."""
    replay: Replay | None = None
    """What a replay under a remedy gave; None for a plain run."""
    what_if: WhatIf | None = None
    """What replays under remedies gave; None when none were made."""
    treatment: Treatment | None = None
    """Fixes that were tried; None when none were."""
    steady_call: SteadyCall | None = None
    """When each graph ran in a steady call; None when not measured."""
    guards: Guards | None = None
    """None when they were not asked for."""
    picture: Picture | None = None
    """None when it was not asked for."""
    variations: tuple[Variation, ...] | None = None
    """What changing one property of the first call at a time does; None when that was not asked for, or the first call
    could not be repeated."""
    gaps: tuple[CaptureGap, ...]
    """What is missing."""
