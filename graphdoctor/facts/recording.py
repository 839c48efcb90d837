"""The facts of one recorded run: what torch logged, what the calls did, what is unknown.

Opinions are in ``diagnosis``. ``None`` always means "unknown", and each unknown that matters has a
``CaptureGap``. Lines and columns are 1-based; columns count characters, and ``end_column`` is
exclusive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from . import shared
from .base import Fact, values_of, whole_sum
from .counts import CallWatch, Coverage, EagerReason
from .evidence import LogEvidence, LogSpan
from .expressions import argument_source
from .fixes import DeclinedEdits, Treatment
from .guards import Guards, RecompileCause
from .kernels import CacheBypass, CacheUse, CudaGraphs, Float32Precision, KernelShare
from .picture import Picture
from .profiled import MeasuredMemory, Profiled
from .run import ProbeExit
from .stack import Origin, StackEntry, resumed
from .trials import Replay, Variation, WhatIf

GapKind = Literal[
    "coverage",
    "unsettled",
    "guard_cost",
    "guards",
    "kernels",
    "memory",
    "cuda_graphs",
    "batch",
    "recompile_causes",
    "steady_time",
    "lanes",
    "variations",
    "attacks",
    "stacks",
    "config",
    "recorder_not_loaded",
    "unrecorded_compile",
    "log_damage",
    "log_cut",
    "log_beginning",
    "log_removed",
    "unreadable_record",
    "foreign_log",
    "old_log",
    "several_processes",
    "dynamo_reset",
    "unfinished_compile",
    "compile_disabled",
    "nothing_compiled",
    "not_put_back",
    "missing_torch_name",
    "rank_unread",
]
"""Kind of fact that a recording lacks, for programs; its ``message`` is for people alone."""

SwitchKind = Literal["environment", "config", "stance", "replacement"]
"""Switch that can keep torch.compile from compiling. ``environment``: a variable; ``config``:
Dynamo's ``config.disable``; ``stance``: ``torch.compiler.set_stance``; ``replacement``:
``torch.compile`` itself isn't torch's own function."""

BlockEntry = Literal["module", "forward"]
"""Way to compile a block by itself. ``module``: by ``Module.compile()``; ``forward``: by replacing
its ``forward``, since its class is torch's own and that method does nothing."""


class CaptureGap(Fact):
    """Something that this recording lacks."""

    code: shared.RuleCode
    """A GD9 code, such as ``GD900``."""
    kind: GapKind | None = None
    """Kind of missing fact, for programs; None for what a recording of graphdoctor 0.1 reports
    itself."""
    message: str
    """Missing fact and its effect on the numbers, one or two sentences."""


class CompileSwitch(Fact):
    """Something that can keep torch.compile from compiling."""

    kind: SwitchKind
    """Kind of switch. ``environment``: a variable; ``config``: ``torch._dynamo.config.disable``;
    ``stance``: ``torch.compiler.set_stance``; ``replacement``: ``torch.compile`` isn't torch's own
    function."""
    value: shared.SwitchText
    """The variable, the config value, the stance, or the name and place of what replaced
    torch.compile."""
    call_index: int | None = None
    """The first call that was made under it; None if it was found outside the calls."""

    @property
    def is_off(self) -> bool:
        """Return whether torch.compile certainly does nothing under it; the others can compile some
        of the calls.
        """
        return self.kind in ("environment", "config") or (self.kind, self.value) == (
            "stance",
            "force_eager",
        )


class Environment(Fact):
    """The interpreter and the torch that the program ran with."""

    python: shared.Version | None = None
    """Python's version, such as ``3.11.7``."""
    torch: shared.Version | None = None
    """torch's version with its build tag, such as ``2.13.0+cpu``."""
    torch_build: shared.Build | None = None
    """Platform torch was built for, such as ``CUDA 12.8`` or ``CPU``."""
    platform: shared.Platform | None = None
    """Operating system and machine, such as ``Linux-6.1-x86_64``."""
    executable: str | None = None
    """Path of the interpreter."""
    device_name: shared.DeviceName | None = None
    """Name of the first CUDA device; None if there is none."""
    threads: int | None = None
    """Threads that torch computes with on a CPU, as ``torch.get_num_threads()`` has them; None if
    unknown."""
    torch_root: str | None = None
    """The folder with torch's own files."""
    stdlib_root: str | None = None
    site_roots: tuple[str, ...] = ()
    """Folders with installed packages."""
    own_packages: tuple[str, ...] = ()
    """Installed packages that count as the user's own code, by the name that they're imported
    under."""
    packages: dict[shared.PackageName, str] | None = None
    """Versions of installed packages that matter to torch.compile, by name; a package without a
    version isn't installed. None if unknown."""

    @property
    def torch_release(self) -> tuple[int, int] | None:
        """Version of torch up to the minor one, such as (2, 13); None if unknown."""
        match = re.match(r"(\d+)\.(\d+)", self.torch or "")
        return (int(match[1]), int(match[2])) if match else None


