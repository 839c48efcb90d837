"""The recording of a profile: graphs for which Inductor generated code, and the runs of kernels in
one steady call.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import field
from typing import Literal, NamedTuple

from .base import Fact
from .kernels import Device, KernelKind, ProfilePhase
from .run import Setting
from .stack import StackEntry

InductorKernelKind = Literal[
    "pointwise", "reduction", "template", "library", "communication", "user", "other"
]
"""A kind of kernel in the code that Inductor generates. ``pointwise`` and ``reduction``: a kernel
that it wrote; ``template``: one that it made from a template, such as a matrix product;
``library``: a library's function; ``communication``: between processes; ``user``: a kernel that
the program wrote in Triton."""

ACTIVATION_BUDGET = "torch._functorch.config.activation_memory_budget"
"""The share of what AOTAutograd's partitioner would keep that it may keep
(``torch/_functorch/config.py``, 2.11 to 2.15)."""

_LEAST_CHEAP, _SMALLEST_BUDGET, _HALF = 0.1, 0.1, 0.5

PeakOf = Literal["allocator", "process"]
"""The memory that a peak is of. ``allocator``: torch's allocator of the CUDA device; ``process``:
resident memory of the process, which has Python and torch itself in it."""


class InductorOperation(Fact):
    """A node of the graph from which Inductor generates code, after all passes."""

    name: str
    """The node, such as ``mul_3``."""
    operation: str
    """The operation that it was decomposed from, such as ``aten.gelu.default``, or it itself."""
    target: str
    """The operation that it is now, such as ``aten.erf.default``."""
    is_view: bool
    """It computes nothing."""
    bytes: int | None
    """Size of the tensors that it makes; None if it makes none, or their size is unknown."""
    elements: int | None
    """The elements of the largest tensor that it takes or makes; None if unknown."""
    dtype: str | None = None
    """dtype of that tensor, such as ``float32``; None if it makes none."""
    input_dtypes: tuple[str, ...] = ()
    """dtypes of the tensors that it reads, each once, in order."""
    is_stored: bool
    """Its value gets to memory: something outside its kernels reads it, or the graph returns it."""
    stack: tuple[StackEntry, ...] = ()
    """The stack that computes it, or for a backward graph what it is the gradient of; outermost
    first, without torch's and Python's own entries. Empty if unknown."""
    module: str | None = None
    """The innermost module that it is in, such as ``L['self'].layers.0``; None outside any."""


class InductorKernel(Fact):
    """One call of a kernel in the code that Inductor generated."""

    name: str
    """As in the code, such as ``triton_poi_fused_add_0`` or ``extern_kernels.mm``."""
    kind: InductorKernelKind
    operations: tuple[int, ...]
    """Indices of the graph's operations that it computes, or that it only brings a tensor into a
    layout for; views only if it has nothing else."""
    bytes: int | None
    """Memory that it must read and write at least, as Inductor estimates it; None if it can't
    say."""
    flops: int | None
    """Floating-point operations of its matrix products and convolutions, a multiplication and an
    addition being two; None if it has none, or torch can't count them."""
    dtype: str | None = None
    """dtype of the factors of these; None if it has none."""
    argument_bytes: int | None = None
    """The part of its bytes that is read of the graph's arguments, such as parameters; None if
    unknown."""
    elementwise: dict[str, int] | None = None
    """For how many elements it computes each operation on single elements, such as ``tanh``, by the
    names of ``torch/_inductor/ops_handler.py``; None if it isn't written by Inductor, or a size is
    unknown. What two of its nodes compute counts twice, although code for it may be there once."""


class KeptTensor(Fact):
    """A tensor that a forward graph keeps for its backward graph."""

    name: str
    """The node that is kept; it can be a view."""
    operation: str | None
    """The operation that makes its memory, such as ``aten.gelu.default``; None for an argument."""
    tensor: str
    """dtype and shape of that, such as ``f32[8, 128]``."""
    bytes: int | None
    """Its size; None if unknown."""
    is_argument: bool
    """It is an argument of the graph, such as a parameter, or a constant in it."""
    is_cheap: bool | None
    """It can be computed again from what else is kept by code that Inductor writes itself, without
    matrix products, convolutions and random numbers; None for an argument, and if that is
    unknown."""
    stack: tuple[StackEntry, ...] = ()
    """The stack that computes it; outermost first, without torch's and Python's own entries.
    Empty if unknown."""
    module: str | None = None
    """The innermost module that it is computed in, such as ``L['self'].layers.0``; None outside
    any."""


