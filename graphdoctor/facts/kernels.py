"""The facts below Dynamo: the kernels of a steady call, CUDA graphs, and what caches on disk
did.
"""

from __future__ import annotations

from typing import Literal

from . import shared
from .base import Fact, whole_sum

ProfilePhase = Literal["forward", "backward"]
"""The part of a call that something belongs to."""

KernelKind = Literal["library", "generated", "copy", "communication"]
"""Who wrote a kernel. ``library``: a library, such as cuBLAS, oneDNN or ATen; ``generated``:
Inductor; ``copy``: any, if all it does is copy memory; ``communication``: one that passes tensors
between processes."""

CudaGraphSkipKind = Literal[
    "no_device",
    "cpu_graph",
    "mutation",
    "cpu_device",
    "several_devices",
    "dynamic_shapes",
    "incompatible_op",
    "non_tensor_input",
    "rerecording",
    "disabled",
    "other",
]
"""A reason why a graph isn't a CUDA graph. ``no_device``: the machine has no CUDA device;
``cpu_graph``: all of the graph runs on a CPU; ``mutation``: it writes to an input that isn't a
parameter or buffer; ``cpu_device``: a tensor in it is on the CPU; ``several_devices``: its tensors
are on several GPUs; ``dynamic_shapes``: it has dynamic sizes; ``incompatible_op``: CUDA graphs
don't support an operation in it; ``non_tensor_input``: an input isn't a tensor; ``rerecording``: it
was recorded too often, because addresses of tensors change; ``disabled``: a setting turned it off;
``other``: see torch's words."""


CacheBypassKind = Literal[
    "function",
    "autograd_function",
    "higher_order_operator",
    "method",
    "checkpoint_policy",
    "custom_pass",
    "memory_budget",
    "freezing",
    "disabled",
    "unpicklable",
    "other",
]
"""A reason why a graph isn't in torch's caches. ``function``: it calls one that torch doesn't
trace, as with ``allow_in_graph``; ``autograd_function``: a custom ``torch.autograd.Function``;
``higher_order_operator``: one of torch's operators that take functions, such as ``cond``;
``method``: a method call that torch doesn't know; ``checkpoint_policy``: the ``context_fn`` of a
selective checkpoint has no ``cache_hash``; ``custom_pass``: a pass of the program has no
``uuid``; ``memory_budget``: a custom estimator or solver has none; ``freezing``: parameters
became constants; ``disabled``: a setting turns the cache off; ``unpicklable``: something in it
can't be written to disk; ``other``: see torch's words."""

Device = Literal["cpu", "cuda"]
"""Whose kernels were measured."""


class CacheBypass(Fact):
    """A graph that torch's caches on disk leave out, and why."""

    compile_id: str | None
    kind: CacheBypassKind
    subject: str | None = None
    """The function, operator or type, as torch names it; None if it names none."""
    reason: str | None
    """In torch's words; None if they aren't in the log."""
    is_code_kept: bool
    """True if Inductor's cache takes the graph all the same: then only AOTAutograd's tracing is
    made again."""


class CodeLine(Fact):
    """A line of the program."""

    file: str
    line: int
    """1-based."""


MOST_KERNELS = 10
"""The number of kernels that a call's share names."""


class KernelTime(Fact):
    """All runs of one kernel in a call."""

    name: shared.OperationName
    """As torch's profiler names it, such as ``aten::addmm`` or ``triton_poi_fused_add_0``; without
    template arguments."""
    kind: KernelKind
    """Who wrote it. ``library``: a library; ``generated``: Inductor; ``copy``: it copies memory;
    ``communication``: it passes tensors between processes."""
    us: float
    """Microseconds of all its runs."""
    count: int
    operations: tuple[shared.OperationName, ...] = ()
    """Of a kernel on a GPU that Inductor didn't write: the operations that launched it, such as
    ``aten::addmm``."""


NOTABLE_COPIES = 0.1
"""Share of a steady call from which on copies into CUDA graphs are reported."""


