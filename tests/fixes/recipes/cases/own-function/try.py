"""GD111 18:13-50"""

import torch
from torch import nn


class Solver(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(8, 8)
        self.right = nn.Linear(8, 8)

    def forward(self, x):
        matrix = self.left(x)

        # Singular ones are left out.
        try:
            print("solving", tuple(matrix.shape))
            matrix = matrix @ matrix.T
        except ValueError:
            matrix = torch.zeros_like(matrix)
        return self.right(matrix)


def example_inputs():
    return (torch.randn(8, 8),)
