"""Quantization with a straight-through gradient and a range that is found on the first batches."""

import torch
import torch.nn as nn


class FakeQuant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lo, hi, bits):
        levels = 2**bits - 1
        step = (hi - lo).item() / levels
        ctx.save_for_backward((x >= lo) & (x <= hi))
        return torch.round((x.clamp(lo.item(), hi.item()) - lo) / step) * step + lo

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None, None


class QuantLinear(nn.Module):
    def __init__(self, dim=8, bits=4):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.bits = bits
        self.register_buffer("calibrated", torch.zeros(1, dtype=torch.bool))
        self.register_buffer("lo", torch.tensor(0.0))
        self.register_buffer("hi", torch.tensor(0.0))

    def forward(self, x):
        if not self.calibrated:
            self.lo.copy_(x.min())
            self.hi.copy_(x.max())
            self.calibrated[0] = True
        return self.linear(FakeQuant.apply(x, self.lo, self.hi, self.bits))


model = QuantLinear()


def example_inputs():
    torch.manual_seed(16)
    return [(torch.randn(4, 8),), (torch.randn(4, 8),)]
