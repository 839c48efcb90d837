"""The facts of ``graphdoctor profile``: where the time of a steady compiled call goes, by line,
module and kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .base import Document, Fact
from .bench import CallTimes
from .diagnosis import Finding
from .kernels import CacheUse, CodeLine, CudaGraphs, Device, ProfilePhase
from .picture import Picture
from .profiled import Calibration, PeakOf
from .recording import CaptureGap, Environment, TargetInfo
from .stack import StackEntry

ProfiledKind = Literal[
    "pointwise",
    "reduction",
    "template",
    "library",
    "communication",
    "user",
    "copy",
    "generated",
    "other",
]
"""A kind of kernel. ``pointwise`` and ``reduction``: Inductor wrote it; ``template``: Inductor made
it from a template; ``library``: a library's (cuBLAS, oneDNN, ATen); ``communication``: between
processes; ``user``: the program's own, in Triton; ``copy``: it copies memory; ``generated``:
Inductor's, but of no known graph; ``other``: none of these."""

BoundBy = Literal["host", "memory", "compute", "arithmetic", "communication", "latency"]
"""A limit that a call, or a kernel, waits for. ``host``: the device, or the kernels, wait for
Python and launches; ``memory``: its bandwidth; ``compute``: matrix products and convolutions;
``arithmetic``: other arithmetic, such as ``tanh``; ``communication``: other processes;
``latency``: a kernel so short that it reaches none of them. A longer one that reaches none has
none of these."""


class ProfiledKernel(Fact):
    """All runs of one kernel in the call that compute the same operations."""

    name: str
    """As the profiler names it, or for a library's function as the generated code does."""
    kind: ProfiledKind
    phase: ProfilePhase
    operations: tuple[str, ...]
    """The operations of the program's graph that it computes, each once, such as ``aten.gelu``; for
    a kernel outside any compiled graph the operation that launched it. Empty if unknown."""
    operation_count: int
    """Nodes that were fused into it, after decompositions; 0 if unknown."""
    lines: tuple[CodeLine, ...]
    """The lines that these come from, the one with the largest part first; empty if unknown."""
    calls: int
    time_us: float
    """Microseconds of all runs."""
    share: float
    """Of the call without the profiler, its median."""
    bytes: int | None
    """Memory that all runs must read and write at least, as Inductor estimates it; None if
    unknown."""
    flops: int | None
    """Floating-point operations of all runs; None if unknown, or it has no matrix product and no
    convolution."""
    gb_per_s: float | None = None
    """Gigabytes (1e9) a second that it reached by these bytes."""
    tflops_per_s: float | None = None
    """1e12 floating-point operations a second that it reached."""
    bandwidth_share: float | None = None
    """Of what a copy reached on this device; can be above 1 where a cache holds what it reads."""
    compute_share: float | None = None
    """Of what a matrix product reached on this device, with the same dtype."""
    argument_bytes: int | None = None
    """The part of its bytes that is read of the graph's arguments, such as parameters; None if
    unknown."""
    elementwise: dict[str, int] | None = None
    """For how many elements all runs compute each operation on single elements, such as ``tanh``,
    by Inductor's names; None if Inductor didn't write it, or that is unknown."""
    arithmetic_share: float | None = None
    """Of its time, what this device takes at least for those; can be above 1 where a kernel
    computes once what it is counted for twice. None if unknown."""
    bound_by: BoundBy | None = None
    """The limit that it waits for; None if unknown."""
    dtype: str | None = None
    """dtype of its matrix products; None if it has none, or that is unknown."""
    compile_id: str | None = None
    """The compile that it belongs to; None outside compiled graphs."""
    graph: int | None = None
    """Inductor's number of its graph; None outside any."""


class TimePart(Fact):
    """A part of a kernel's time that one line of one module has.

    A kernel's time is shared among the operations that are fused into it, in proportion to the
    elements that each works on; an operation's share belongs to the innermost line of the program
    that computes it.
    """

    kernel: int
    """Index of the kernel."""
    us: float
    """Microseconds."""
    stack: tuple[StackEntry, ...]
    """The operation's stack, outermost first; its last entry is the line."""
    module: str | None
    """The innermost module."""

    @property
    def place(self) -> tuple[str, int]:
        """File and number of the line."""
        return self.stack[-1].file, self.stack[-1].line


