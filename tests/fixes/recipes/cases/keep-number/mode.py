"""GD103 15:16-35"""

import torch


def with_mode(data):
    if data["x"].ndim == 2:
        data["mode"] = torch.tensor(1)
    else:
        data["mode"] = torch.tensor(2)
    return data


def mode_of(data):
    return int(data["mode"].item())


def forward(x):
    data = with_mode({"x": x})
    return x * mode_of(data)


def example_inputs():
    return (torch.randn(4, 8),)
