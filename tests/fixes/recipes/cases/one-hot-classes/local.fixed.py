"""GD104 10:16-37"""

import torch
import torch.nn.functional as F


def forward(logits, labels):
    y = logits.sin()
    num_classes = logits.shape[-1]
    return y * F.one_hot(labels, num_classes)


def example_inputs():
    return (torch.randn(3, 3, requires_grad=True), torch.tensor([0, 2, 1]))
