"""GD504 8"""

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        rows = torch.arange(x.shape[0])[:, None]
        return x * rows.to(x.device)


def build():
    return Net()


def example_inputs():
    return (torch.randn(4, 3),)