class RepeatedBlocks(Fact):
    """Modules of one class that repeat in the target, such as the layers of a transformer."""

    class_name: shared.Name
    paths: tuple[shared.ModulePath, ...]
    """Paths of the blocks, such as ``layers.0``, in order; at least three."""
    kinds: int
    """Number of them that differ from one another in their parameters or submodules."""
    compiled_as: BlockEntry
    """Way to compile each. ``module``: by ``Module.compile()``; ``forward``: by replacing its
    ``forward``, since the class is torch's own and that method does nothing."""

    container: shared.ModulePath | None
    """Path of the list that holds all of them and nothing else, such as ``layers``; empty if that
    is the target itself, None if there is none."""

    @property
    def name(self) -> str:
        """Return the name of their class where it is defined."""
        return self.class_name.rpartition(".")[2]

    @property
    def text(self) -> str:
        """Return their number and class, such as ``12 Block``."""
        return f"{len(self.paths)} {self.name}"


class BatchedTensor(Fact):
    """A tensor in the calls that has a batch dim, its first."""

    expression: shared.Expression
    """Expression a person would write for it, such as ``batch['mask']``."""
    path: str
    """Steps to it from the positional and the keyword arguments, as Python writes them."""


class TargetInfo(Fact):
    """Compiled target and its arguments."""

    text: str | None = None
    """The target as given, such as ``model.py:Net``."""
    name: shared.Name | None = None
    """Its name in its module."""
    kind: Literal["module", "module class", "function", "factory", "script", "block"] | None = None
    """Kind of target. ``script``: a whole program, run unchanged; ``block``: a part of a program,
    recorded in its own process."""
    class_name: shared.Name | None = None
    """Qualified name of the compiled object's class, or of the function."""
    file: shared.File | None = None
    """Absolute path of its file."""
    parameters: tuple[shared.Name, ...] | None = None
    """Names of the parameters of the function that is called; None if Python doesn't know them."""
    args_from: int = 0
    """Index of the parameter that a decorator's ``*args`` begin with; -1 if ``self`` does, which
    isn't among them."""
    model: str | None = None
    """The model in a script's file, as a target, such as ``train.py:Net``; None if it has none."""
    inputs_from: shared.InputsFrom | None = None
    """Source of the calls: ``--input``, ``example_inputs()``, ``dummy_inputs``, …"""
    inputs: tuple[str, ...] = ()
    """The arguments of ``--input``; empty where the program brings its own."""
    own: tuple[str, ...] = ()
    """The packages that ``--own`` named."""
    python: str | None = None
    """The interpreter that ``--python`` named; None for graphdoctor's own."""
    compile_arguments: dict[shared.OptionName, object] = field(default_factory=dict)
    """The arguments of ``torch.compile``: backend, mode, dynamic, fullgraph, options."""
    blocks: tuple[RepeatedBlocks, ...] | None = None
    """The outermost modules that repeat in it, by class; None if unknown, and for anything but a
    module."""
    is_regional: bool = False
    """Each of these was compiled by itself, and nothing else."""
    config: dict[shared.ConfigName, object] = field(default_factory=dict)
    """torch config values that were set for the run, by dotted name."""
    call_options: dict[shared.OptionName, object] = field(default_factory=dict)
    """Options of the calls: calls, backward, train, no_grad, seed, device, dtype, batch."""
    batched: tuple[BatchedTensor, ...] = ()
    """The tensors that have the batch size of ``call_options``; empty if none was asked for."""

    @property
    def regions(self) -> tuple[str, ...]:
        """Return what was compiled by itself, such as ``12 Block``; empty where the whole was."""
        return tuple(blocks.text for blocks in self.blocks or ()) if self.is_regional else ()

    def argument(self, source: str | None) -> str | None:
        """See ``argument_source``."""
        return argument_source(source or "", self.parameters or (), self.args_from)

    @property
    def has_backward(self) -> bool:
        """Return whether the calls ran the backward pass."""
        return bool(self.call_options.get("backward"))

    @property
    def runs_itself(self) -> bool:
        """Return whether the program makes its own calls, which have no numbers and aren't
        repeated.
        """
        return self.kind in ("script", "block")


