"""Watches what becomes of CUDA graphs: which graphs torch skips, with its reasons, and how many it records."""

from __future__ import annotations

import torch

from ..events import EventFile
from ..torch_private.torch_cuda_graphs import counted_skips, current_compile_id, on_skip, recorded_functions
from ..wire import CudaGraphsEvent, CudaGraphSkipRecord


class CudaGraphWatch:
    """Listens to torch's reasons from when it is made until ``close``."""

    def __init__(self) -> None:
        self._skipped: list[CudaGraphSkipRecord] = []
        self._counted_before = counted_skips()
        self.close = on_skip(self._on_skip)
        """Stops listening."""

    def _on_skip(self, reason: str) -> None:
        self._skipped.append(CudaGraphSkipRecord(reason=reason, compile_id=current_compile_id()))

    def report(self, events: EventFile) -> None:
        """Write what is known so far."""
        silent = counted_skips() - self._counted_before - len(self._skipped)
        unexplained = [CudaGraphSkipRecord(reason=None, compile_id=None) for _ in range(silent)]
        skipped = [*self._skipped, *unexplained]
        has_device = torch.cuda.is_available()
        functions = recorded_functions()
        captured = functions[0] if functions is not None else None
        if has_device and not captured and not skipped:
            captured = None
            waits = functions is not None and functions[1]
            why = "it records a graph in its second call, and there was none" if waits else "it says nothing of them"
            events.gap("cuda_graphs", f"Whether torch uses CUDA graphs is unknown: {why}.")
        events.write(CudaGraphsEvent(event="cuda_graphs", has_device=has_device, captured=captured, skipped=skipped))
