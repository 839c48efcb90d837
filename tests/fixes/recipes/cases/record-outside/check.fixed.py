"""GD103 17:28-39"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.losses = []

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        loss, isnan_value = self._compiled_part(x)
        if isnan_value:
            raise RuntimeError(f"loss is {loss} after {len(self.losses)} steps")
        self.losses.append(loss.item())
        if len(self.losses) % 10 == 0:
            print(f"loss {loss.item():.3f}, lately {self.losses[-10:]}")
        return loss

    def _compiled_part(self, x):
        loss = self.linear(x).pow(2).mean()
        isnan_value = torch.isnan(loss)
        return loss, isnan_value


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
