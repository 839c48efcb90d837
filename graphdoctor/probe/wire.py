"""What the probe and the other rooms agree on: file names, the format, the request, events, artifacts, hint codes.

The one module of the probe that other rooms may import, and it needs nothing but the standard library. The probe writes
what is declared here, ``trace`` reads it, ``bundle`` redacts it; none of them reads another's sentences. An event is
a line of ``probe.jsonl``, written at once. An artifact is a record of ours in torch's trace log, under the compile id
that is under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from ..facts.catalog import RefusalKind
from ..facts.hints import HintCode, HintValue
from ..facts.kernels import KernelKind, ProfilePhase
from ..facts.profiled import InductorKernelKind
from ..facts.recording import BlockEntry, GapKind, SwitchKind
from ..facts.run import PhaseKind
from ..facts.trials import CompilerPartKind, TextChange
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


class ErrorRecord(TypedDict):
    """An exception of the program's."""

    type: str
    message: str
    traceback: str


# Events.


class ProcessEvent(TypedDict):
    """The first event: the main process."""

    event: Literal["process"]
    pid: int


class RankEvent(TypedDict):
    """A process of a job begins, as its launcher's variables say (``RANK``, ``WORLD_SIZE``)."""

    event: Literal["rank"]
    pid: int
    rank: int
    world_size: int


class ProcessEndedEvent(TypedDict):
    """A process of a job ran to its end; one that raised, was killed, or called ``os._exit``, doesn't."""

    event: Literal["process_ended"]
    pid: int


class PhaseEvent(TypedDict):
    """What begins now."""

    event: Literal["phase"]
    phase: str
    """For people, such as ``importing the target``, ``call 2`` or ``call 2, compiling 0/1``."""
    kind: PhaseKind
    """For whoever decides by it."""


class EnvironmentEvent(TypedDict):
    """Where the target runs: the fields of ``Environment``; written again once the device's name is known."""

    event: Literal["environment"]
    python: str
    torch: str
    torch_build: str
    platform: str
    executable: str
    device_name: str | None
    torch_root: str
    stdlib_root: str
    site_roots: list[str]
    packages: dict[str, str]


class BlocksRecord(TypedDict):
    """Modules of one class that repeat: the fields of ``RepeatedBlocks``."""

    class_name: str
    paths: list[str]
    kinds: int
    compiled_as: BlockEntry
    container: str | None


class TargetEvent(TypedDict):
    """What the target turned out to be: fields of ``TargetInfo``."""

    event: Literal["target"]
    name: str
    kind: str
    class_name: str
    file: str | None
    parameters: list[str] | None
    inputs_from: str
    blocks: list[BlocksRecord] | None


class BatchedRecord(TypedDict):
    """A tensor in the calls with a batch dim: the fields of ``BatchedTensor``."""

    expression: str
    path: str


class BatchEvent(TypedDict):
    """Tensors whose batch size is another than the program's, once for each that is found."""

    event: Literal["batch"]
    tensors: list[BatchedRecord]


class ConfigEvent(TypedDict):
    """torch's config values that aren't the default, as Python writes them; again when the calls changed some."""

    event: Literal["config"]
    values: dict[str, str]


class GapEvent(TypedDict):
    """Something that the recording lacks."""

    event: Literal["gap"]
    kind: GapKind
    message: str


class CompileSwitchEvent(TypedDict):
    """Something that can keep torch.compile from compiling, once."""

    event: Literal["compile_switch"]
    kind: SwitchKind
    value: str
    """The variable, the config value, the stance, or the name and place of what replaced torch.compile."""
    call: int | None
    """The first call that was made under it; None if it was found outside the calls."""


class CallFailedEvent(ErrorRecord):
    """A call raised; it is tried without torch.compile next."""

    event: Literal["call_failed"]
    index: int
    from_compiler: bool
    dtype: NotRequired[str | None]
    """Written again with this and the next, where the call was changed and fails in eager mode too."""
    batch: NotRequired[int | None]


class ErrorEvent(TypedDict):
    """The run ended outside a call: the program raised, or the target or the request can't be used."""

    event: Literal["error"]
    type: NotRequired[str]
    """Of the program's exception; missing where the probe refuses the target or the request."""
    message: NotRequired[str]
    hint: NotRequired[str | None]
    traceback: NotRequired[str]
    code: NotRequired[HintCode]
    """Why the request can't be done, in the place of a message."""
    values: NotRequired[dict[str, HintValue]]


class ExitedEvent(TypedDict):
    """The program called ``sys.exit``."""

    event: Literal["exited"]
    status: int
    place: str | None
    """File and line of the call."""
    traceback: str


class InterruptedEvent(TypedDict):
    """``KeyboardInterrupt`` reached the probe."""

    event: Literal["interrupted"]


