"""GD109 18:17-54"""

import numpy as np
import torch
from torch import nn

KNOTS = [0.0, 0.25, 0.25, 0.75, 1.0]


# A curve for each value.
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = np.array([0.0, 0.1, 0.2, 0.9, 1.0])

    def forward(self, image):
        values = (torch.sigmoid(image) * 1.4 - 0.2).numpy()
        curve = np.interp(values, KNOTS, self.levels)  # in double precision
        return torch.from_numpy(curve).to(image.dtype) * 2.0 - 1.0


def example_inputs():
    return (torch.randn(4, 8),)