class CallError(Fact):
    """An exception that ended a call."""

    type: shared.ExceptionType
    """Qualified type name, such as ``torch._dynamo.exc.Unsupported``."""
    message: str
    """The exception's text, cut at 20,000 characters."""
    traceback: shared.Traceback
    """As Python prints it, without graphdoctor's own lines."""
    eager: shared.OutcomeText | None = None
    """Outcome of the same call without torch.compile: ``ok`` or the type of the exception; None if
    not tried."""
    eager_message: str | None = None
    """The text of that exception."""
    from_compiler: bool = False
    """torch.compile itself raised it, because of ``fullgraph`` or a backend; it isn't an error of
    the program."""


class CompileCall(Fact):
    """One call of ``torch.compile`` or ``Module.compile`` in a script."""

    file: str
    """Path of the innermost file that isn't torch's."""
    line: int
    """1-based."""
    function: str
    """Name of the code object that the line is in."""
    compiled: shared.Name
    """Qualified name of the compiled class or function."""
    arguments: dict[str, str] = field(default_factory=dict)
    """The arguments that differ from torch.compile's defaults, with shortened values."""
    process: shared.ProcessName | None = None
    """The process that made the call, such as ``p2``; None for the main one."""


class Call(Fact):
    """One call of the compiled target."""

    index: int
    """1-based, in the order of the calls."""
    inputs: shared.ValuesText | None = None
    """A summary of the arguments, such as ``f32[8, 128], flag=True``."""
    outcome: Literal["ok", "error", "unfinished"] = "unfinished"
    """``unfinished``: the process ended during the call."""
    duration_s: float | None = None
    """Wall time in seconds, compilation included."""
    eager_because: tuple[EagerReason, ...] | None = None
    """Why code of it ran eagerly without a record of torch's; empty if none did, None if
    unknown."""
    compile_count: int | None = None
    """Compiles that got guarded code during the call; None if unknown."""
    error: CallError | None = None
    """The exception; None unless outcome is ``error``."""


class BreakReason(Fact):
    """One of the chained messages of a graph-break record."""

    gb_type: shared.GbType
    """torch's general name for the break, such as ``Data-dependent branching``."""
    torch_id: shared.TorchId | None = None
    """Its registry id, such as ``GB0170``; None if torch printed no link."""
    explanation: str | None = None
    """torch's explanation, with newlines as printed."""
    hints: tuple[str, ...] = ()
    """torch's hints, each once."""
    context: str | None = None
    """torch's developer debug context."""


BreakEffect = Literal["resumed", "rest_eager", "frame_skipped", "raised"]
"""Torch's action at the break: continued in a resume function, ran the rest of the function
eagerly, skipped the whole frame, or raised an exception (``fullgraph``)."""


RaisedBy = Literal["fullgraph", "error_on_graph_break"]
"""The setting by which a graph break raises an error."""

BreakTopic = Literal[
    "symbolic_number", "recurrent_module", "tensor_truth", "export_type", "export_error"
]
"""Topic of the cause, if neither its id nor its name says so. ``symbolic_number``: torch needed the
value of a number that it captured as a symbol; ``recurrent_module``: an RNN, GRU or LSTM. Of
torch.export alone, which raises what it raises: ``tensor_truth``: the program asked whether a
tensor is true; ``export_type``: a type that torch can't take apart; ``export_error``: anything
else."""


TorchMechanism = Literal["ddp_forward", "fsdp_hook", "module_hook", "checkpoint"]
"""Code of torch's own that the program asked for without calling it on that line. ``ddp_forward``:
the ``forward`` of DistributedDataParallel; ``fsdp_hook``: a hook that FSDP registers;
``module_hook``: nn.Module runs a hook; ``checkpoint``: activation checkpointing runs a function."""


