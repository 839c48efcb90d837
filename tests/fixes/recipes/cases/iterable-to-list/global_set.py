"""GD122 9:5-"""

import torch

parts = {torch.ones(8), torch.zeros(8)}  # in any order


def forward(x):
    for part in parts:
        x = x + part
    return x.sin()
