"""GD104 8:15-54"""

import torch


def forward(x):
    y = x.sin()
    return -y[(y[:, 0] > -2.0).nonzero(as_tuple=True)[0]].mean(dim=0)
