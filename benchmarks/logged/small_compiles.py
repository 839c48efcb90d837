"""Small functions that break and recompile: many compiles, each with little in it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Breaks twice in each call."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """One step."""
        x = nn.functional.gelu(self.first(x))
        if x.sum() > 0:
            x = x + 1
        print("between")
        return self.second(x)


@torch.compile(backend="eager")
def norm(x: Tensor, eps: float) -> Tensor:
    """Recompiles for a size and for a number."""
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()


@torch.compile(backend="eager")
def pick(x: Tensor, name: str) -> Tensor:
    """Breaks, then recompiles for a text."""
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() if name == "cos" else y.tan()


torch.manual_seed(0)
for width in (8, 16, 24):
    block = torch.compile(Block(width), backend="eager")
    for batch in (2, 3):
        block(torch.randn(batch, width)).sum().backward()
for size in (4, 5, 6, 7):
    norm(torch.randn(size, 8, requires_grad=True), 1e-5 * size).sum().backward()
for name in ("cos", "tan"):
    pick(torch.randn(4), name)
