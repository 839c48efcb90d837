"""Times a steady call, by itself or in turns with another probe, and measures its memory.

In turns: a socket asks, and several programs share the machine's noise.
"""

from __future__ import annotations

import gc
import json
import math
import operator
import resource
import socket
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, UntypedStorage

from ..torch_private.torch_api import synchronize, tensors_in

_MIN_RUNS = 3
BLOCK_S = 0.001
"""How long a block of calls takes at least."""

ROW_S = 0.02
"""The same for calls in a row on a GPU: only the last is waited for, which takes some of them as
long as they run."""

_MAX_NUMBER = 10_000
_REST_S = 0.002
"""How long the threads of another process may look for work after its turn."""

_WARM_CALL_S = 0.1
"""Calls that are shorter are made once before a turn's first block."""

Make = Callable[[], object]

Restore = Callable[[], None]
"""Puts back what a call changed in its arguments, outside the timed span."""


def time_calls(
    call: Make,
    *,
    seconds: float,
    most: float = math.inf,
    least: int = _MIN_RUNS,
    restore: Restore | None = None,
    is_own_only: bool = False,
    number: int = 1,
) -> list[float]:
    """Time calls started within ``seconds``, in seconds; what one launches on a GPU counts to its
    own time only.

    ``is_own_only``: leave out calls in which the system took a processor from the process, if
    enough others remain. ``number``: calls that are timed together, as in a loop of calls.
    """
    times: list[float] = []
    undisturbed = []
    ends = time.perf_counter() + seconds
    while len(times) < least or (time.perf_counter() < ends and len(times) < most):
        synchronize()
        before = preemptions()
        started = time.perf_counter()
        for _ in range(number):
            call()
        synchronize()
        times.append((time.perf_counter() - started) / number)
        if preemptions() == before:
            undisturbed.append(times[-1])
        if restore is not None:
            restore()
    return undisturbed if is_own_only and len(undisturbed) >= least else times


@dataclass
class Block:
    """Calls that are timed together: the device is waited for once, as in a loop of calls.

    ``seconds``: of one call. With ``restore``, each is timed alone. ``least_s``: how long the block
    takes at least.
    """

    seconds: float
    restore: Restore | None = None
    least_s: float = BLOCK_S

    @property
    def number(self) -> int:
        """Count its calls."""
        if self.restore is not None:
            return 1
        return min(max(1, math.ceil(self.least_s / max(self.seconds, 1e-9))), _MAX_NUMBER)


def time_block(call: Make, block: Block, *, seconds: float) -> list[float]:
    """Time blocks of calls in one turn, started within ``seconds``, at least one; in microseconds
    for one call.
    """
    restore = block.restore or (lambda: None)
    # Another process had the machine meanwhile: its caches are cold, and what it does outside the
    # time is over.
    time.sleep(_REST_S)
    restore()
    if block.seconds < _WARM_CALL_S:
        call()
        restore()
    times = time_calls(call, seconds=seconds, least=1, restore=restore, number=block.number)
    return [time_s * 1e6 for time_s in times]


def questions(connection: socket.socket) -> Iterator[str]:
    """Yield lines until the other end is closed."""
    # The other end may close with an answer unread: that is a reset, not an end.
    with suppress(ConnectionError), connection.makefile(encoding="utf-8") as lines:
        yield from lines


def answer(connection: socket.socket, values: Mapping[str, Any]) -> None:
    """Write one line; the other end may have closed."""
    with suppress(ConnectionError):
        connection.sendall((json.dumps(values) + "\n").encode())


def preemptions() -> int:
    """Count how often the system took a processor from a thread of this process that had more to
    do; others wait for it.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Activity(NamedTuple):
    """What torch has done so far in this process."""

    compiles: int
    limits: int


# Memory.

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
        self.peak_of: Literal["allocator", "process"] = "allocator" if self._is_cuda else "process"
        self._is_reset = True
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
            self._is_reset = False

    def bytes(self) -> int | None:
        """Return the peak until now; None where the system doesn't tell."""
        if self._is_cuda:
            # Memory that CUDA graphs work in is theirs from when they are recorded on, and counts
            # as free in between.
            for_graphs = sum(
                segment["total_size"] - segment["allocated_size"]
                for segment in torch.cuda.memory_snapshot()
                if tuple(segment["segment_pool_id"]) != _SHARED_POOL
            )
            return int(torch.cuda.max_memory_allocated()) + for_graphs
        return _status_bytes("VmHWM") if self._is_reset else None


def peak_resident_bytes() -> int:
    """Return the most resident memory of this process since it began."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _status_bytes(name: str) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024
    return None


class _Saved:
    """What an operation saved: alive as long as the operation's part of the graph is."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def kept_bytes(call: Make) -> int | None:
    """Measure the memory that is kept while a call's result lives, and that wasn't there before:
    each storage once.

    None if one of them can't be measured, as of a sparse tensor, or saved tensors can't be watched
    in this call.
    """
    # Held, so that nothing new gets the same address.
    before: dict[int, UntypedStorage] = {}
    for value in gc.get_objects():
        if issubclass(type(value), Tensor):
            # Any tensor of the process: a lazy module's has no memory yet, and another class's can
            # raise what it likes.
            with suppress(Exception):
                there = [storage for storage in _storages(value) if storage.device.type != "meta"]
                before |= {storage.data_ptr(): storage for storage in there}
    saved: weakref.WeakSet[_Saved] = weakref.WeakSet()

    def pack(tensor: Tensor) -> _Saved:
        packed = _Saved(tensor)
        saved.add(packed)
        return packed

    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, operator.attrgetter("tensor")):
            output = call()
        sizes = {
            storage.data_ptr(): storage.nbytes()
            for tensor in (*[packed.tensor for packed in saved], *_on_contexts(output))
            for storage in _storages(tensor)
        }
    except (RuntimeError, NotImplementedError):
        return None
    return sum(size for address, size in sizes.items() if address not in before)


def _storages(tensor: Tensor) -> list[UntypedStorage]:
    """Return a tensor's memory; of one that is made of others, theirs; RuntimeError,
    NotImplementedError if it has none.
    """
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return [tensor.untyped_storage()]
    return [storage for name in flatten()[0] for storage in _storages(getattr(tensor, name))]


def _on_contexts(output: object) -> Iterator[Tensor]:
    """Tensors that custom functions keep as attributes of their contexts, as AOTAutograd's does
    with some.
    """
    waiting = [tensor.grad_fn for tensor in tensors_in(output)]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting.extend(following for following, _ in node.next_functions)
        for value in getattr(node, "__dict__", {}).values():
            items = value if isinstance(value, list | tuple) else [value]
            yield from (item for item in items if isinstance(item, Tensor))
