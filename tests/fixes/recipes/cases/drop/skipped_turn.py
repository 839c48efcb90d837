"""GD102 11:9-"""

import torch


def forward(x):
    route = (x[:, 0] > 0).long()
    out = torch.zeros_like(x)
    for group in range(3):
        member = route == group
        if not member.any():
            continue
        out[member] = group + 1.0
    return out * x
