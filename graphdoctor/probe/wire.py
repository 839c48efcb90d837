"""What the probe and the other rooms agree on: file names, the format, the request, events, artifacts, hint codes.

The one module of the probe that other rooms may import, and it needs nothing but the standard library. The probe writes
what is declared here, ``trace`` reads it, ``bundle`` redacts it; none of them reads another's sentences. An event is
a line of ``probe.jsonl``, written at once. An artifact is a record of ours in torch's trace log, under the compile id
that is under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from ..facts.kernels import KernelKind, ProfilePhase
from ..facts.profiled import InductorKernelKind
from ..facts.recording import GraphInput, GraphNode
from ..facts.watch import UnwatchedReason, WatchOutcome
from .file_names import BENCH_FILE as BENCH_FILE
from .file_names import CATALOG_REQUEST_FILE as CATALOG_REQUEST_FILE
from .file_names import CRASH_FILE as CRASH_FILE
from .file_names import CURE_FILE as CURE_FILE
from .file_names import EVENTS_FILE as EVENTS_FILE
from .file_names import EXPORT_FILE as EXPORT_FILE
from .file_names import FIXES_FILE as FIXES_FILE
from .file_names import LOCK_FILE as LOCK_FILE
from .file_names import META_FILE as META_FILE
from .file_names import PROFILE_FILE as PROFILE_FILE
from .file_names import READS_FILE as READS_FILE
from .file_names import REQUEST_FILE as REQUEST_FILE
from .file_names import RUN_CHANGE_VARIABLE as RUN_CHANGE_VARIABLE
from .file_names import TRACE_FOLDER as TRACE_FOLDER
from .file_names import WHAT_IF_FILE as WHAT_IF_FILE

FORMAT = 1
"""Of ``recording.json``: a recording with another number is refused."""

EXIT_UNWRITABLE = 74
"""Exit status of a probe that couldn't write its events; EX_IOERR of sysexits.h."""

ARTIFACT_PREFIX = "graphdoctor_"
"""What the names of our records in torch's trace log begin with."""

INPUTS_FROM_OPTIONS = "the run's options"
INPUTS_NOT_NEEDED = "no arguments needed"
"""Two values of a target's ``inputs_from``; the others name what the program has, such as ``example_inputs()``."""

WARM_ARGUMENT = "warm"
"""The first argument of a probe that forks others; the second is the number of a socket."""


class WarmRequest(TypedDict):
    """What a warm process is asked to fork; its answer's socket, its output and what it inherits come along."""

    path: str
    """Of its ``request.json`` or ``catalog.json``."""
    backend: str
    """What it compiles with."""
    library: str | None
    """The catalog's library that it needs, by name; None for a run."""
    inherited: list[int]
    """Numbers under which it expects the other open files."""


class ProbeRequest(TypedDict):
    """``request.json``: what the probe is asked to do; the first fifteen are fields of ``RunSpec``."""

    backend: str
    mode: str | None
    dynamic: bool | None
    fullgraph: bool
    options: dict[str, Any]
    regional: bool
    calls: int
    backward: bool
    train: bool | None
    no_grad: bool
    seed: int
    device: str | None
    dtype: str | None
    """One of torch's floating-point dtypes, by name."""
    batch: int | None
    config: dict[str, Any]
    file: str | None
    """Where the target is: a file, or else a module."""
    module: str | None
    name: str | None
    """What the target is called there; None to find it."""
    is_call: bool
    """The name was written with ``()``: it is a factory."""
    inputs: dict[str, Any] | None
    """``{"args": […], "kwargs": {…}}``, as ``capture/request.py`` describes inputs; None for the program's own."""
    coverage: bool
    guard_cost: bool
    lanes: bool
    kernels: bool
    """Profile the kernels of a steady call; Inductor's C++ kernels then name themselves to the profiler."""
    memory: bool
    """Measure the memory of a steady call."""
    profile: str | None
    """Write down which operations each of Inductor's kernels has, and every run of a kernel in a steady call; Inductor
    compiles into this folder, which is empty. None for a run that is no profile."""
    stages: bool
    """Have torch log each stage of each graph, whatever its caches hold, and which nodes go into which kernel."""
    calibrations: list[CalibrationRecord]
    """What earlier profiles measured on this machine."""
    reads: bool
    """Note which files are read."""
    vary: bool
    """Make the first call alone, then vary one property of it at a time."""
    vary_count: int
    vary_s: float
    trial: Mapping[str, Any] | None
    """How the calls are replayed to try a remedy: see ``replay/trial.py``."""


