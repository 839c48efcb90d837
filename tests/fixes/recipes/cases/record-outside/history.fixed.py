"""GD103 18:29-50"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.history = []
        self.largest = 0.0

    @torch.compiler.disable(recursive=False)
    def forward(self, x, target):
        """Computes and keeps."""
        result, mean_value, error, peak = self._compiled_part(x, target)
        # How large it is inside.
        self.history.append(mean_value.item())
        self.history.append(float(error))  # as a number
        if peak > self.largest:
            self.largest = peak.item()
        return result

    def _compiled_part(self, x, target):
        h = self.linear(x)
        mean_value = h.abs().mean().detach()

        error = (h - target).pow(2).mean()
        peak = h.max()
        return (h.cos(), error), mean_value, error, peak.detach()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True), torch.randn(4, 8))
