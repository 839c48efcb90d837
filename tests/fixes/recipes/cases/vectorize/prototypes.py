"""GD102 10:9-"""

import torch


def prototypes(x, labels):
    protos = torch.zeros(4, x.shape[1])
    for c in range(4):
        m = labels == c
        if m.any():
            protos[c] = x[m].mean(0)
    return protos


def build():
    return prototypes


def example_inputs():
    torch.manual_seed(0)
    return (torch.randn(6, 3), torch.tensor([0, 1, 1, 3, 3, 0]))
