"""A whole training step in the compiled function: ``backward`` and the optimizer can't be traced.

torch.compile is meant for the forward pass and the loss; the backward pass comes along by itself.
Here three lines split the step, and what is left are three graphs: forward and loss, the
optimizer's update, the last ``detach``. One call makes two records at ``optimizer.step()``, both
pointing into torch's own code.

graphdoctor finds:
    calls=1 compiles=6 graphs=3 break_sites=3 break_records=4 skipped_frames=0
    recompiles=0 frames_over_limit=0
    GD112 line 28
    GD112 line 30
    GD112 line 31
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def make_step(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> Callable[[Tensor, Tensor], Tensor]:
    def training_step(x: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return training_step


def build() -> Callable[[Tensor, Tensor], Tensor]:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    return make_step(model, torch.optim.SGD(model.parameters(), lr=0.1))


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(4, 8), torch.randn(4, 1)


if __name__ == "__main__":
    torch.compile(build(), backend="eager")(*example_inputs())