class Partition(Fact):
    """The values that a forward graph and its backward graph share."""

    saved: tuple[KeptTensor, ...]
    """Tensors that one keeps for the other, each memory once."""
    recomputed: dict[str, int]
    """Operations that both compute, without views, and how many of each."""
    draws_random: bool
    """The forward graph draws random numbers, as dropout does."""


class InductorGraph(Fact):
    """A graph for which Inductor generated code."""

    graph: int
    """Inductor's number; a graph and its backward have the same."""
    phase: ProfilePhase
    compile_id: str | None
    """The compile that it belongs to, such as ``0/0``; None if unknown."""
    operations: tuple[InductorOperation, ...]
    """In the order of the graph."""
    kernels: tuple[InductorKernel, ...]
    """In the order of the calls in the code."""
    partition: Partition | None = None
    """Of a forward graph that has a backward graph; None for others, and if it is unknown."""


class InductorRun(Fact):
    """One run of such a graph in the profiled call."""

    graph: int
    phase: ProfilePhase
    us: float
    """The host's time."""


class KernelRun(Fact):
    """One run of a kernel in the profiled call."""

    name: str
    """As the profiler names it, without template arguments."""
    kind: KernelKind
    """Who wrote it."""
    us: float
    """Microseconds that no earlier kernel has; the median over all profiled calls that ran the same
    kernels."""
    phase: ProfilePhase
    operation: str | None
    """The outermost operation on the host that it is, or that launched it; None for a generated
    kernel, and if that is unknown, as in a CUDA graph."""
    launch: int | None = None
    """A number for each time that an operation ran: all kernels that it launched then have the same
    number. None if it is unknown."""
    run: int | None
    """Index of the graph's run; None outside any."""


class EagerCall(Fact):
    """The same call without torch.compile."""

    times_us: tuple[float, ...]
    """Single calls."""
    kernels_us: float | None
    """All kernels and copies of one; None if the profiler didn't say."""
    launches: int | None


SIMPLE = "mul"
"""Stands for all operations on single elements that take a few instructions."""

ALIKE = {
    "cos": "sin",
    "erfc": "erf",
    "exp2": "exp",
    "expm1": "exp",
    "log10": "log",
    "log1p": "log",
    "log2": "log",
}
"""Operations on single elements with those that take about as long."""


class Calibration(Fact):
    """Rates that this device reaches, as measured: a copy, matrix products, and arithmetic that
    isn't one.
    """

    device_name: str
    """The device; of a CPU, its model."""
    torch: str
    """torch's version."""
    threads: int | None = None
    """Threads of an operation on a CPU; None on a GPU."""
    precision: str
    """Of float32 products, such as ``highest``, as the program set it."""
    copy_gb_per_s: float
    """Gigabytes (1e9) a second that a copy reads and writes, of tensors too large for any cache."""
    matmul_tflops_per_s: dict[str, float]
    """1e12 operations a second of a large matrix product, by dtype, such as ``float32``, with that
    precision. Under ``tf32`` those of float32 in TF32, where products aren't in TF32 but
    convolutions are."""
    elementwise_g_per_s: dict[str, float] = field(default_factory=dict)
    """1e9 elements a second, in float32, for which operations on single elements are computed, such
    as ``tanh``; under ``mul`` those of the simple ones."""
    cache_bytes: int | None = None
    """The size of a GPU's L2 cache; None on a CPU."""
    launch_us: float | None = None
    """The time of the launch of a small kernel; None on a CPU."""
    is_steady: bool = True
    """Each was measured twice with the same result, but for a tenth."""

    def elementwise_rate(self, name: str) -> float | None:
        """Return the rate of an operation, in 1e9 elements a second, or of the simple ones if it
        wasn't measured; None if none were.
        """
        return self.elementwise_g_per_s.get(
            ALIKE.get(name, name), self.elementwise_g_per_s.get(SIMPLE)
        )