class FinishedEvent(TypedDict):
    """The probe did all it was asked to do, or as much as it could after a failed call."""

    event: Literal["finished"]
    is_complete: bool
    """Every call came back."""
    peak_memory_bytes: NotRequired[int]


class LibraryEvent(TypedDict):
    """A catalog's library was imported."""

    event: Literal["library"]
    version: str


class ArchitectureRecord(TypedDict):
    """The fields of ``Architecture``."""

    name: str
    family: str


class ArchitecturesEvent(TypedDict):
    """What a library has."""

    event: Literal["architectures"]
    architectures: list[ArchitectureRecord]


class ProgramEvent(TypedDict):
    """The program of an architecture was written, and runs in eager mode."""

    event: Literal["program"]
    parameters: int
    """How many numbers its model learns."""


class RefusedEvent(TypedDict):
    """There is no program of an architecture."""

    event: Literal["refused"]
    kind: RefusalKind
    message: str
    traceback: str | None
    """Of the exception, if there was one."""


class EndedEvent(TypedDict):
    """A script or a block ended, other than by ``os._exit`` or a signal."""

    event: Literal["ended"]
    error: NotRequired[ErrorRecord]


class SettlingEvent(TypedDict):
    """What the repetitions of the last call compiled."""

    event: Literal["settling"]
    compiles: list[int]
    """Compiles that began in each repetition; 0 in the last one if the call is steady by then."""
    is_over_limit: bool
    """A function hit its recompile limit in the last one, because of the repetitions."""


class CoverageEvent(TypedDict):
    """The fields of ``Coverage``."""

    event: Literal["coverage"]
    graph_ops: int
    eager_ops: int
    extra_calls: int
    extra_compiles: int
    eager_op_names: dict[str, int]


class GraphRunRecord(TypedDict):
    """One run of a graph in a steady call."""

    graph: int
    start_us: float
    end_us: float


class SteadyCallEvent(TypedDict):
    """The fields of ``SteadyCall``."""

    event: Literal["steady_call"]
    call_us: float
    runs: list[GraphRunRecord]


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


class DifferenceRecord(TypedDict):
    """The fields of ``Difference``."""

    kind: str
    where: str
    largest: float | None
    detail: str | None
    change: TextChange | None
    may_be_rounding: bool


class ComparisonRecord(TypedDict):
    """The fields of ``Comparison``."""

    kinds: list[str]
    differences: list[DifferenceRecord]
    is_bitwise_equal: bool
    note: str | None


class ResultErrorRecord(TypedDict):
    """The fields of ``ResultError``."""

    kind: str
    variant: float
    eager: float


class TrialEvent(TypedDict):
    """How a replay's results compare with those of others: the fields of ``Replay``."""

    event: Literal["trial"]
    compared: dict[str, ComparisonRecord]
    errors: list[ResultErrorRecord]
    kinds_apart: list[str]
    is_rounding_known: bool
    draws_random: bool
    is_stopped: bool
    lost: list[str]
    steady_us: NotRequired[float | None]


class PartEvent(TypedDict):
    """A part of the compiler at its first use, or where it would have been used if it weren't left out."""

    event: Literal["part"]
    kind: CompilerPartKind
    name: str


class PlannedProperty(TypedDict):
    """A property that may be varied."""

    expression: str
    kind: str
    base: str
    tied: list[str]


class VaryPlanEvent(TypedDict):
    """The properties to vary, before the first is tried."""

    event: Literal["vary_plan"]
    properties: list[PlannedProperty]


class TriedRecord(TypedDict):
    """The fields of ``TriedValue``."""

    value: str
    is_special: bool
    outcome: str
    compiles: NotRequired[int]
    compile_s: NotRequired[float]
    torch_reason: NotRequired[str | None]
    error: NotRequired[str]


class VariedRecord(TypedDict, total=False):
    """What came of varying a property."""

    tied: list[str]
    tried: list[TriedRecord]
    back_compiles: int
    reason: str


class VariationEvent(PlannedProperty):
    """What came of varying one property, as soon as it is known; none for one that can only be varied with another."""

    event: Literal["variation"]
    number: int
    """Its place in the plan."""
    tried: NotRequired[list[TriedRecord]]
    back_compiles: NotRequired[int]
    reason: NotRequired[str]


class VaryEndEvent(TypedDict):
    """Everything that had to be tried was."""

    event: Literal["vary_end"]


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


class MemoryEvent(TypedDict):
    """The fields of ``MeasuredMemory``: memory of a steady call."""

    event: Literal["memory"]
    peak_of: Literal["allocator", "process"]
    before_bytes: int | None
    peak_bytes: int | None
    saved_bytes: int | None
    eager_saved_bytes: int | None


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