class NamedClass(Fact):
    """A class of the program that torch names."""

    name: str
    module: str
    is_dataclass: bool = False


class BreakRecord(Fact):
    """One graph-break record of torch's log."""

    compile_id: str | None
    """The compile, such as ``0/1``; None for a record outside any compile."""
    attempt: int | None = None
    """The attempt of that compile, from 0."""
    call_index: int | None = None
    """The call during which it was logged; None outside the user's calls."""
    effect: BreakEffect
    raised_by: RaisedBy | None = None
    """Why it raised; None if it didn't, or if that is unknown."""
    instruction: str | None = None
    """The bytecode instruction that torch couldn't trace, such as ``CALL``."""
    chain: tuple[BreakReason, ...]
    """torch's messages, cause first; at least one."""
    stack: tuple[StackEntry, ...]
    """Outermost first. From the exception if it was recorded live, otherwise as printed."""
    is_stack_exact: bool = False
    """False if the stack is the printed one, which merges adjacent entries with the same function
    name."""
    higher_order_operator: str | None = None
    """The higher-order operator in whose body it happened; None outside any."""
    words: str
    """Everything torch printed as the reason, up to the user's stack."""
    topic: BreakTopic | None = None
    """Topic of the cause, read from ``words``; None for all other topics."""
    mechanism: TorchMechanism | None = None
    """torch's own code in which it happened, below the innermost line of the program; None anywhere
    else."""
    classes: tuple[NamedClass, ...] = ()
    """Classes of the program that the words name, for a break of torch.export."""


RecompileLimit = Literal["recompile_limit", "accumulated_recompile_limit"]
"""torch's two limits, by their names in ``torch._dynamo.config``."""


class FailedCompile(Fact):
    """Reason why a compile ended without code."""

    type: shared.ExceptionType
    """Exception type, such as ``Unsupported`` or ``BackendCompilerFailed``."""
    message: str
    """torch's message without Python's traceback, cut at 20,000 characters."""
    chain: tuple[BreakReason, ...] = ()
    """torch's chained messages, cause first."""
    stack: tuple[StackEntry, ...] = ()
    """The user's code being traced, outermost first."""
    limit: RecompileLimit | None = None
    """The limit that the frame hit; None if the compile failed for another reason."""


CompileOutcome = Literal["compiled", "empty", "skipped", "failed", "limit", "unfinished"]
"""``compiled``: torch made guarded code. ``empty``: dropped, because it has no operations.
``skipped``: torch skipped the frame. ``failed``: an exception reached the caller. ``limit``: not
tried, because of the recompile limit. ``unfinished``: the process ended during the compile."""


class Compile(Fact):
    """One compile of one frame."""

    compile_id: shared.CompileId
    """Frame id and frame compile id, such as ``0/1``. A compile of another process has a prefix, as
    in ``p2:0/1`` or ``rank1:0/1``. So does one after ``torch._dynamo.reset()``, which counts from 0
    again, as in ``reset1:0/1``."""
    frame_id: int
    """torch's id of the frame; graphdoctor's own number if the compile id has a prefix."""
    process: shared.ProcessName | None = None
    """The process that compiled it, such as ``p2`` or ``rank1``; None for the main process."""
    compiled_autograd_id: int | None = None
    """torch's number of the backward pass that compiled autograd captured, for its compile; None
    for all others."""
    call_index: int | None = None
    """The call that caused it; None outside the user's calls."""
    outcome: CompileOutcome
    is_recompile: bool = False
    """The function already had a cache entry, also if nothing came of the compile."""
    recompile_reasons: tuple[str, ...] = ()
    """The first failed guard of each cache entry in torch's words, newest entry first."""
    attempts: int = 1
    """Number of times torch started the analysis."""
    op_count: int | None = None
    """Operations in its graph, as torch counts them; None if there is no graph."""
    guard_count: int | None = None
    """Guards, as torch counts them."""
    duration_s: float | None = None
    """Seconds of the whole compile, as torch measured them."""
    backend_s: float | None = None
    """Seconds of these in the backend."""
    failure: FailedCompile | None = None
    """Set if outcome is skipped, failed or limit and torch gave a reason."""
    stack: tuple[StackEntry, ...] = ()
    """The call path to the frame, outermost first, including the frame itself."""
    cause: RecompileCause | None = None
    """Cause of the recompile; None for the first compile."""

    @property
    def has_recompiled(self) -> bool:
        """Return whether it's a recompile that happened: not one that failed, that torch skipped,
        or that the recompile limit refused.
        """
        return self.is_recompile and self.outcome == "compiled"