LIBRARIES: dict[str, str] = {
    "transformers": "transformers",
    "torch-geometric": "torch_geometric",
    "timm": "timm",
    "torchvision": "torchvision",
    "diffusers": "diffusers",
}
"""Libraries that have a catalog, by the name they are installed under: what Python imports. The module of
``probe/catalog`` for each is called the same."""


class CatalogRequest(TypedDict):
    """``catalog.json``: which architectures a library has, or a program of one of them."""

    library: str
    """One of ``LIBRARIES``."""
    architecture: str | None
    """Whose program is wanted; None for the list."""
    program: str | None
    """Where it is written."""
    graphdoctor: str
    """Our version, for the program's header."""
    memory_bytes: int | None
    """Resident memory above which the process is stopped."""


def program_header(*, library: str, version: str, architecture: str, graphdoctor: str) -> str:
    """How a catalog's program begins: what it was made of and by, so that it needn't be made twice.

    Args:
        library: One of ``LIBRARIES``.
        version: Its version.
        architecture: The architecture's name.
        graphdoctor: Our version.
    """
    made_of = f'"""{architecture} of {library} {version}, small and with random weights.'
    return f"{made_of}\n\nWritten by graphdoctor {graphdoctor}."


class CallItems(TypedDict):
    """What one call works on."""

    count: int
    unit: Literal["samples", "tokens"]


class CacheCounts(TypedDict):
    """What the caches on disk did, in graphs."""

    hits: int
    misses: int
    bypasses: int


class BenchStart(TypedDict):
    """What a benched program reports over its socket once its calls are steady, or never will be."""

    is_steady: bool
    excess_s: float
    """Seconds by which ``torch.compile`` and the calls took longer than steady calls do, in all."""
    passes: int
    """How often all calls were made."""
    call_count: int
    """Calls of one pass."""
    inputs: str | None
    """The arguments of the last call, in short."""
    items: CallItems | None
    cache: CacheCounts | None
    """None without torch.compile."""
    uses_cuda: bool


class BenchTurn(TypedDict):
    """The times of one turn."""

    times_us: list[float]
    """Time of a call in each block, in microseconds."""
    calls: int
    """Calls in a block."""
    peak_memory_bytes: int | None
    """The most memory until now, since the calls are steady; None if unknown."""


UnseenReads = Literal["network", "processes", "reads"]
"""What a process may have read without our seeing it: from a network, in processes that it forked, or anything."""


class ReadsRecord(TypedDict):
    """``reads.json``: what a process read, as far as Python knows."""

    files: list[str]
    """Absolute paths, those of modules and mapped files among them, but for what changed while the process ran."""
    missing: list[str]
    """Paths that it tried to open, of no file."""
    search_path: list[str]
    """Where modules are looked for."""
    prefix: list[str]
    """Folders of the interpreter and its environment."""
    unseen: list[UnseenReads]


# Events.

EventName = Literal[
    "process",
    "rank",
    "process_ended",
    "phase",
    "environment",
    "target",
    "batch",
    "config",
    "gap",
    "compile_switch",
    "call_failed",
    "error",
    "exited",
    "interrupted",
    "finished",
    "library",
    "architectures",
    "program",
    "refused",
    "ended",
    "settling",
    "coverage",
    "steady_call",
    "guard_cost",
    "trial",
    "part",
    "vary_plan",
    "variation",
    "vary_end",
    "kernels",
    "profiled_call",
    "memory",
    "calibration",
    "cuda_graphs",
    "float32_precision",
    "lane",
    "export",
    "export_calls",
]
"""What an event tells; each is a line of ``probe.jsonl`` that is written at once."""


class BillRecord(TypedDict):
    """What a check saves without one part of the guard tree; None for less than can be measured."""

    source: str
    check_us: float | None


