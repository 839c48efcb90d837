"""What memory a call takes: the peak since a moment, and what autograd keeps of it for the backward
pass.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import resource
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import torch

from ..torch_private.torch_api import tensors_in

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""Linux sets the peak of resident memory to what is resident now (proc(5),
``/proc/[pid]/clear_refs``)."""

_SHARED_POOL = (0, 0)
"""The allocator's own pool; each CUDA graph tree has one to itself (``torch/cuda/memory.py``, 2.11
to 2.15)."""


class PeakMemory:
    """The peak from now on, CUDA graphs' own included: of torch's allocator if CUDA is used, or
    resident memory.
    """

    def __init__(self) -> None:
        self._is_cuda = torch.cuda.is_initialized()
        self._is_known = True
        self.before_bytes: int | None
        """What was used at that moment; None where the system doesn't tell."""
        if self._is_cuda:
            torch.cuda.reset_peak_memory_stats()
            self.before_bytes = int(torch.cuda.memory_allocated())
            return
        self.before_bytes = _status_bytes("VmRSS")
        try:
            _RESET.write_text(_RESET_PEAK)
        except OSError:
            # Compiling takes more than calls do, so the peak since the start says nothing about
            # them.
            self._is_known = False

    @property
    def peak_of(self) -> Literal["allocator", "process"]:
        """What it is a peak of."""
        return "allocator" if self._is_cuda else "process"

    def bytes(self) -> int | None:
        """The peak until now; None where the system doesn't tell."""
        if self._is_cuda:
            return int(torch.cuda.max_memory_allocated()) + _kept_for_graphs()
        return _status_bytes("VmHWM") if self._is_known else None


def peak_resident_bytes() -> int:
    """The most resident memory of this process since it began."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _kept_for_graphs() -> int:
    """Memory that CUDA graphs work in: it is theirs from when they are recorded on, and counts as
    free in between.
    """
    kept = (
        segment
        for segment in torch.cuda.memory_snapshot()
        if tuple(segment["segment_pool_id"]) != _SHARED_POOL
    )
    return sum(segment["total_size"] - segment["allocated_size"] for segment in kept)


def _status_bytes(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024
    return None


class _Saved:
    """What an operation saved: alive as long as the operation's part of the graph is."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def kept_bytes(call: Callable[[], object]) -> int | None:
    """The memory that is kept while a call's result lives, and that wasn't there before: each
    storage once.

    None if one of them can't be measured, as of a sparse tensor, or saved tensors can't be watched
    in this call.
    """
    # Held, so that nothing new gets the same address.
    before = {storage.data_ptr(): storage for storage in _present()}
    saved: weakref.WeakSet[_Saved] = weakref.WeakSet()

    def pack(tensor: torch.Tensor) -> _Saved:
        found = _Saved(tensor)
        saved.add(found)
        return found

    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, operator.attrgetter("tensor")):
            output = call()
        alive = [found.tensor for found in saved]
        storages = [
            storage for tensor in (*alive, *_on_contexts(output)) for storage in _storages(tensor)
        ]
        sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    except (RuntimeError, NotImplementedError):
        return None
    return sum(size for address, size in sizes.items() if address not in before)


def _present() -> Iterator[torch.UntypedStorage]:
    for found in gc.get_objects():
        if not issubclass(type(found), torch.Tensor):
            continue
        # Any tensor of the process: a lazy module's has no memory yet, and another class's can
        # raise what it likes.
        with contextlib.suppress(Exception):
            yield from [storage for storage in _storages(found) if storage.device.type != "meta"]


def _storages(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    """A tensor's memory; of one that is made of others, theirs; RuntimeError, NotImplementedError
    if it has none.
    """
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return [tensor.untyped_storage()]
    return [storage for name in flatten()[0] for storage in _storages(getattr(tensor, name))]


def _on_contexts(output: object) -> Iterator[torch.Tensor]:
    """Tensors that custom functions keep as attributes of their contexts, as AOTAutograd's does
    with some.
    """
    waiting = [tensor.grad_fn for tensor in tensors_in(output)]
    seen: set[object] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting.extend(following for following, _ in node.next_functions)
        for value in getattr(node, "__dict__", {}).values():
            held = value if isinstance(value, (list, tuple)) else [value]
            yield from (each for each in held if isinstance(each, torch.Tensor))