class KernelShare(Fact):
    """The time of one steady call by kind of kernel, by torch.profiler: of up to 20 calls, the
    shortest.
    """

    device: Device = "cpu"
    """Whose kernels were measured. On ``cuda`` those of the device, on ``cpu`` those of the
    host."""
    call_us: float
    """The call, under the profiler, until the device is done."""
    unprofiled_us: float | None = None
    """The same call in the same process without the profiler, the shortest of up to 50; None if it
    wasn't timed."""
    library_us: float | None
    """Kernels of libraries (cuBLAS, oneDNN, ATen's own): nothing can fuse them."""
    generated_us: float | None
    """Kernels that Inductor wrote."""
    copy_us: float | None
    """Copies of memory."""
    communication_us: float | None = 0.0
    """Between processes, such as an all-reduce."""
    graph_input_copy_us: float | None = None
    """Of these, copies of inputs into the static buffers of CUDA graphs."""
    launches: int | None
    """Kernels that were launched, those inside CUDA graphs included."""
    graph_launches: int = 0
    region_runs: int = 0
    """Runs of Dynamo's code for a frame; each runs at most one graph."""
    region_us: float = 0.0
    """The host's time in these and in the searches for them, without kernels that run on the host
    and without waiting for a device."""
    outside_us: float = 0.0
    """The host's time in neither of these, nor in kernels that run on the host, nor waiting for a
    device: the program's own Python."""
    largest: tuple[KernelTime, ...] = ()
    """The kernels that take the most time, at most ``MOST_KERNELS``."""

    @property
    def is_own_python(self) -> bool:
        """Return whether most of the host's time is outside of compiled code."""
        return self.outside_us >= self.region_us

    @property
    def kernels_us(self) -> float | None:
        """All kernels and copies; None if the profiler didn't say."""
        return whole_sum((self.library_us, self.generated_us, self.copy_us, self.communication_us))

    @property
    def overhead_us(self) -> float | None:
        """The time that running compiled code takes of the call without the profiler, beyond its
        kernels; None if unknown.

        The profiler makes everything but kernels longer, so only its proportions are used. On a
        GPU, it's time in which the device waits.
        """
        on_host_us = self.region_us + self.outside_us
        if self.kernels_us is None or self.unprofiled_us is None or not on_host_us:
            return None
        without_us = max(0.0, self.unprofiled_us - self.kernels_us)
        return min(self.region_us, without_us * self.region_us / on_host_us)

    @property
    def rest_us(self) -> float | None:
        """The time in no kernel: Python, guards, launching, allocating; None if the
        profiler didn't say.
        """
        return None if self.kernels_us is None else self.call_us - self.kernels_us


class CudaGraphSkip(Fact):
    """A graph that torch didn't record as a CUDA graph, although it was asked to."""

    kind: CudaGraphSkipKind
    reason: str
    """In torch's words where it has any, without the stack."""
    compile_id: str | None = None
    """The compile in which torch decided it; None for one that was decided in a call."""
    file: str | None = None
    """Path of the line that torch points to; None if it points to none."""
    line: int | None = None
    """1-based."""

    @property
    def is_on_gpu(self) -> bool:
        """The graph has work for a GPU, and there is one: torch could record it."""
        return self.kind not in ("no_device", "cpu_graph")


class CudaGraphInput(Fact):
    """An input of a function that torch records as CUDA graphs."""

    placeholder: str
    """Its name in the graph that Inductor compiled, such as ``primals_3``."""
    source: str | None = None
    """Dynamo's source for it, such as ``L['x']``; None if it is no argument of the forward graph,
    or that is unknown."""
    bytes: int
    """The size of its copy."""


class CudaGraphFunction(Fact):
    """A function that torch records as CUDA graphs: a graph that Inductor compiled, or a partition
    of one.
    """

    compile_id: str | None
    """The compile that it belongs to; None if unknown."""
    phase: ProfilePhase
    name: str
    """torch's, such as ``partition_0``."""
    sizes: int
    """Different sizes of its inputs that it was called with; torch records it for each of them."""
    recordings: int
    """CUDA graphs that were recorded of it; 0 if it was called once, or torch skipped it."""
    rerecordings: int
    """Of these, those that took the place of another, because addresses of tensors had changed, or
    because tensors that an earlier call returned were still in use."""
    copied: tuple[CudaGraphInput, ...]
    """Inputs that are copied to where the graph reads them, each time before it is launched."""
    moved: tuple[CudaGraphInput, ...] = ()
    """Inputs that torch doesn't copy, such as parameters, and that had other addresses when it
    recorded the function again."""
    mutated: tuple[str, ...] = ()
    """Dynamo's sources of inputs that it writes to and that aren't parameters, buffers or marked as
    static; for these, torch skips it."""


class CudaGraphs(Fact):
    """CUDA graphs of a run that asks for them."""

    captured: int | None
    """Functions that torch recorded as CUDA graphs; None if unknown."""
    skipped: tuple[CudaGraphSkip, ...] = ()
    """The reasons why torch skipped the others, one entry for each skipped graph."""
    left_out: tuple[CudaGraphSkip, ...] = ()
    """Operations that torch runs between CUDA graphs, because these can't have them."""
    functions: tuple[CudaGraphFunction, ...] | None = None
    """The functions that torch recorded, or will record in its next call; None if unknown."""

    @property
    def rerecordings(self) -> int:
        """CUDA graphs that took the place of another."""
        return sum(function.rerecordings for function in self.functions or ())


class Float32Precision(Fact):
    """The precision of float32 operations on CUDA, as a program leaves it after its calls.

    TensorFloat32 (TF32) has the range of float32 and the precision of float16. Matrix products in
    it run on tensor cores, several times as fast.
    """

    matmul_tf32: bool
    """True if matrix products use TF32: ``torch.set_float32_matmul_precision``, off by default."""
    convolution_tf32: bool
    """True if cuDNN's convolutions do, on by default."""
    capabilities: tuple[tuple[int, int], ...]
    """The compute capability of each CUDA device; from (8, 0) on, it has TF32."""


class CacheUse(Fact):
    """The use of Inductor's and AOTAutograd's caches on disk while the calls compiled.

    A graph counts once, with its backward, although torch asks both caches.
    """

    hits: int
    misses: int
    bypasses: int
    """Graphs that can't be kept on disk."""
    bypass_reasons: tuple[str, ...] = ()
    """The reasons in torch's words, each once."""
