"""GD102 9:5-"""

import torch


def forward(x):
    y = x.exp()
    # Later lines need finite numbers.
    if not torch.isfinite(y).all():
        raise ValueError("not finite")  # tell early
    return y.cos()
