"""GD109 18:17-54"""

import numpy as np
import torch
from torch import nn

KNOTS = [0.0, 0.25, 0.25, 0.75, 1.0]


def _interp(x, xp, fp):
    """``np.interp`` with torch operations."""
    x, xp, fp = (torch.as_tensor(given, dtype=torch.float64) for given in (x, xp, fp))
    right = torch.searchsorted(xp, x.contiguous(), right=True).clamp(1, len(xp) - 1)
    left = right - 1
    slope = (fp[right] - fp[left]) / (xp[right] - xp[left])
    inside = fp[left] + slope * (x - xp[left])
    return torch.where(x <= xp[0], fp[0], torch.where(x >= xp[-1], fp[-1], inside)).numpy()


# A curve for each value.
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = np.array([0.0, 0.1, 0.2, 0.9, 1.0])

    def forward(self, image):
        values = (torch.sigmoid(image) * 1.4 - 0.2).numpy()
        curve = _interp(values, KNOTS, self.levels)  # in double precision
        return torch.from_numpy(curve).to(image.dtype) * 2.0 - 1.0


def example_inputs():
    return (torch.randn(4, 8),)
