"""GD121 9:5-"""

import torch

scales = zip([1.0, 2.0], [3.0, 4.0])


def forward(x):
    for scale, offset in scales:
        x = x.sin() * scale + offset
    return x


def example_inputs():
    return (torch.randn(4, 8),)