class CudaGraphSkipRecord(TypedDict):
    """A graph that torch didn't record as a CUDA graph."""

    reason: str | None
    """In torch's words; None if it counts the graph and says nothing."""
    compile_id: str | None
    """The compile in which it said so; None outside any."""


class GraphPartitionsRecord(TypedDict):
    """The fields of ``GraphPartitions``."""

    compile_id: str | None
    count: int
    recordable: int


class CudaGraphInputRecord(TypedDict):
    """An input of a function that torch records as CUDA graphs."""

    placeholder: str
    """Its name in the graph that Inductor compiled, such as ``primals_3``."""
    shape: list[int]
    bytes: int
    """What copying it moves."""


class CudaGraphFunctionRecord(TypedDict):
    """The fields of ``CudaGraphFunction``."""

    compile_id: str | None
    phase: ProfilePhase
    name: str
    sizes: int
    recordings: int
    rerecordings: int
    copied: list[CudaGraphInputRecord]
    moved: list[CudaGraphInputRecord]
    mutated: list[str]
    """Placeholders."""


class CudaGraphsEvent(TypedDict):
    """What became of CUDA graphs in a run that asks for them."""

    event: Literal["cuda_graphs"]
    has_device: bool
    """There is a CUDA device."""
    captured: int | None
    """Functions that torch recorded; None if unknown."""
    skipped: list[CudaGraphSkipRecord]
    left_out: list[CudaGraphSkipRecord]
    """Operations that it leaves out of CUDA graphs."""
    partitions: list[GraphPartitionsRecord]
    """Graphs that it split."""
    functions: list[CudaGraphFunctionRecord] | None
    """What it is to record; None if this torch doesn't tell."""


class Float32PrecisionEvent(TypedDict):
    """What float32 computes with on CUDA after the calls: the fields of ``Float32Precision``."""

    event: Literal["float32_precision"]
    matmul_tf32: bool
    convolution_tf32: bool
    capabilities: list[list[int]]


class LaneEvent(TypedDict):
    """Where the time of a call goes; written again for a call that was repeated under the profiler."""

    event: Literal["lane"]
    call: int | None
    """None for the steady call."""
    duration_us: float
    is_profiled: bool
    segments: list[list[Any]]
    """Each ``[kind, start_us, end_us, compile_id, graph]`` or ``["eager", start_us, end_us, {name: count}, count]``."""
    hidden: int
    """Segments that are left out, the shortest."""


class NamedClassRecord(TypedDict):
    """The fields of ``NamedClass``."""

    name: str
    module: str
    is_dataclass: bool


class ExportFailureRecord(TypedDict):
    """Why torch.export made no program."""

    type: str
    message: str
    stack: list[StackEntryRecord]
    """The program's lines that led there and torch's below them, outermost first; the definition of what is exported
    where there is none."""
    is_at_line: bool
    """There are such lines."""
    is_truth: bool
    """The program asked whether a tensor is true."""
    classes: list[NamedClassRecord]
    """Classes of the program that the message names."""


class ExportInputRecord(TypedDict):
    """The fields of ``ExportInput``."""

    name: str
    kind: str
    target: str | None
    value: str | None


class ExportDimRecord(TypedDict):
    """One dim that torch.export was to leave dynamic."""

    source: str
    dim: int
    size: int
    is_dynamic: bool
    expression: str | None
    """In torch's symbols; None for a constant, as the next two."""
    low: int | None
    high: int | None
    other_sizes: list[int]
    """Sizes that fit too, each together with those of all dims at the same place."""
    stack: list[StackEntryRecord]
    """The lines that made it a constant; empty if they are unknown."""
    is_by_another: bool
    """It must equal a dim that is a constant."""


class ExportEvent(TypedDict):
    """What torch.export made of the target: fields of ``Export``."""

    event: Literal["export"]
    is_strict: bool
    is_wrapped: bool
    seconds: float
    line: str
    """Python that makes the same program."""
    failure: ExportFailureRecord | None
    op_count: int | None
    inputs: list[ExportInputRecord]
    constraints: list[str]
    dims: list[ExportDimRecord]


class DifferingDimRecord(TypedDict):
    """The fields of ``DifferingDim``."""

    source: str
    dim: int
    sizes: list[int]


class ExportCallsEvent(TypedDict):
    """How the program's calls differ: fields of ``ExportCalls``."""

    event: Literal["export_calls"]
    total: int
    made: int
    differing: list[DifferingDimRecord]
    other: list[int]


