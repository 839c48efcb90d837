"""How torch splits the graph of a module in DistributedDataParallel at its buckets."""

from __future__ import annotations

from .base import Fact
from .sums import whole_sum


class DdpBucket(Fact):
    """One part of a split graph, whose gradients DDP reduces together."""

    name: str
    """torch's name for it, such as ``submod_0``."""
    parameters: tuple[str, ...]
    """The parameters in it, such as ``self.first.weight``; torch's names of the graph's inputs
    where their sources aren't recorded."""
    parameter_bytes: int | None
    """What they take; None if a size isn't a number."""
    op_count: int
    """Operations in it."""


class DdpSplit(Fact):
    """A graph that ``DDPOptimizer`` split, so that gradients can be reduced while others are still
    computed.
    """

    compile_id: str
    buckets: tuple[DdpBucket, ...]
    """In the order of the forward pass; the last one's gradients are reduced first."""
    crossing_count: int
    """Tensors that one part computes and a later one reads."""
    crossing_bytes: int | None
    """What they take; None if a size isn't a number."""

    @property
    def parameter_bytes(self) -> int | None:
        """What the parameters of all parts take."""
        return whole_sum(bucket.parameter_bytes for bucket in self.buckets)