class IgnoredCache(Fact):
    """A call of a function with a ``functools.lru_cache``, which Dynamo traces whatever the cache
    holds.
    """

    function: str
    entry: StackEntry
    """Place of its call."""
    compile_id: str | None = None


class TracingBranch(Fact):
    """A line that asks whether torch.compile is at work while Dynamo traces it, so that compiled
    code may take another way than eager mode.
    """

    location: StackEntry
    asks: str
    """What it calls, such as ``torch.compiler.is_compiling``, or a function that only passes on
    what that answers."""
    text: str
    """The condition's source, shortened."""
    eager: bool | None = None
    """The condition's value in eager mode; None if it depends on more than the question."""
    compiled: bool | None = None
    is_answered_alike: bool = False
    """True if the answer is the same in both, as that of ``torch.jit.is_tracing`` is."""


class Frame(Fact):
    """One code object that torch tried to compile."""

    frame_id: int
    """torch's id; graphdoctor's own number for a frame of another process or after
    ``torch._dynamo.reset()``."""
    process: shared.ProcessName | None = None
    """The process that it ran in, such as ``p2`` or ``rank1``; None for the main process."""
    function: str
    """Name of the user's function, also for a resume function."""
    qualname: str | None = None
    """Qualified name; None if the source couldn't be read."""
    wraps: str | None = None
    """Of a decorator's function, the one module's ``forward`` that it stands for, such as
    ``BertModel.forward``; None if it isn't one, or stands for several."""
    wraps_at: StackEntry | None = None
    """Place of that definition; None if the decorator doesn't tell."""
    file: str
    """Path of the file that defines the function."""
    line: int
    """1-based first line of the function."""
    text: str | None = None
    """That line without indentation; None if the source couldn't be read."""
    origin: Origin
    package: str | None = None
    """Top-level package of the file; None for the user's own code."""
    resumes_at: int | None = None
    """For a resume function, the line that it continues from; None for other functions."""
    code_name: str
    """The code object's name, such as ``torch_dynamo_resume_in_forward_at_12``."""
    code_line: int | None = None
    """1-based first line of the code object, decorators included; None for torch's own function
    around a module."""
    is_wrapper: bool = False
    """True if it is torch's own function around a module of torch's own class; it then stands where
    the program compiles or makes the module."""
    container: str | None = None
    """For such a wrapper, the class of torch's own in which the module inside has its ``forward``,
    such as ``Sequential``: Dynamo skips it if the wrapper's code breaks before it is called. None
    if it has its own."""

    @property
    def name(self) -> str:
        """The name to show: the function's qualified name if it is known, of a wrapper that of what
        it wraps.
        """
        if self.wraps is not None:
            return self.wraps
        return self.qualname if self.qualname and self.qualname != "<module>" else self.function

    @property
    def code(self) -> tuple[str, str, int, int | None]:
        """File, function, first line and the line that it continues from, which are the same in
        each process that runs it, whatever else is known there.
        """
        return self.file, self.function, self.code_line or self.line, self.resumes_at

    @property
    def described(self) -> str:
        """That name; for a resume function, with the line that it continues from."""
        return self.name if self.resumes_at is None else f"{self.name} from line {self.resumes_at}"

    @property
    def entry(self) -> StackEntry:
        """The line of its definition; of a wrapper, that of what it wraps."""
        if self.wraps_at is not None:
            return self.wraps_at
        return StackEntry(
            **values_of(self, "file", "line", "function", "qualname", "text", "origin", "package")
        )


class GraphInput(Fact):
    """One input of a graph."""

    name: shared.Name
    source: shared.Expression | None = None
    """Dynamo's source for it, such as ``L['x']``."""
    kind: Literal["tensor", "symbol", "other"]
    """``symbol``: a dynamic size or number."""
    dtype: shared.DtypeName | None = None
    """torch's short name of the dtype, such as ``f32``."""
    shape: tuple[int | shared.SizeText, ...] | None = None
    """Sizes; a dynamic dim is its symbol, such as ``s0``."""
    device: shared.DeviceText | None = None
    """Such as ``cpu`` or ``cuda:0``."""
    is_parameter: bool | None = None
    """True if it is a parameter or buffer of a module; None if unknown."""


