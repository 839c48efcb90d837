"""The most memory that this process has used since a moment."""

from __future__ import annotations

import contextlib
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""Linux sets the peak of resident memory to what is resident now (proc(5), ``/proc/[pid]/clear_refs``)."""


class PeakMemory:
    """Watches the peak from when this is made: of torch's allocator if CUDA is used, otherwise of resident memory."""

    def __init__(self) -> None:
        self._is_cuda = torch.cuda.is_initialized()
        self._is_known = True
        if self._is_cuda:
            torch.cuda.reset_peak_memory_stats()
            return
        try:
            _RESET.write_text(_RESET_PEAK)
        except OSError:
            # Compiling takes more than calls do, so the peak since the start says nothing about them.
            self._is_known = False

    def bytes(self) -> int | None:
        """The peak until now; None where the system doesn't tell."""
        if self._is_cuda:
            return int(torch.cuda.max_memory_allocated())
        if self._is_known:
            with contextlib.suppress(OSError, ValueError, IndexError):
                (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
                return int(line.split()[1]) * 1024
        return None