class ProfiledCall(Fact):
    """A steady call, kernel by kernel."""

    device: Device
    times_us: tuple[float, ...]
    """Single calls without the profiler, until the device is done."""
    runs: tuple[InductorRun, ...]
    kernels: tuple[KernelRun, ...]
    """In the order of their beginnings."""
    eager: EagerCall | None = None
    """None if it wasn't measured."""


class MeasuredMemory(Fact):
    """Memory of a steady call."""

    peak_of: PeakOf
    """The memory that the peak is of."""
    before_bytes: int | None
    """The same memory before the call; None if unknown."""
    peak_bytes: int | None
    """The most; None if unknown."""
    saved_bytes: int | None
    """The size that autograd keeps while the result lives, and that wasn't there before the call;
    None if unknown."""
    eager_saved_bytes: int | None
    """The same without torch.compile; None if unknown."""


class MatchedRun(Fact):
    """A run of a kernel, or a part of one, with the call in the generated code that it is.

    Where several calls could have run it, each has an equal part.
    """

    run: int
    """Index of the run among the call's kernels."""
    us: float
    """The run's time, or this part of it."""
    graph: int | None = None
    """Index of the graph; None outside any, and if the call in its code is unknown."""
    kernel: int | None = None
    """Index of the call in its code; None as above."""


class KeptBy(NamedTuple):
    """A tensor with the forward graph that keeps it."""

    graph: InductorGraph
    tensor: KeptTensor


class Profiled(Fact):
    """All that a recording has for a profile."""

    call: ProfiledCall
    graphs: tuple[InductorGraph, ...]
    """Graphs for which Inductor generated code, in order."""
    matched: tuple[MatchedRun, ...]
    """All runs of kernels, those of one run of a graph together."""
    calibration: Calibration | None = None
    """Rates that the device reaches; None if it wasn't measured."""

    @property
    def partitioned(self) -> tuple[InductorGraph, ...]:
        """The forward graph of each run of a graph in the call, as far as it is known."""
        known = {graph.graph: graph for graph in self.graphs if graph.phase == "forward"}
        runs = (run.graph for run in self.call.runs if run.phase == "forward")
        return tuple(known[number] for number in runs if number in known)

    @property
    def draws_random(self) -> bool:
        """Return whether one of these that has a backward graph draws random numbers."""
        return any(
            graph.partition is not None and graph.partition.draws_random
            for graph in self.partitioned
        )

    @property
    def kept_alike(self) -> tuple[tuple[KeptBy, ...], ...]:
        """Tensors that these keep for their backward graphs: equal tensors of one line together."""
        groups: dict[object, list[KeptBy]] = defaultdict(list)
        for graph in self.partitioned:
            for tensor in graph.partition.saved if graph.partition else ():
                place = [entry.at for entry in tensor.stack[-1:]]
                same = (*place, tensor.operation, tensor.tensor, tensor.is_cheap)
                groups[same if place else (graph.graph, tensor.name)].append(KeptBy(graph, tensor))
        return tuple(map(tuple, groups.values()))

    @property
    def smaller_budget(self) -> Setting:
        """The setting with which AOTAutograd keeps as much as is left without what is cheap to
        compute again.

        AOTAutograd chooses what it computes again for that. Where nothing is cheap, it keeps half.
        """
        own = [
            kept.tensor
            for group in self.kept_alike
            for kept in group
            if not kept.tensor.is_argument
        ]
        cheap = sum(tensor.bytes or 0 for tensor in own if tensor.is_cheap)
        share = cheap / (sum(tensor.bytes or 0 for tensor in own) or 1)
        budget = math.floor((1 - share) * 10) / 10 if share >= _LEAST_CHEAP else _HALF
        return Setting(name=ACTIVATION_BUDGET, value=max(_SMALLEST_BUDGET, budget))

    def code_of(self, matched: MatchedRun) -> tuple[InductorGraph, InductorKernel] | None:
        """Return the graph and the call in its code that a run is; None if unknown."""
        if matched.graph is None or matched.kernel is None:
            return None
        graph = self.graphs[matched.graph]
        return graph, graph.kernels[matched.kernel]
