"""GD105 10:8-41"""

import os.path

import torch


def forward(x):
    y = x.sin()
    if os.path.exists("/nowhere/at/all"):
        y = -y
    return y.cos()