class ProfiledLine(Fact):
    """The cost of one line of the program."""

    file: str
    line: int
    """1-based."""
    text: str | None
    """The line as it was; None if unknown."""
    forward_us: float
    """Its share of kernels of the forward pass, in microseconds."""
    backward_us: float
    """Its share of kernels of the backward pass."""
    share: float
    """Both, of the call without the profiler."""
    kernels: tuple[int, ...]
    """Indices of the kernels that it went into, the most costly first."""
    bound_by: BoundBy | None = None
    """The limit that most of that time waits for; None if unknown."""


class ProfiledModule(Fact):
    """The cost of one module, with everything in it."""

    path: str
    """Such as ``layers.0.attention``; empty for the target itself."""
    forward_us: float
    backward_us: float


RegimeDoubt = Literal[
    "unseen", "scattered", "long_kernels", "short_profiled", "uncalibrated", "unsteady", "unreached"
]
"""A reason why the limit of a call is unknown. ``unseen``: the profiler saw no kernels;
``scattered``: calls differ too much; ``long_kernels``: they take longer than the call without the
profiler; ``short_profiled``: the call is shorter under it; ``uncalibrated``: nobody measured what
the device reaches; ``unsteady``: other work disturbed that; ``unreached``: most kernels come close
to none of it."""


class Regime(Fact):
    """The limit of the call as a whole."""

    bound_by: BoundBy | None
    """None if it is unknown."""
    text: str
    """One or two sentences with the numbers."""
    evidence: dict[str, float]
    """The numbers: shares of the call, counts, microseconds."""
    advice: tuple[str, ...] = ()
    """Advice for that regime, the most useful first."""
    doubt: RegimeDoubt | None = None
    """None if the limit is known."""
    largest: BoundBy | None = None
    """The limit with the largest part that is known."""
    close: BoundBy | None = None
    """Another limit, whose part is nearly as large; None if there is none."""


class Fusion(Fact):
    """Inductor's fusion in the graphs that ran in the call."""

    operations: int
    """Operations of the graphs that compute something, before decomposition."""
    decomposed: int
    """The same after decomposition and passes."""
    kernels: int
    """Calls of kernels in the generated code."""
    vanished: int
    """Values that never get to memory, because what reads them is in the same kernel."""
    vanished_bytes: int | None
    """Their size; None if unknown."""
    eager_launches: int | None
    """Kernels of the call without torch.compile; None if unknown."""
    launches: int | None
    """Kernels of the call."""


class SavedTensor(Fact):
    """A tensor that the forward pass keeps for the backward pass, or equal ones that one line
    keeps, as layers do.
    """

    name: str
    """The node that makes it; of several, the first."""
    operation: str | None
    """The operation that computes it, such as ``aten.gelu``; None for an argument."""
    bytes: int | None
    """Its size, of several that of all; None if unknown."""
    is_argument: bool
    """An argument of its graph, such as a parameter or an input, which is in memory anyway."""
    file: str | None = None
    """Path of the line that computes it."""
    line: int | None = None
    """1-based."""
    compile_id: str | None = None
    """The compile that it belongs to; None if there are several, or it is unknown."""
    tensor: str | None = None
    """dtype and shape of one, such as ``f32[8, 128]``; None if unknown."""
    count: int = 1
    module: str | None = None
    """The innermost module that computes it, such as ``layers.0.mlp``, or ``layers.*.mlp`` of
    several; None if their paths differ in more than numbers, or it is unknown."""
    is_cheap: bool | None = None
    """It can be computed again from what else is kept by code that Inductor writes itself, without
    matrix products, convolutions and random numbers; None for an argument, and if that is
    unknown."""