class GuardCostRecord(TypedDict):
    """What the guard checks of one compile cost; only its id and its runs where they couldn't be measured."""

    compile_id: str
    runs: int
    search_us: NotRequired[float]
    """One search that found it, in the call."""
    search_low_us: NotRequired[float]
    search_high_us: NotRequired[float]
    check_us: NotRequired[float]
    check_low_us: NotRequired[float]
    check_high_us: NotRequired[float]
    bill: NotRequired[list[BillRecord]]
    unbilled_count: NotRequired[int]


class GuardCostEvent(TypedDict):
    """What guard checks cost in a steady call: median and quartiles."""

    event: Literal["guard_cost"]
    call_us: float
    call_low_us: float
    call_high_us: float
    call_count: int
    searches_us: NotRequired[float]
    """All searches for compiled code in one call; without these four if they couldn't be measured."""
    searches_low_us: NotRequired[float]
    searches_high_us: NotRequired[float]
    profiler_us: NotRequired[float]
    """What was taken off each search for the profiler."""
    entries: list[GuardCostRecord]
    is_complete: bool


class KernelRecord(TypedDict):
    """The fields of ``KernelTime``."""

    name: str
    kind: KernelKind
    us: float
    count: int


class KernelsEvent(TypedDict):
    """The fields of ``KernelShare``."""

    event: Literal["kernels"]
    device: Literal["cpu", "cuda"]
    call_us: float
    unprofiled_us: float
    library_us: float | None
    generated_us: float | None
    copy_us: float | None
    communication_us: float | None
    graph_input_copy_us: float | None
    launches: int | None
    graph_launches: int
    region_runs: int
    region_us: float
    outside_us: float
    largest: list[KernelRecord]


class InductorRunRecord(TypedDict):
    """One run of a graph that Inductor compiled, in a profiled call."""

    graph: int
    """Inductor's number of the graph, as in ``InductorGraphArtifact``."""
    phase: ProfilePhase
    us: float
    """The host's time."""


class KernelRunRecord(TypedDict):
    """One run of a kernel in a profiled call."""

    name: str
    kind: KernelKind
    us: float
    """Time that no earlier kernel has; the median over all profiled calls that ran the same kernels."""
    phase: ProfilePhase
    operation: str | None
    """The outermost operation that computes, such as ``aten::addmm``, that it is, or that launched it; None for a
    generated kernel and one that nothing on the host can be told of."""
    launch: int | None
    """Which time the operation ran: one can launch several kernels. None like ``operation``."""
    run: int | None
    """Index of the graph's run; None outside any."""


class ProfiledCallEvent(TypedDict):
    """A steady call, kernel by kernel."""

    event: Literal["profiled_call"]
    device: Literal["cpu", "cuda"]
    times_us: list[float]
    """Single calls without the profiler."""
    profiled_us: float
    """The call under the profiler."""
    runs: list[InductorRunRecord]
    kernels: list[KernelRunRecord]
    """In the order of their beginnings."""
    eager: EagerCallRecord | None
    """The same call without torch.compile; None if it wasn't measured."""


class EagerCallRecord(TypedDict):
    """A call without torch.compile."""

    times_us: list[float]
    kernels_us: float | None
    launches: int | None


class CalibrationRecord(TypedDict):
    """What a device reaches, and what that depends on."""

    device_name: str
    """Of a CPU, its model."""
    torch: str
    """torch's version."""
    threads: int | None
    """Threads of an operation; None on a GPU."""
    precision: str
    """Of float32 products, such as ``highest``, as the program set it."""
    copy_gb_per_s: float
    """Gigabytes (1e9) a second that a copy reads and writes."""
    matmul_tflops_per_s: dict[str, float]
    """1e12 operations a second of a matrix product, by dtype; under ``tf32`` those of float32 in TF32, where products
    aren't in TF32 but convolutions are."""
    launch_us: float | None
    """What the launch of a small kernel takes; None on a CPU."""


class CalibrationEvent(TypedDict):
    """What the device reaches."""

    event: Literal["calibration"]
    found: CalibrationRecord
    is_kept: bool
    """All of it is from an earlier profile."""
    is_steady: bool
    """Each was measured twice with the same result, but for a tenth, so that it's worth keeping."""


