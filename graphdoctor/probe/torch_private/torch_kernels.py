"""What the profiler's events stand for (kernels, copies, CUDA graphs), by private names of 2.13
(CUDA's: 2.11).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

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
    {
        "empty", "empty_like", "empty_permuted", "empty_quantized", "empty_strided", "new_empty", "new_empty_strided",
        "resize_", "resize_as_", "set_", "_unsafe_view", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes",
    }
)  # fmt: skip
"""Operations that allocate, or give memory another shape, as their schemas don't tell."""


def show_generated_kernels() -> None:
    """Make the C++ kernels that Inductor writes from now on name themselves to the profiler."""
    from torch._inductor import config

    config.cpp.enable_kernel_profile = True


def cuda_function(code: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of single elements, a C++ template of one type, that is compiled when it is called
    first.
    """
    from torch.cuda.jiterator import _create_jit_fn

    made: Callable[[torch.Tensor], torch.Tensor] = _create_jit_fn(code)
    return made


SHOWN_BY = (
    "torch._inductor.config.cpp.enable_kernel_profile",
    "torch._inductor.config.trace.provenance_tracking_level",
)
"""The settings that ``show_generated_kernels`` and a profile change."""


is_generated = _GENERATED.match
"""Inductor wrote the kernel."""

is_communication = _COMMUNICATION.match
"""It passes tensors between processes."""


@cache
def operator_role(name: str) -> OperatorRole:
    """What an event on the host stands for."""
    space, separator, base = name.partition("::")
    overloads = _overloads(space, base) if separator else []
    if not overloads or base in _ONLY_MEMORY or any(map(_only_looks, overloads)):
        return "none"
    if name in COPIES:
        return "copy"
    # An operation of the program's own is one piece to the compiler, for whatever device it was
    # registered.
    keys = ("CPU",) if space in _OF_TORCH else ("CPU", "CompositeExplicitAutograd")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return (
        "kernel"
        if any(has_kernel(overload.name(), key) for overload in overloads for key in keys)
        else "calls"
    )


def _overloads(space: str, base: str) -> list[Any]:
    """Those that take or return tensors; arithmetic on numbers and lists has the same names."""
    try:
        packet = getattr(getattr(torch.ops, space), base)
        return [
            each for name in packet.overloads() if _is_about_tensors(each := getattr(packet, name))
        ]
    except (AttributeError, RuntimeError):
        return []


def _is_about_tensors(overload: Any) -> bool:
    schema = overload._schema
    has_tensor = any("Tensor" in str(value.type) for value in (*schema.arguments, *schema.returns))
    # Some are for TorchScript alone.
    return has_tensor and torch._C._dispatch_has_kernel(overload.name())


def _only_looks(overload: Any) -> bool:
    """It returns a view, or something that isn't a tensor, and writes nothing."""
    if overload.is_view or torch.Tag.inplace_view in overload.tags:
        return True
    schema = overload._schema
    writes = any(
        argument.alias_info is not None and argument.alias_info.is_write
        for argument in schema.arguments
    )
    return not writes and not any("Tensor" in str(result.type) for result in schema.returns)


def quick_range(name: str) -> AbstractContextManager[Any]:
    """A profiler range about as cheap as torch's own (``_RecordFunctionFast``,
    ``csrc/autograd/init.cpp``, 2.13).
    """
    context: AbstractContextManager[Any] = torch._C._profiler._RecordFunctionFast(name)
    return context


LINE_RANGE = "graphdoctor_line "
"""What the profiler range of an operation that eager mode runs begins with; then the line, a space
and the file."""


class LineRanges(TorchDispatchMode):
    """Meanwhile each operation of eager mode is in a profiler range that names the line of the
    program that runs it.

    An operation shows itself around its range, too: the mode calls it once more
    (``torch/utils/_python_dispatch.py``, 2.13). Compiled code isn't run under a mode. ``is_own``:
    whether a file is the program's.
    """

    def __init__(self, is_own: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_own = is_own

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call the operation in its range."""
        frame = sys._getframe(1)
        while frame.f_back is not None and not self._is_own(frame.f_code.co_filename):
            frame = frame.f_back
        with quick_range(
            f"{LINE_RANGE}{frame.f_lineno} {frame.f_code.co_filename}" if frame.f_back else ""
        ):
            return operation(*args, **(kwargs or {}))


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
        """When it ended."""
        return self.start_ns + self.duration_ns


def profile_activities() -> list[torch.profiler.ProfilerActivity]:
    """What to profile: the host, and CUDA where the program uses it."""
    activity = torch.profiler.ProfilerActivity
    return [activity.CPU, activity.CUDA] if torch.cuda.is_initialized() else [activity.CPU]


def profiled_events(profiler: Any) -> list[ProfiledEvent]:
    """The events of a profiler that has ended, but for those that begin in one thread and end in
    another.

    ``profiler.events()`` takes a hundred times as long to build a tree of ``kineto_results``
    (``torch/autograd/profiler.py``, 2.13). Empty if this torch keeps them elsewhere.
    """
    host = torch._C._autograd.DeviceType.CPU
    try:
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
    except AttributeError:
        return []


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
        state, experimental = profiler.ProfilerState.CPU, torch._C._profiler._ExperimentalConfig()
        options = (False,) * 5  # shapes, memory, stacks, FLOPs, modules
        profiler._enable_profiler_legacy(profiler.ProfilerConfig(state, *options, experimental))

    def end(self) -> Iterator[Iterator[str | None]]:
        """For each thread the name of each range where it begins, and None where the last one that
        began ends.
        """
        return (
            (
                event.name() if event.kind() == "push" else None
                for event in events
                if event.kind() in ("push", "pop")
            )
            for events in self._disable()
        )
