"""How much of a call ran in compiled graphs."""

from __future__ import annotations

from dataclasses import field

from .base import Fact
from .shared import OperationName


class Coverage(Fact):
    """How much of one steady call ran in compiled graphs, measured under torch.profiler."""

    graph_ops: int
    """Tensor operations of the graphs that ran, counted for each run."""
    eager_ops: int
    """Outermost ``aten::`` operations outside any graph, without those of the backward pass."""
    extra_calls: int
    """Calls that were added until nothing compiled, including the measured one; 0 for a script, whose own calls are
    watched."""
    extra_compiles: int
    """Compiles in these calls. If above 0, the last call recompiles even with the same arguments."""
    eager_op_names: dict[OperationName, int] = field(default_factory=dict)
    """The eager operations by name, most frequent first, at most 20."""

    @property
    def share(self) -> float | None:
        """Graph operations divided by all operations, 0 to 1; None if the call has no tensor operation."""
        total = self.graph_ops + self.eager_ops
        return self.graph_ops / total if total else None
