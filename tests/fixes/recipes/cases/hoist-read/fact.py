"""GD105 10:20-34"""

import os

import torch


def forward(x):
    y = x.sin()
    return y * min(os.cpu_count(), 2)
