"""GD111 13:21-55"""

import torch


def make(scale):
    def forward(x, names):
        total = x.sin()
        total = _forward_loop(names, total, x)
        return total.tanh()

    def _forward_loop(names, total, x):
        for i in range(len(names)):
            total = _forward_step(x, total, i, names)
        return total

    def _forward_step(x, total, i, names):
        part = x * scale
        part, total = _forward_try(part, i, names, total)
        total = total + part.relu()
        return total

    def _forward_try(part, i, names, total):
        try:
            part = _forward_attempt(i, names, part)
        finally:
            total = total + 1.0
        return part, total

    def _forward_attempt(i, names, part):
        if i == 1:
            print(names[i], tuple(part.shape))
        part = part.cos() + i
        return part

    return forward


def build():
    return make(2.0)


def example_inputs():
    return (torch.randn(4, 8), ["a", "b", "c"])