class GraphNode(Fact):
    """One node of a graph."""

    name: shared.Name
    opcode: shared.Opcode
    """``placeholder``, ``call_function``, ``call_method``, ``call_module``, ``get_attr`` or
    ``output``."""
    target: shared.OperationName
    """Called operator, as torch prints it."""
    args: str
    """Positional arguments, cut at 500 characters."""
    kwargs: str
    """Keyword arguments, cut at 500 characters."""
    value: shared.ShapeText | None = None
    """Its value, such as ``f32[2, 4]``."""
    inputs: tuple[shared.Name, ...] | None = None
    """Names of its input nodes, in order, each once; None if unknown."""
    file: str | None = None
    """Path of the innermost line of user or package code that it comes from; None if there is
    none."""
    line: int | None = None
    """1-based."""
    module: shared.Expression | None = None
    """torch's path of the innermost module it was traced in, such as ``L['self'].blocks.0.lin``;
    None outside any module or if unknown."""


class Graph(Fact):
    """One graph that was handed to the backend."""

    compile_id: shared.CompileId
    index: int
    """Position in the order in which graphs reached the backend, from 0."""
    function: shared.Described = "?"
    """``Frame.described`` of the function it was captured from; ``?`` if unknown."""
    resumes_at: int | None = None
    """For the graph of a resume function, the line that it continues from."""
    op_count: int | None
    """``call_*`` nodes, as torch counts them."""
    tensor_op_count: int | None = None
    """Of these, and of those in the bodies of higher-order operators, the ones that compute a
    tensor; None if graphdoctor didn't record it."""
    inputs: tuple[GraphInput, ...] | None = None
    """None if graphdoctor didn't record it."""
    nodes: tuple[GraphNode, ...] | None = None
    """None if graphdoctor didn't record it."""
    code: str | None = None
    backend: shared.BackendName | None = None
    """The backend's name."""
    backend_s: float | None = None
    """Seconds the backend took."""
    backend_error: str | None = None
    """Type and text of the backend's exception; None if it raised none."""


class Repeats(Fact):
    """Repetitions of the last call with the same arguments, until it was steady: what torch did in
    them counts as in the calls before, after which they are numbered.
    """

    count: int
    is_steady: bool
    """In the last one torch compiled nothing, and no function hit its recompile limit."""


class GraphRun(Fact):
    """One run of a compiled graph within a steady call."""

    graph: int
    """The graph's ``index``."""
    start_us: float
    """Microseconds since the call began."""
    end_us: float
    """Microseconds since the call began; a GPU may still be running the kernels."""


class SteadyCall(Fact):
    """The steady call of median duration."""

    call_us: float
    """Its duration in microseconds."""
    runs: tuple[GraphRun, ...]
    """Runs of graphs, in order. The time between them is spent on guards, Python and eager
    operations."""


EnclosingKind = Literal["for", "while", "try", "with", "if", "comprehension"]


class Enclosing(Fact):
    """A compound statement around a line, within the same function."""

    kind: EnclosingKind
    line: int
    """1-based line where it starts."""
    text: str
    """Its first line, without indentation."""


class SourceContext(Fact):
    """The source around a line that torch pointed to, read while the program was running."""

    file: str
    """Path as in the stack entries."""
    line: int
    """1-based."""
    function: str | None = None
    """Name of the code that ran there, such as ``<lambda>``: a line can be part of several. None
    in recordings of earlier versions, which have one of them."""
    qualname: str
    """Enclosing class and function, such as ``Net.forward``; ``<module>`` outside any."""
    function_line: int | None
    """1-based line of the enclosing ``def`` or ``lambda``; None outside any."""
    statement: str
    """The innermost statement that covers the line, dedented, at most 12 lines."""
    statement_line: int | None = None
    """1-based line where the statement starts; None if the line isn't part of one, as in a lambda,
    and if unknown."""
    module_names: tuple[str, ...] = ()
    """Names in the statement that the module alone binds, imports among them."""
    enclosing: tuple[Enclosing, ...] = ()
    """Compound statements around it, innermost first, up to the function."""

    @property
    def at(self) -> tuple[str, int]:
        """File and line."""
        return self.file, self.line

    @property
    def code(self) -> CodeAt:
        """Those and the code that ran there."""
        return self.file, self.line, self.function


