"""Activation checkpointing inside the model: one graph, nothing to find.

torch.compile traces the body of ``checkpoint`` into a graph of its own within the graph.

graphdoctor finds:
    calls=1 compiles=1 graphs=1 break_sites=0 break_records=0 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=1.00
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8, requires_grad=True),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs()).sum().backward()