Event = (
    ProcessEvent
    | RankEvent
    | ProcessEndedEvent
    | PhaseEvent
    | EnvironmentEvent
    | TargetEvent
    | BatchEvent
    | ConfigEvent
    | GapEvent
    | CompileSwitchEvent
    | CallFailedEvent
    | ErrorEvent
    | ExitedEvent
    | InterruptedEvent
    | FinishedEvent
    | LibraryEvent
    | ArchitecturesEvent
    | ProgramEvent
    | RefusedEvent
    | EndedEvent
    | SettlingEvent
    | CoverageEvent
    | SteadyCallEvent
    | GuardCostEvent
    | TrialEvent
    | PartEvent
    | VaryPlanEvent
    | VariationEvent
    | VaryEndEvent
    | LaneEvent
    | KernelsEvent
    | ProfiledCallEvent
    | CalibrationEvent
    | MemoryEvent
    | CudaGraphsEvent
    | Float32PrecisionEvent
    | ExportEvent
    | ExportCallsEvent
)


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


class CallErrorRecord(ErrorRecord):
    """The fields of ``CallError``."""

    from_compiler: bool
    eager: NotRequired[str]
    eager_message: NotRequired[str]


class CallArtifact(TypedDict):
    """``graphdoctor_call``: a call starts or ends; number None for the repetitions that measure something."""

    event: Literal["start", "end"]
    index: int | None
    inputs: NotRequired[str]
    outcome: NotRequired[Literal["ok", "error"]]
    duration_s: NotRequired[float]
    error: NotRequired[CallErrorRecord]


class CompileCallArtifact(TypedDict):
    """``graphdoctor_compile_call``: a script calls torch.compile; what is compiled and the arguments are in short."""

    file: str
    line: int
    function: str
    compiled: str
    arguments: dict[str, str]


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


CallerArtifact = list[StackEntryRecord]
"""``graphdoctor_caller``, after ``dynamo_start``: the stack that led to a frame; torch's own lacks the caller."""


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


class StackArtifact(TypedDict):
    """``graphdoctor_stack``, after a break or error record: the exception's own stack; torch's print loses lines."""

    of: str
    """The record that it belongs to."""
    type: str
    gb_type: str | None
    stack: list[StackEntryRecord]


class GraphInputRecord(TypedDict):
    """The fields of ``GraphInput``."""

    name: str
    source: str | None
    kind: Literal["tensor", "symbol", "other"]
    dtype: NotRequired[str]
    shape: NotRequired[list[int | str]]
    device: NotRequired[str]
    is_parameter: NotRequired[bool]


class GraphNodeRecord(TypedDict):
    """The fields of ``GraphNode``."""

    name: str
    opcode: str
    target: str
    args: str
    kwargs: str
    value: str | None
    inputs: list[str]
    file: NotRequired[str]
    line: NotRequired[int]
    module: NotRequired[str]


class GraphArtifact(TypedDict, total=False):
    """``graphdoctor_graph``: a graph reaches the backend; what couldn't be read is missing."""

    index: int
    """In the order in which graphs reached the backend."""
    backend: str | None
    op_count: int
    tensor_op_count: int
    inputs: list[GraphInputRecord]
    nodes: list[GraphNodeRecord]
    backend_s: float
    backend_error: str


class EnclosingRecord(TypedDict):
    """A compound statement around a line."""

    kind: str
    line: int
    text: str


class SourceRecord(TypedDict):
    """What surrounds a line: the fields of ``SourceContext``."""

    file: str
    line: int
    qualname: str
    function_line: int | None
    statement: str
    statement_line: int | None
    statement_end_line: int | None
    readable: list[str]
    torch: str | None
    enclosing: list[EnclosingRecord]


SourcesArtifact = list[SourceRecord]
"""``graphdoctor_sources``: what surrounds the lines seen since the last one."""


class FileArtifact(TypedDict):
    """``graphdoctor_file``: a file's text, once; None where it can't be read or is over a bound."""

    file: str
    text: str | None


class GeneratedArtifact(TypedDict):
    """``graphdoctor_generated``: a file that appeared during the run, outside the project; its path can be random."""

    file: str
    maker: str | None
    """What holds one of its functions: a class or an attribute, such as ``model.Conv``; None if none was found."""


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


class StepsArtifact(TypedDict):
    """``graphdoctor_steps``, at the end of a process of a script that is run again under a change."""

    count: int
    """Calls of ``torch.autograd.backward``."""
    intervals_us: list[float]
    """Time from one to the next, of the last ones in which nothing was compiled."""
    losses: list[float]
    """What the first ones were called on, where it was a single number."""


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

Artifact = (
    CallArtifact
    | CompileCallArtifact
    | RootArtifact
    | CallerArtifact
    | RecompileArtifact
    | StackArtifact
    | GraphArtifact
    | SourcesArtifact
    | FileArtifact
    | GeneratedArtifact
    | CalledArtifact
    | WatchedCallArtifact
    | InductorGraphArtifact
    | StepsArtifact
)
