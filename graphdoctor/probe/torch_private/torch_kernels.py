"""What the profiler's events stand for (kernels, copies, CUDA graphs), by private names of 2.13
(CUDA's: 2.11), and whether CUDA graphs are asked for, skipped, recorded, 2.11 to 2.15.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from math import prod
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverloadPacket
from torch.profiler import ProfilerActivity

from ...facts.base import Fields
from ..events import EventFile
from .torch_api import Undo, counters, current_compile_id

OperatorRole = Literal["kernel", "copy", "calls", "none"]
"""``kernel``: it computes itself; ``copy``: it copies memory; ``calls``: it has no kernel of its
own for the CPU, so what it calls computes, or else itself; ``none``: it computes nothing, or isn't
an operation."""

GRAPH_INPUT_COPY = "aten::_foreach_copy_"
"""Copies a CUDA graph's inputs into its static buffers (``_copy_inputs_and_remove_from_src``,
``torch/_inductor/cudagraph_trees.py``, 2.13); Inductor compiles the program's own to kernels."""

COPIES = frozenset({"aten::copy_", GRAPH_INPUT_COPY})

GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
"""The driver's calls that launch a CUDA graph, as Kineto names them."""

_COMMUNICATION = re.compile(
    r"(c10d|_c10d_functional(_autograd)?|_dtensor|symm_mem)::|nccl(Dev)?Kernel|nccl:|nvshmem"
)
"""Operations of ``torch.distributed`` (``torch/csrc/distributed/c10d``, 2.13), kernels of NCCL and
of RCCL, which has its names, NVSHMEM's, and the ranges that torch puts around what it asks of
NCCL."""

_GENERATED = re.compile(r"(graph_\d+_)?cpp_|triton_")
"""``graph_0_cpp_fused_add_0`` (``record_function`` of ``KernelGroup.codegen_group``,
``torch/_inductor/codegen/cpp.py``, 2.13), and ``triton_poi_fused_add_0`` on CUDA."""

_OF_TORCH = frozenset({"aten", "prims"})
"""Namespaces whose operations call others of torch's where they have no kernel for a device."""

_ONLY_MEMORY = frozenset(
    [
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_quantized",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
        "set_",
        "_unsafe_view",
        "unsafe_chunk",
        "unsafe_split",
        "unsafe_split_with_sizes",
    ]
)
"""Operations that allocate, or give memory another shape, as their schemas don't tell."""

SHOWN_BY = (
    "torch._inductor.config.cpp.enable_kernel_profile",
    "torch._inductor.config.trace.provenance_tracking_level",
)
"""The settings that ``show_generated_kernels`` and a profile change."""

is_generated = _GENERATED.match
"""Inductor wrote the kernel."""

is_communication = _COMMUNICATION.match
"""It passes tensors between processes."""


def show_generated_kernels() -> None:
    """Make the C++ kernels that Inductor writes from now on name themselves to the profiler."""
    from torch._inductor import config

    config.cpp.enable_kernel_profile = True


def cuda_function(code: str) -> Callable[[Tensor], Tensor]:
    """Make a function of single elements, a C++ template of one type, that is compiled when it is
    called first.
    """
    from torch.cuda.jiterator import _create_jit_fn

    return _create_jit_fn(code)


@cache
def operator_role(name: str) -> OperatorRole:
    """Classify an event on the host."""
    space, separator, base = name.partition("::")
    packet = getattr(getattr(torch.ops, space), base, None) if separator else None
    names = packet.overloads() if isinstance(packet, OpOverloadPacket) else ()
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    overloads = []
    for overload in (getattr(packet, name) for name in names):
        schema = overload._schema
        returns = any("Tensor" in str(value.type) for value in schema.returns)
        takes = any("Tensor" in str(value.type) for value in schema.arguments)
        # Arithmetic on numbers and lists has the same names; some are for TorchScript alone.
        if (takes or returns) and torch._C._dispatch_has_kernel(overload.name()):
            overloads.append(overload.name())
            aliases = (argument.alias_info for argument in schema.arguments)
            writes = any(alias is not None and alias.is_write for alias in aliases)
            is_view = overload.is_view or torch.Tag.inplace_view in overload.tags
            if is_view or not (writes or returns):
                return "none"
    if not overloads or base in _ONLY_MEMORY:
        return "none"
    if name in COPIES:
        return "copy"
    # An operation of the program's own is one piece to the compiler, for whatever device it was
    # registered.
    keys = ("CPU",) if space in _OF_TORCH else ("CPU", "CompositeExplicitAutograd")
    return "kernel" if any(has_kernel(it, key) for it in overloads for key in keys) else "calls"