# Artifacts.


class StackEntryRecord(TypedDict):
    """One line of a stack; columns are 1-based and count characters."""

    file: str
    line: int
    function: str
    text: str | None
    indent: int | None
    column: NotRequired[int]
    end_column: NotRequired[int | None]


class RootArtifact(TypedDict):
    """``graphdoctor_root``, after the ``dynamo_start`` of torch's own wrapper around a module of the program."""

    expression: str
    """What the program calls the module."""
    class_name: str
    arguments: list[str]
    """What the module's ``forward`` calls the positional arguments."""
    place: StackEntryRecord
    """The program's line that compiles or makes the module."""
    container: NotRequired[str | None]
    """The class of torch's own that the module, or the one inside DistributedDataParallel, has its ``forward`` from;
    None if it is the program's. Missing in recordings of graphdoctor 0.1."""


class ValueRecord(TypedDict, total=False):
    """A guarded value: its type and text, and what a guard can be about."""

    type: str
    text: str
    dtype: str
    shape: list[int]
    stride: list[int]
    device: str
    requires_grad: bool
    keys: Any
    """A tensor's dispatch keys, or a dict's keys in short."""
    length: int
    place: str
    """File and line of a function, method or code object."""


class FailedGuardRecord(TypedDict):
    """A guard of a cache entry that the new values fail."""

    leaf: str
    """The class of the guard, or one of ours: ``RELATION``, ``MISSING``, ``DICT_KEYS``, ``ENTRY_GONE``."""
    source: str | None
    text: list[str]
    then: NotRequired[Any]
    """What the value was: a ``ValueRecord``, or old sizes by source."""
    now: NotRequired[Any]
    """What it is: a ``ValueRecord``, or a state of torch's."""
    sizes: NotRequired[dict[str, ValueRecord]]
    """The new values of the sources in a condition."""
    other: NotRequired[str]
    """The source of the same tensor."""
    line: NotRequired[tuple[str, int, str] | None]
    """File, line and function of the user's line that made torch guard on it."""


class ComparedEntryRecord(TypedDict):
    """A cache entry and its failed guards."""

    compile_id: str | None
    failed: list[FailedGuardRecord]
    hidden: int
    """Failed guards that are left out."""


class RecompileArtifact(TypedDict):
    """``graphdoctor_recompile``, after ``recompile_reasons``: the cache entries and their failed guards."""

    entries: int
    compared: list[ComparedEntryRecord]
    """The entry that the function's last call used, then others; empty if that one's failed guards are unknown."""
    caller: list[StackEntryRecord]
    loops: dict[str, str]
    """What counts the caller's loops."""
    stack_names: list[str]


class GraphArtifact(TypedDict, total=False):
    """``graphdoctor_graph``: a graph reaches the backend; what couldn't be read is missing."""

    index: int
    """In the order in which graphs reached the backend."""
    backend: str | None
    op_count: int
    tensor_op_count: int
    inputs: list[GraphInput]
    nodes: list[GraphNode]
    backend_s: float
    backend_error: str


class CalledArtifact(TypedDict):
    """``graphdoctor_called``: how often a script called a compiled function; the last one of each counts."""

    function: int
    """Its number in this process."""
    compiled: str
    """What was compiled, in short."""
    file: str | None
    """Where torch.compile was called."""
    line: int | None
    calls: int
    last_compile: int | None
    """The last of its calls in which torch began to compile; None if none did."""
    compiling_calls: int
    """In how many calls in a row, up to that one, torch began to compile."""
    unwatched: dict[UnwatchedReason, int]
    """Calls that weren't watched when they were due."""
    is_deferred: bool
    """It is a generator or a coroutine function: its work happens after the call."""
    is_end: bool
    """The process ends, so the counts are final."""


class WatchedCallArtifact(TypedDict):
    """``graphdoctor_watched_call``: one call of a script that was watched as it happened."""

    function: int
    call: int
    """Its number among the calls of this function, from 1."""
    outcome: WatchOutcome
    duration_us: float
    is_profiled: bool
    cost_us: float
    """What watching took, before and after the call."""
    graph_runs: NotRequired[int]
    """With the next three: only of a profiled call that is steady."""
    graph_ops: NotRequired[int]
    eager_ops: NotRequired[int]
    eager_op_names: NotRequired[dict[str, int]]


