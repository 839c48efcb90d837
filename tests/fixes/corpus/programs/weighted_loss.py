"""A regression loss whose normalization depends on whether anything is labeled."""

import torch


def loss(pred, target, labeled):
    error = (pred - target).abs()
    if labeled.any():
        weight = labeled.float()
        count = weight.sum()
    else:
        weight = torch.zeros_like(error)
        count = torch.ones(())
    total = (error * weight).sum() / count
    if total.item() > 10:
        print("large loss", total.item())
    return total, count


def example_inputs():
    torch.manual_seed(33)
    pred, target = torch.randn(9), torch.randn(9)
    return [(pred, target, pred > 0), (pred, target, torch.zeros(9, dtype=torch.bool))]
