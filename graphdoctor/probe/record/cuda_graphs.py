"""Watches what becomes of CUDA graphs: which graphs torch skips, with its reasons, and what it records."""

from __future__ import annotations

import torch

from ..events import EventFile
from ..torch_private.torch_cuda_graphs import (
    RecordedFunction,
    StaticInput,
    counted_skips,
    current_compile_id,
    on_left_out,
    on_skip,
    recorded_functions,
)
from ..wire import (
    CudaGraphFunctionRecord,
    CudaGraphInputRecord,
    CudaGraphsEvent,
    CudaGraphSkipRecord,
    GraphPartitionsRecord,
)

_REASON = "reason="
"""What torch's words on an operation begin with; a line of a stack doesn't."""


class CudaGraphWatch:
    """Listens to torch's reasons from when it is made until ``close``."""

    def __init__(self) -> None:
        self._skipped: list[CudaGraphSkipRecord] = []
        self._left_out: list[CudaGraphSkipRecord] = []
        self._partitions: list[GraphPartitionsRecord] = []
        self._counted_before = counted_skips()
        self._ends = on_skip(self._on_skip), on_left_out(self._on_left_out, self._on_partitions)

    def close(self) -> None:
        """Stop listening."""
        for end in self._ends:
            end()

    def _on_skip(self, reason: str) -> None:
        self._skipped.append(CudaGraphSkipRecord(reason=reason, compile_id=current_compile_id()))

    def _on_left_out(self, text: str) -> None:
        if text.startswith(_REASON):
            self._left_out.append(CudaGraphSkipRecord(reason=text, compile_id=current_compile_id()))
        elif self._left_out:
            last = self._left_out[-1]
            last["reason"] = f"{last['reason']}\n{text}"

    def _on_partitions(self, count: int, recordable: int) -> None:
        self._partitions.append(
            GraphPartitionsRecord(compile_id=current_compile_id(), count=count, recordable=recordable)
        )

    def report(self, events: EventFile) -> None:
        """Write what is known so far."""
        silent = counted_skips() - self._counted_before - len(self._skipped)
        unexplained = [CudaGraphSkipRecord(reason=None, compile_id=None) for _ in range(silent)]
        skipped = [*self._skipped, *unexplained]
        has_device = torch.cuda.is_available()
        functions = recorded_functions()
        captured = None if functions is None else sum(each.recorded_sizes for each in functions)
        if has_device and not captured and not skipped:
            captured = None
            why = (
                "it records a graph in its second call, and there was none" if functions else "it says nothing of them"
            )
            events.gap("cuda_graphs", f"Whether torch uses CUDA graphs is unknown: {why}.")
        events.write(
            CudaGraphsEvent(
                event="cuda_graphs",
                has_device=has_device,
                captured=captured,
                skipped=skipped,
                left_out=self._left_out,
                partitions=self._partitions,
                functions=None if functions is None else [*map(_function, functions)],
            )
        )


def _function(found: RecordedFunction) -> CudaGraphFunctionRecord:
    return CudaGraphFunctionRecord(
        compile_id=found.compile_id,
        phase="backward" if found.is_backward else "forward",
        name=found.name,
        sizes=found.sizes,
        recordings=found.recordings,
        rerecordings=found.rerecordings,
        copied=[*map(_input, found.copied)],
        moved=[*map(_input, found.moved)],
        mutated=found.mutated,
    )


def _input(found: StaticInput) -> CudaGraphInputRecord:
    return CudaGraphInputRecord(placeholder=found.placeholder, shape=list(found.shape), bytes=found.bytes)