def quick_range(name: str) -> AbstractContextManager[Any]:
    """Make a profiler range about as cheap as torch's own (``_RecordFunctionFast``,
    ``csrc/autograd/init.cpp``, 2.13).
    """
    return torch._C._profiler._RecordFunctionFast(name)


class ProfiledEvent(NamedTuple):
    """One event of a profiler, on the host or on a device.

    ``is_on_device``: it is about a device: a kernel, a copy, or a range there. ``is_range``: it is
    a range of the program's or torch's, no work. ``number``: what later events name it by.
    ``launched_by``: number of the operation that launched it; 0 for none.
    """

    name: str
    thread: int
    start_ns: int
    duration_ns: int
    is_on_device: bool = False
    is_range: bool = False
    number: int = 0
    launched_by: int = 0

    @property
    def end_ns(self) -> int:
        """Return its end in nanoseconds."""
        return self.start_ns + self.duration_ns


def profile_activities() -> list[ProfilerActivity]:
    """List what to profile: the host, and CUDA where the program uses it."""
    cuda = [ProfilerActivity.CUDA] if torch.cuda.is_initialized() else []
    return [ProfilerActivity.CPU, *cuda]


def profiled_events(profiler: Any) -> list[ProfiledEvent]:
    """List the events of a profiler that has ended, but for those that begin in one thread and end
    in another.

    ``profiler.events()`` takes a hundred times as long to build a tree of ``kineto_results``
    (``torch/autograd/profiler.py``, 2.11 to 2.15).
    """
    host = torch._C._autograd.DeviceType.CPU
    return [
        ProfiledEvent(
            event.name(),
            event.start_thread_id(),
            event.start_ns(),
            event.duration_ns(),
            event.device_type() != host,
            event.is_user_annotation(),
            event.correlation_id(),
            event.linked_correlation_id(),
        )
        for event in profiler.profiler.kineto_results.events()
        if not event.is_async() and event.start_thread_id() == event.end_thread_id()
    ]


class RangeProfiler:
    """Torch's older profiler, which notes the ranges of this thread, and of those that work for it,
    until its end.

    ``torch/autograd/profiler_legacy.py``, 2.13. Kineto's writes to standard error (``USDT: ...
    profiler_start``), and only one can be prepared in a process.

    Raises:
        AttributeError: This torch lacks it.
        RuntimeError: A profiler runs in this thread.
    """

    def __init__(self) -> None:
        profiler = import_module("torch.autograd")
        self._disable = profiler._disable_profiler_legacy
        state = profiler.ProfilerState.CPU
        experimental = torch._C._profiler._ExperimentalConfig()
        options = (False,) * 5  # shapes, memory, stacks, FLOPs, modules
        profiler._enable_profiler_legacy(profiler.ProfilerConfig(state, *options, experimental))

    def end(self) -> Iterator[Iterator[str | None]]:
        """End now; for each thread, the name of each range where it begins, and None where the last
        one that began ends.
        """
        return map(_ranges, self._disable())


def _ranges(events: Iterable[Any]) -> Iterator[str | None]:
    for event in events:
        if (kind := event.kind()) in ("push", "pop"):
            yield event.name() if kind == "push" else None


# CUDA graphs.

_SKIP_LOGGER = "torch._inductor.cudagraph_utils.__cudagraphs"
_LOGS_SKIP = "log_cudagraph_skip_and_bump_counter"
"""``torch/_inductor/cudagraph_utils.py``, 2.11 to 2.15: logs there, and counts. Graphs without a
CUDA device are only counted (``CompiledFxGraph.__init__``, ``torch/_inductor/output_code.py``,
2.13)."""

