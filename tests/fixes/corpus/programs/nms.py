"""Detections: a score threshold, then greedy non-maximum suppression."""

import torch


def _iou(box, boxes):
    lt = torch.max(box[:2], boxes[:, :2])
    rb = torch.min(box[2:], boxes[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = (box[2:] - box[:2]).prod()
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return inter / (area + areas - inter)


def detect(boxes, logits, score_thr=0.5, iou_thr=0.5):
    scores = torch.sigmoid(logits)
    keep = scores > score_thr
    boxes, scores = boxes[keep], scores[keep]
    if boxes.shape[0] == 0:
        return boxes, scores
    order = scores.argsort(descending=True)
    boxes, scores = boxes[order], scores[order]
    suppressed = torch.zeros(len(boxes), dtype=torch.bool)
    for i in range(len(boxes)):
        if suppressed[i]:
            continue
        overlap = _iou(boxes[i], boxes) > iou_thr
        overlap[: i + 1] = False
        suppressed |= overlap
    return boxes[~suppressed], scores[~suppressed]


def example_inputs():
    torch.manual_seed(45)
    corner = torch.rand(6, 2)
    boxes = torch.cat([corner, corner + 0.5], dim=-1)
    return [(boxes, torch.randn(6)), (boxes, torch.full((6,), -3.0))]
