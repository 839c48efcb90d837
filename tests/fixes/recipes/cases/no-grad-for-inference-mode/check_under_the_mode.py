"""GD118 12:16-36"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        with torch.inference_mode():  # no gradients
            scale = x.mean()
            # Others may write to it.
            if scale.is_inference():
                scale = scale.clone()
        return x.cos() + scale