class MemoryUse(Fact):
    """Memory of the call."""

    saved: tuple[SavedTensor, ...]
    """Kept for the backward pass by compiled graphs, whether the call runs it or not, the largest
    first; empty if nothing is kept, and if ``saved_bytes`` is None perhaps because that is
    unknown."""
    saved_bytes: int | None
    """All that is kept and wasn't in memory before the call; None if unknown."""
    recomputed: dict[str, int]
    """Operations that the backward pass computes again, such as ``aten.gelu``, and how many of
    each."""
    recomputed_count: int
    peak_bytes: int | None
    """The most memory during the call; None if unknown."""
    peak_of: PeakOf | None = None
    """The memory that the peak is of; None if nothing was measured."""
    before_bytes: int | None = None
    """The same memory before the call; None if unknown."""
    unlisted_bytes: int | None = None
    """The part of ``saved_bytes`` that isn't in ``saved`` or an argument there: what operations
    outside of graphs keep, or compute for a graph, and what graphs keep of which nothing is known;
    None if unknown."""
    eager_saved_bytes: int | None = None
    """The size that the same call keeps without torch.compile; None if unknown."""
    has_backward: bool = False
    """The call runs the backward pass; otherwise what is kept lives as long as the result."""


class ProfileReport(Document):
    """The report of ``graphdoctor profile``."""

    environment: Environment | None
    """Python, torch and the machine; None if the program never got so far."""
    target: TargetInfo
    call: str | None = None
    """The call that was profiled: the arguments of the last one, in short."""
    compiled_for: str | None = None
    """The call that a graph of dynamic sizes was compiled for, if it was another one: all sizes,
    bytes and rates of kernels and tensors are with its sizes. None otherwise."""
    device: Device | None
    """Whose kernels were measured; None if none were."""
    call_us: CallTimes | None
    """Steady calls without the profiler; None if there is no steady call."""
    eager_us: CallTimes | None = None
    """The same call without torch.compile, in the same process; `graphdoctor bench` compares them
    better."""
    kernels_us: float | None = None
    """All kernels and copies of the call; None if the profiler didn't say."""
    regime: Regime | None = None
    """Its limit; None if that is unknown."""
    kernels: tuple[ProfiledKernel, ...] = ()
    """The most costly first."""
    lines: tuple[ProfiledLine, ...] = ()
    """The most costly first."""
    modules: tuple[ProfiledModule, ...] = ()
    """In the order of their paths."""
    parts: tuple[TimePart, ...] = ()
    """Every part of every kernel's time that a line has."""
    unattributed_us: float | None = None
    """Time of kernels that no line is known of: outside compiled graphs, and those that torch
    doesn't trace to a line."""
    rest_us: float | None = None
    """The time in no kernel: Python, guards, launches, waiting."""
    fusion: Fusion | None = None
    """None if no graph of Inductor's ran."""
    memory: MemoryUse | None = None
    """None if it wasn't measured."""
    cuda_graphs: CudaGraphs | None = None
    """None if none were asked for."""
    graph_launches: int | None = None
    """CUDA graphs that were launched in the call; None if its kernels weren't measured."""
    graph_input_copy_us: float | None = None
    """Copies into the static inputs of CUDA graphs; None if unknown."""
    caches: CacheUse | None = None
    """The use of the caches of graphs in this run, which began with empty ones."""
    compile_s: float | None = None
    """Seconds of compiling in this run, with our own records of it; None if torch didn't say. All
    code was generated; what was compiled from the same code before, in C++ or Triton, wasn't
    compiled again."""
    calibration: Calibration | None = None
    """Rates that this device reaches; None if it wasn't measured."""
    findings: tuple[Finding, ...] = ()
    """Findings to act on, the most costly first."""
    gaps: tuple[CaptureGap, ...] = ()
    recording: str | None = None
    """Folder of the recording."""


@dataclass(frozen=True)
class ProfileResult:
    """A profile, ready to be written in any format.

    Args:
        report: Where the time goes.
        picture: Source files and generated code; None if it wasn't read, or there is nothing left
            to read it from.
    """

    report: ProfileReport
    picture: Picture | None = None
