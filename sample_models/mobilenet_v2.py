"""A small MobileNet v2: many layers, Python loops and branches, one graph.

Loops over modules and branches on their attributes are no problem for torch.compile: it follows
them while it traces, and only the tensor operations are left.

graphdoctor finds:
    calls=1 compiles=1 graphs=1 break_sites=0 break_records=0 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=1.00
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def conv_norm(
    in_channels: int, out_channels: int, kernel: int, stride: int, groups: int
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(
            in_channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False
        ),
        nn.BatchNorm2d(out_channels),
    )


class InvertedResidual(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = in_channels * expansion
        self.has_shortcut = stride == 1 and in_channels == out_channels
        self.expand = conv_norm(in_channels, width, 1, 1, 1) if expansion > 1 else None
        self.depthwise = conv_norm(width, width, 3, stride, width)
        self.project = conv_norm(width, out_channels, 1, 1, 1)
        self.activation = nn.ReLU6()

    def forward(self, x: Tensor) -> Tensor:
        y = x if self.expand is None else self.activation(self.expand(x))
        y = self.project(self.activation(self.depthwise(y)))
        return x + y if self.has_shortcut else y


class MobileNetV2(nn.Module):
    # expansion, channels, blocks, stride of the first block
    stages = ((1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2), (6, 24, 2, 1))

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = conv_norm(3, 16, 3, 2, 1)
        blocks: list[nn.Module] = []
        channels = 16
        for expansion, out_channels, count, first_stride in self.stages:
            for index in range(count):
                stride = first_stride if index == 0 else 1
                blocks.append(InvertedResidual(channels, out_channels, stride, expansion))
                channels = out_channels
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = nn.functional.relu6(self.stem(image))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=(2, 3)))


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 3, 32, 32),)


if __name__ == "__main__":
    torch.compile(MobileNetV2(), backend="eager")(*example_inputs())
