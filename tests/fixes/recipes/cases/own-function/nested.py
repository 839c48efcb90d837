"""GD111 13:21-55"""

import torch


def make(scale):
    def forward(x, names):
        total = x.sin()
        for i in range(len(names)):
            part = x * scale
            try:
                if i == 1:
                    print(names[i], tuple(part.shape))
                part = part.cos() + i
            finally:
                total = total + 1.0
            total = total + part.relu()
        return total.tanh()

    return forward


def build():
    return make(2.0)


def example_inputs():
    return (torch.randn(4, 8), ["a", "b", "c"])
