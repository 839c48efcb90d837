"""GD110 13:5-"""

import threading

import torch

lock = threading.Lock()


def forward(x):
    x = x.sin()
    x = x.cos()
    with lock:
        y = x.relu() * 2.0
        return y.tanh()


def example_inputs():
    return (torch.randn(4, 8),)
