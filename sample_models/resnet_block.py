"""A residual block with batch normalisation: one graph, nothing to find.

In training mode the running statistics change in place; torch.compile puts that into the graph as
well.

graphdoctor finds:
    calls=1 compiles=1 graphs=1 break_sites=0 break_records=0 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=1.00
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ResidualBlock(nn.Module):
    def __init__(self, in_channels: int = 8, out_channels: int = 16, stride: int = 2) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False),
            nn.BatchNorm2d(out_channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return torch.relu(y + self.shortcut(x))


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 8, 16, 16),)


if __name__ == "__main__":
    torch.compile(ResidualBlock(), backend="eager")(*example_inputs())
