"""GD205 15 change: module_number self.scale 0.5 -> 0.25"""

from torch import nn, ones


class Net(nn.Module):
    def __init__(self, scale=1):
        super().__init__()
        self.scale = scale

    def decay(self):
        self.scale = self.scale * 0.5

    def forward(self, x):
        return (x * self.scale).sum(dim=0)


model = Net()


def example_inputs():
    for _ in range(4):
        model.decay()
        yield (ones(4, 8, requires_grad=True),)