CodeAt = tuple[str, int, str | None]
"""File, line, and name of the code that runs there."""


def context_at(
    contexts: Mapping[CodeAt, SourceContext], file: str, line: int, function: str
) -> SourceContext | None:
    """Return the source around a line of a function; None if it isn't known."""
    code = (file, line, resumed(function)[0])
    return contexts.get(code) or contexts.get((file, line, None))


class ExportInput(Fact):
    """One input of an exported program."""

    name: str
    kind: str
    """torch's name for what it is, such as ``user_input`` or ``parameter``."""
    target: str | None = None
    """The parameter, buffer or constant that it stands for."""
    value: str | None = None
    """Its dtype and shape, such as ``f32[s77, 4]``; None if it is no tensor."""


class ExportFailure(Fact):
    """Reason why torch.export made no program."""

    type: str
    message: str
    """torch's words, without its general advice."""


class ExportCalls(Fact):
    """Differences between the calls of an exported program."""

    total: int
    made: int
    """Those that are like the first, and were made."""
    other: tuple[int, ...] = ()
    """Numbers of the calls with other sizes, numbers, strings or structures."""


class Export(Fact):
    """Result of torch.export for a target."""

    is_strict: bool
    """True if Dynamo read the program's bytecode."""
    is_wrapped: bool
    """True if the target was wrapped in a module."""
    seconds: float
    line: str
    """Python that makes the same program."""
    failure: ExportFailure | None = None
    """Reason why there is no program; None if there is one."""
    op_count: int | None = None
    """Operations in its graph."""
    inputs: tuple[ExportInput, ...] = ()
    """Its inputs, in order."""
    constraints: tuple[str, ...] = ()
    """Conditions on sizes that it checks, in Python."""
    calls: ExportCalls | None = None
    """Differences between the calls; None if they weren't made."""


