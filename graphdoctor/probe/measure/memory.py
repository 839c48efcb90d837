"""The most memory that this process has used since a moment."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

import torch

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""Linux sets the peak of resident memory to what is resident now (proc(5), ``/proc/[pid]/clear_refs``)."""

_SHARED_POOL = (0, 0)
"""The allocator's own pool; each CUDA graph tree has one to itself (``torch/cuda/memory.py``, 2.11 to 2.15)."""


class PeakMemory:
    """Watches the peak from when this is made: of torch's allocator if CUDA is used, otherwise of resident memory.

    What CUDA graphs keep for themselves is part of it.
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
            # Compiling takes more than calls do, so the peak since the start says nothing about them.
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


def _kept_for_graphs() -> int:
    """Memory that CUDA graphs work in: it is theirs from when they are recorded on, and counts as free in between."""
    segments = torch.cuda.memory_snapshot()
    kept = (segment for segment in segments if tuple(segment["segment_pool_id"]) != _SHARED_POOL)
    return sum(segment["total_size"] - segment["allocated_size"] for segment in kept)


def _status_bytes(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024
    return None
