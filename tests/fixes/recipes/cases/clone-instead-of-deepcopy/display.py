"""GD108 10:12-42"""

import copy

import torch


def forward(x):
    y = x.sin()
    pair = copy.deepcopy([y.detach(), 2])
    return y * pair[0] * pair[1]
