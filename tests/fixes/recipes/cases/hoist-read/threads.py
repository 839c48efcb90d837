"""GD100 11:16-39"""

import torch

SCALE = 0.5


# Scales by threads.
def forward(x):
    y = x.sin()
    return y * torch.get_num_threads() * SCALE
