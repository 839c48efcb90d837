"""GD105 8:14-42"""

import torch
from tqdm import tqdm


def forward(x):
    for _ in tqdm(range(3), disable=True):
        x = torch.relu(x) + 1
    return x


def example_inputs():
    return (torch.randn(4, 8),)
