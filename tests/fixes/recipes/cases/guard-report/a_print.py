"""GD102 9:5-"""

import torch


def forward(x):
    y = x.sin()
    # Should never be.
    if torch.isnan(y).any() or y.max() > 2:
        print(f"odd: {y.max()}")  # loud
    return y.cos()
