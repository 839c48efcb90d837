"""GD104 16:27-102"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.classes = 3
        self.register_buffer("confusion", torch.zeros(3, 3, dtype=torch.long))

    def forward(self, x):
        predicted, label = x[:, :3].argmax(-1), x[:, 3:6].argmax(-1)
        # How often was which label predicted as what?
        self.confusion += torch.bincount(label * self.classes + predicted, minlength=self.classes**2).view(3, 3)
        return x * self.confusion.sum()
