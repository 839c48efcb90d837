"""GD104 9:22-33"""

import torch
import torch.nn.functional as F


def forward(boxes, wanted, mask):
    boxes = boxes.sin()
    return F.l1_loss(boxes[mask], wanted[mask]) + 1.0


def example_inputs():
    mask = torch.tensor([True, False, True, True, False])
    return (torch.randn(5, 4, requires_grad=True), torch.randn(5, 4), mask)