_PARTITION_LOGGER = "torch._inductor.scheduler.__cudagraphs"
_LOGS_LEFT_OUT = "_log_non_cudagraphable_node"
"""Graph partition records what is before and after an operation that can't be in a CUDA graph as
CUDA graphs of their own, and only says so in its debug log (``torch/_inductor/scheduler.py``,
2.13): a line with the reason, then the lines of a stack."""

_REASON = "reason="
"""What torch's words on an operation begin with; a line of a stack doesn't."""

_TREES = "torch._inductor.cudagraph_trees"


def asks_for_cuda_graphs(backend: str, mode: str | None, options: Mapping[str, object]) -> bool:
    """Return whether torch.compile with these arguments is to use CUDA graphs."""
    if backend != "inductor":
        return backend == "cudagraphs"
    name = "triton.cudagraphs"
    if name in options:
        return bool(options[name])
    from torch._inductor import config

    in_mode = torch._inductor.list_mode_options().get(mode or "default", {})
    return bool(in_mode.get(name, config.triton.cudagraphs))


class CudaGraphWatch:
    """Listens to torch's reasons from when it is made until ``close``; none reach the program's
    log.
    """

    def __init__(self) -> None:
        self._skipped: list[dict[str, str | None]] = []
        self._left_out: list[dict[str, str | None]] = []
        self._counted_before = _counted_skips()
        self._ends = ExitStack()
        self.close = self._ends.close
        self._listen(logging.getLogger(_SKIP_LOGGER), self._on_skip)
        scheduler = logging.getLogger(_PARTITION_LOGGER)
        was_enabled = scheduler.isEnabledFor(logging.DEBUG)
        self._listen(scheduler, partial(self._on_partition, was_enabled=was_enabled))
        self._ends.callback(scheduler.setLevel, scheduler.level)
        scheduler.setLevel(logging.DEBUG)

    def _listen(
        self, logger: logging.Logger, listener: Callable[[logging.LogRecord], bool]
    ) -> None:
        logger.addFilter(listener)
        self._ends.callback(logger.removeFilter, listener)

    def _on_skip(self, record: logging.LogRecord) -> bool:
        if record.funcName == _LOGS_SKIP:
            reason = record.getMessage()
            self._skipped.append({"reason": reason, "compile_id": current_compile_id()})
        return True

    def _on_partition(self, record: logging.LogRecord, *, was_enabled: bool) -> bool:
        if record.funcName == _LOGS_LEFT_OUT and isinstance(record.args, tuple):
            text = str(record.args[-1])
            if text.startswith(_REASON):
                self._left_out.append({"reason": text, "compile_id": current_compile_id()})
            elif self._left_out:
                last = self._left_out[-1]
                last["reason"] = f"{last['reason']}\n{text}"
        return was_enabled or record.levelno > logging.DEBUG

    def report(self, events: EventFile) -> None:
        """Write the ``cuda_graphs`` event."""
        silent = _counted_skips() - self._counted_before - len(self._skipped)
        skipped = [*self._skipped, *({"reason": None, "compile_id": None} for _ in range(silent))]
        has_device = torch.cuda.is_available()
        functions, recorded = recorded_functions()
        captured: int | None = recorded
        if has_device and not captured and not skipped:
            captured = None
            why = "it says nothing of them"
            if functions:
                why = "it records a graph in its second call, and there was none"
            events.gap("cuda_graphs", f"Whether torch uses CUDA graphs is unknown: {why}.")
        events.write(
            "cuda_graphs",
            has_device=has_device,
            captured=captured,
            skipped=skipped,
            left_out=self._left_out,
            functions=functions,
        )


def _counted_skips() -> int:
    return counters().get("inductor", {}).get("cudagraph_skips", 0)


def _managers() -> list[Any]:
    """Torch's ``CUDAGraphTreeManager`` of each device (``torch/_inductor/cudagraph_trees.py``, 2.11
    to 2.15).
    """
    if (trees := sys.modules.get(_TREES)) is None:
        return []
    containers = trees.local.tree_manager_containers.values()
    managers = (container.tree_manager for container in containers)
    return [manager for manager in managers if manager is not None]


