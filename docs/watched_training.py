"""A training run that recompiles late, for ``make_watch_picture.py``.

python docs/watched_training.py EVENTS.jsonl
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import graphdoctor

STEPS = 600
EPOCH = 120
"""Steps; the last batch of an epoch is smaller."""


class Net(nn.Module):
    """Its ``noise`` is an int, which torch.compile takes for a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 64)
        )
        self.noise = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, 64) to the same."""
        return self.layers(x + self.noise / 100)


def main() -> None:
    """Train; each change below comes in many programs."""
    torch.manual_seed(0)
    net = Net()
    compiled = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with graphdoctor.watch(to=[f"jsonl:{sys.argv[1]}"]) as seen:
        for step in range(STEPS):
            seen.step = step
            x = torch.randn(20 if step % EPOCH == EPOCH - 1 else 32, 64)
            if step >= 450:  # a curriculum that counts on
                net.noise = (step - 450) // 10
            # Half precision once it is stable.
            with torch.autocast("cpu", torch.bfloat16, enabled=step >= 300):
                (compiled(x) - x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 200:
                net.eval()
                with torch.no_grad():
                    compiled(x)
                net.train()


if __name__ == "__main__":
    main()
