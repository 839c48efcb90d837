"""GD205 15 change: module_number self.scale 0.5 -> 0.25"""

from torch import nn, ones
import torch


class Net(nn.Module):
    def __init__(self, scale=1):
        super().__init__()
        self.register_buffer("scale", torch.tensor(float(scale)), persistent=False)

    def decay(self):
        self.scale.fill_(self.scale * 0.5)

    def forward(self, x):
        return (x * self.scale).sum(dim=0)


model = Net()


def example_inputs():
    for _ in range(4):
        model.decay()
        yield (ones(4, 8, requires_grad=True),)