class RunChange(TypedDict):
    """What is other in a script that is run again, in the environment variable ``RUN_CHANGE_VARIABLE``, as JSON."""

    settings: list[tuple[str, bool | int | float | str]]
    """torch settings by dotted name, with their values."""
    compile_inside_ddp: bool
    """torch.compile of a DistributedDataParallel compiles the module inside it."""


class InductorOperationRecord(TypedDict):
    """A node of the graph from which Inductor generates code, after all passes."""

    name: str
    operation: str
    """The operation that it was decomposed from, such as ``aten.gelu.default``, or it itself."""
    target: str
    """What it is now, such as ``aten.erf.default``."""
    is_view: bool
    """It computes nothing."""
    bytes: int | None
    """Size of the tensors that it makes."""
    elements: int | None
    """Of the largest tensor that it takes or makes."""
    dtype: str | None
    """dtype of that tensor, such as ``float32``; None if it makes none."""
    input_dtypes: list[str]
    """dtypes of the tensors that it reads, each once, in order."""
    is_stored: bool
    """Its value is written to memory: something outside its kernels reads it, or the graph returns it."""
    stack: int | None
    """Index of its stack."""
    module: str | None
    """The innermost module that it is in, such as ``L['self'].layers.0``."""


class InductorKernelRecord(TypedDict):
    """One call of a kernel in generated code."""

    name: str
    """As the profiler has it, or the library's function, such as ``extern_kernels.mm``."""
    kind: InductorKernelKind
    operations: list[int]
    """Indices of the operations that it computes, or that it only brings a tensor into a layout for; views only if it
    has nothing else."""
    bytes: int | None
    """Memory that it must read and write at least, as Inductor estimates it (``get_read_write_buffers_sizes``,
    ``torch/_inductor/scheduler.py``, 2.13)."""
    flops: int | None
    """Floating-point operations of its matrix products and convolutions, as torch counts them; None if it has none."""
    dtype: str | None
    """dtype of the factors of these; None if it has none."""


class SavedTensorRecord(TypedDict):
    """A tensor that a forward graph keeps for its backward graph; the fields of ``KeptTensor`` in model/profiled.py."""

    name: str
    """The node that is kept; it can be a view."""
    operation: str | None
    """The operation that makes its memory, as in ``InductorOperationRecord``; None for an argument."""
    tensor: str
    """dtype and shape of that, such as ``f32[8, 128]``."""
    bytes: int | None
    is_argument: bool
    is_cheap: bool | None
    stack: int | None
    """Index of that operation's stack."""
    module: str | None


class PartitionRecord(TypedDict):
    """What a forward graph and its backward graph have to do with each other."""

    saved: list[SavedTensorRecord]
    """Each memory once."""
    recomputed: dict[str, int]
    """Operations that both compute, without views, and how many of each."""
    draws_random: bool
    """The forward graph draws random numbers."""


class InductorGraphArtifact(TypedDict):
    """``graphdoctor_inductor_graph``: a graph for which Inductor generated code."""

    graph: int
    """Inductor's number; a graph and its backward have the same."""
    phase: ProfilePhase
    operations: list[InductorOperationRecord]
    kernels: list[InductorKernelRecord]
    """In the order of the calls in the code."""
    stacks: list[list[tuple[str, int, str]]]
    """File, line and function of each entry that isn't torch's or Python's, outermost first."""
    partition: PartitionRecord | None
    """Of a forward graph that has a backward graph; None for others, and if it is unknown."""


ArtifactName = Literal[
    "graphdoctor_call",
    "graphdoctor_compile_call",
    "graphdoctor_root",
    "graphdoctor_caller",
    "graphdoctor_recompile",
    "graphdoctor_stack",
    "graphdoctor_graph",
    "graphdoctor_sources",
    "graphdoctor_file",
    "graphdoctor_generated",
    "graphdoctor_called",
    "graphdoctor_watched_call",
    "graphdoctor_inductor_graph",
    "graphdoctor_steps",
]