class Recording(Fact):
    """Everything known about one run."""

    environment: Environment
    target: TargetInfo
    exit: ProbeExit
    is_partial: bool
    """The run ended before all calls were made, or the log is cut off."""
    calls: tuple[Call, ...]
    """The user's calls, without repeats; empty for a script and for a log that graphdoctor didn't
    record."""
    compile_calls: tuple[CompileCall, ...] = ()
    """Places where a script called torch.compile, in order."""
    switches: tuple[CompileSwitch, ...] = ()
    """Switches that could keep torch.compile from compiling, in the order in which it was found."""
    frames: tuple[Frame, ...]
    """Frames in the order of their first compiles."""
    compiles: tuple[Compile, ...]
    """Compiles in order, without those of measurements."""
    graphs: tuple[Graph, ...]
    """Graphs in order, without those of measurements."""
    ddp_splits: tuple[DdpSplit, ...] = ()
    """Graphs that torch split at the buckets of DistributedDataParallel, in order."""
    breaks: tuple[BreakRecord, ...]
    """torch's graph-break records in order, without those of measurements."""
    sources: tuple[SourceContext, ...] = ()
    """The source around the lines of breaks; empty for a log that graphdoctor didn't record."""
    coverage: Coverage | None
    """None if not measured; a gap says why."""
    watch: CallWatch | None = None
    """The calls of a script that were watched; None for other targets, and if nothing was
    compiled."""
    repeats: Repeats | None = None
    """Repetitions of the last call; None if there were none."""
    export: Export | None = None
    """Result of torch.export for the target; None if the run wasn't one that exports."""
    replay: Replay | None = None
    """Result of a replay; None for a plain run."""
    what_if: WhatIf | None = None
    """Results of replays under remedies; None if there were none."""
    treatment: Treatment | None = None
    """The fixes that were tried; None if there were none."""
    declined: DeclinedEdits = DeclinedEdits()
    """Reasons why no edits were written, before any trial; empty if nobody tried to write some."""
    steady_call: SteadyCall | None = None
    """When each graph ran in a steady call; None if not measured."""
    kernels: KernelShare | None = None
    """Shares of a steady call's time; None if not measured."""
    eager_kernels: KernelShare | None = None
    """The same call in eager mode, in another process; None if nobody compares them."""
    memory: MeasuredMemory | None = None
    """Memory of a steady call; None if it wasn't measured."""
    profiled: Profiled | None = None
    """A steady call kernel by kernel; None for a run that was no profile."""
    cuda_graphs: CudaGraphs | None = None
    """Use of CUDA graphs; None if none were asked for, and if unknown."""
    config: dict[shared.ConfigName, str] | None = None
    """torch config values that differ from their defaults after the calls, or at the end of a
    script, by dotted name, as Python prints them, shortened; None if unknown. A value that torch
    reads from an environment variable at import can count as a default."""
    float32_precision: Float32Precision | None = None
    """Precision of float32 computations on CUDA; None if the program doesn't use CUDA, or if
    unknown."""
    cache_bypasses: tuple[CacheBypass, ...] = ()
    """Reasons why torch's caches on disk leave graphs out, one for each reason of each graph."""
    ignored_caches: tuple[IgnoredCache, ...] = ()
    """Calls of functions with a ``functools.lru_cache`` whose tensors the compiled code computes
    itself."""
    tracing_branches: tuple[TracingBranch, ...] = ()
    """Lines that ask whether torch.compile is at work, at most 200, in the order of the first
    asking."""
    caches: CacheUse | None = None
    """Use of the caches on disk; None if none was asked."""
    evidence: LogEvidence = field(default_factory=LogEvidence)
    guards: Guards | None = None
    """Checks of the guards and their costs; None if not requested."""
    picture: Picture | None = None
    """Data for the picture of the run; None if not requested."""
    span: LogSpan | None = None
    """Data to compare with other ranks; None if not requested."""
    variations: tuple[Variation, ...] | None = None
    """Results of changing one property of the first call at a time; None if not requested, or if
    the first call can't be repeated."""
    gaps: tuple[CaptureGap, ...]

    def frames_by_compile(self) -> dict[str, Frame]:
        """Return the frame of each compile whose frame is known."""
        frames = {frame.frame_id: frame for frame in self.frames}
        return {
            compile_.compile_id: frames[compile_.frame_id]
            for compile_ in self.compiles
            if compile_.frame_id in frames
        }

    @property
    def config_in_force(self) -> dict[str, str]:
        """Return torch config values, as Python prints them: those set for the run, and those that
        the program set.
        """
        given = {name: repr(value) for name, value in self.target.config.items()}
        return given | (self.config or {})

    @property
    def has_failed_alone(self) -> bool:
        """Return whether the program failed whatever torch.compile does: before its first call, or
        in calls that fail without torch.compile, too.
        """
        if self.exit.reason != "error" or self.graphs:
            return False
        errors = [call.error for call in self.calls]
        if not errors:
            return not self.compiles
        return all(error and error.eager not in (None, "ok") for error in errors)

    @property
    def is_foreign(self) -> bool:
        """Return whether graphdoctor didn't record the log."""
        return self.gap("foreign_log") is not None

    def gap(self, *kinds: GapKind) -> CaptureGap | None:
        """Return the first gap of one of these kinds, or None."""
        return next((gap for gap in self.gaps if gap.kind in kinds), None)


class DdpBucket(Fact):
    """One part of a split graph, whose gradients DDP reduces together."""

    name: str
    """torch's name for it, such as ``submod_0``."""
    parameters: tuple[str, ...]
    """The parameters in it, such as ``self.first.weight``; torch's names of the graph's inputs
    where their sources aren't recorded."""
    parameter_bytes: int | None
    """Size of the parameters; None if a size isn't a number."""
    op_count: int
    """Operations in it."""


class DdpSplit(Fact):
    """A graph that ``DDPOptimizer`` split, so that gradients can be reduced while others are still
    computed.
    """

    compile_id: str
    buckets: tuple[DdpBucket, ...]
    """In the order of the forward pass; the last one's gradients are reduced first."""
    crossing_count: int
    """Tensors that one part computes and a later one reads."""
    crossing_bytes: int | None
    """Size of the crossing values; None if a size isn't a number."""

    @property
    def parameter_bytes(self) -> int | None:
        """Return the bytes of the parameters of all parts."""
        return whole_sum(bucket.parameter_bytes for bucket in self.buckets)
