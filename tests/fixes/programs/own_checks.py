"""Bounding-box losses with the package's own helpers for checks."""

import torch
import torch.nn as nn


class BoxError(ValueError):
    pass


def _check(condition, message):
    if not condition:
        raise BoxError(message)


def _check_boxes(boxes, name):
    _check(boxes.shape[-1] == 4, f"{name} must have 4 values")
    _check((boxes[:, 2:] >= boxes[:, :2]).all(), f"{name}: right and bottom before left and top")


def _area(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


class GIoULoss(nn.Module):
    def forward(self, pred, target, weight):
        _check_boxes(pred, "pred")
        _check_boxes(target, "target")
        _check(torch.isfinite(weight).all(), "weights must be finite")
        lt = torch.max(pred[:, :2], target[:, :2])
        rb = torch.min(pred[:, 2:], target[:, 2:])
        inter = (rb - lt).clamp(min=0).prod(-1)
        union = _area(pred) + _area(target) - inter
        hull = torch.cat(
            [torch.min(pred[:, :2], target[:, :2]), torch.max(pred[:, 2:], target[:, 2:])], dim=-1
        )
        giou = inter / union - (_area(hull) - union) / _area(hull)
        if weight.sum() == 0:
            return pred.sum() * 0
        return ((1 - giou) * weight).sum() / weight.sum()


def example_inputs():
    torch.manual_seed(25)
    corner = torch.rand(2, 6, 2)
    pred, target = (torch.cat([c, c + 0.2 + torch.rand(6, 2)], dim=-1) for c in corner)
    return [(pred, target, torch.rand(6)), (pred, target, torch.zeros(6))]
