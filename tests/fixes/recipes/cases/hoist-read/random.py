"""GD105 10:17-32"""

import random

import torch


def forward(x):
    y = x.sin()
    return y * (random.random() + 0.5)  # between 0.5 and 1.5
