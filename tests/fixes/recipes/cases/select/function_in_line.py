"""GD102 7:39-50"""

import torch


def forward(x):
    rectified = lambda t: t.relu() if t.sum() > 0 else t * 0.1  # noqa: E731
    return rectified(x.sin()).cos()
