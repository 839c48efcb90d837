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

        matrix = self._forward_try(matrix)
        return self.right(matrix)

    def _forward_try(self, matrix):
        # Singular ones are left out.
        try:
            matrix = self._forward_attempt(matrix)
        except ValueError:
            matrix = torch.zeros_like(matrix)
        return matrix

    def _forward_attempt(self, matrix):
        print("solving", tuple(matrix.shape))
        matrix = matrix @ matrix.T
        return matrix


def example_inputs():
    return (torch.randn(8, 8),)
