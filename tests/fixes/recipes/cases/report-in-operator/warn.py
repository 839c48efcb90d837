"""GD102 11:5-"""

import warnings

import torch


def forward(x):
    y = x.sin()
    # Should never be.
    if torch.isnan(y).any() or y.max() > 2:
        warnings.warn(f"odd: {y.max()}", stacklevel=2)  # loud
    return y.cos()