def recorded_functions() -> tuple[list[Fields], int]:
    """List the functions that torch is to record as CUDA graphs in a second call, and count for how
    many sizes it has.

    A manager has a function for each graph, or partition of one, and size of its inputs, and a tree
    of recordings.
    """
    functions: dict[int, Fields] = {}
    captured = 0
    for manager in _managers():
        recordings = list(_recordings(manager.roots))
        for number in manager.ids_to_funcs:
            alike = [same for of, same in recordings if of == number]
            _add_recordings(functions, manager, number, alike)
            captured += bool(alike)
    return [*functions.values()], captured


def awaits_backward() -> bool:
    """Return whether outputs awaiting their backward pass keep torch from launching its recording.

    It records a function anew in each call then, and warns once:
    ``check_warn_on_unable_to_start_executing`` (``torch/_inductor/cudagraph_trees.py``, 2.11 to
    2.15).
    """
    return any(manager.warned_functions for manager in _managers())


def launch_one_by_one() -> Undo:
    """Have what is recorded as CUDA graphs launch each kernel by itself, so that the profiler sees
    its operation.

    torch uses CUDA graphs for the sizes that a setting names (``is_cudagraph_capture_sizes``,
    ``torch/_inductor/cudagraph_trees.py``, 2.11 to 2.15), here for none.
    """
    from torch._inductor import config

    settings: Any = config.triton
    undo = partial(setattr, settings, "cudagraph_capture_sizes", settings.cudagraph_capture_sizes)
    settings.cudagraph_capture_sizes = ()
    return undo


def _add_recordings(
    functions: dict[int, Fields], manager: Any, number: int, recordings: list[list[Any]]
) -> None:
    wrapped = manager.ids_to_funcs[number]
    compile_id = manager.id_to_compile_id[number]
    # One function is wrapped anew for each size.
    function = functions.setdefault(
        id(wrapped.model),
        {
            "compile_id": None if compile_id is None else str(compile_id),
            "phase": "backward" if manager.id_to_mode[number].name == "BACKWARD" else "forward",
            "name": manager.get_func_name(number),
            **dict.fromkeys(("sizes", "recordings", "rerecordings"), 0),
            **{part: [] for part in ("copied", "moved", "mutated")},
        },
    )
    function["sizes"] += 1
    static = wrapped.static_input_idxs
    written = [index for index in wrapped.mutated_input_idxs if index not in static]
    function["mutated"] = [wrapped.placeholders[index].name for index in written]
    for alike in recordings:
        function["recordings"] += len(alike)
        function["rerecordings"] += len(alike) - 1
        last = alike[-1]
        # torch 2.15 can also copy what another CUDA graph made.
        copied = getattr(last, "input_copy_idxs", last.non_static_input_idx)
        tensors = (it for it in copied if isinstance(last.reconstructed_inputs[it], Tensor))
        function["copied"] = [_input(last, index) for index in tensors]
        for before, after in pairwise(alike):
            names = {moved["placeholder"] for moved in function["moved"]}
            pairs = zip(before.static_input_data_ptrs, after.static_input_data_ptrs, strict=True)
            moved = [_input(after, index) for index, (old, new) in enumerate(pairs) if old != new]
            function["moved"] += [it for it in moved if it["placeholder"] not in names]


def _recordings(nodes: Mapping[Any, list[Any]]) -> Iterator[tuple[Any, list[Any]]]:
    for number, alike in nodes.items():
        if alike:
            yield number, alike
        for recording in alike:
            yield from _recordings(recording.children)


def _input(recording: Any, index: int) -> Fields:
    tensor = recording.reconstructed_inputs[index]
    # What an expanded dim repeats is copied once.
    strides = zip(tensor.shape, tensor.stride(), strict=True)
    return {
        "placeholder": recording.wrapped_function.placeholders[index].name,
        "shape": list(tensor.shape),
        "bytes": prod(size for size, stride in strides if stride) * tensor.element_size(),
    }
