"""Set prediction loss of a detection transformer with a greedy bipartite matcher."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def box_cxcywh_to_xyxy(x):
    x_c, y_c, w, h = x.unbind(-1)
    return torch.stack([x_c - 0.5 * w, y_c - 0.5 * h, x_c + 0.5 * w, y_c + 0.5 * h], dim=-1)


def box_area(b):
    return (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])


def generalized_box_iou(boxes1, boxes2):
    # degenerate boxes give inf / nan results, so do an early check
    assert (boxes1[:, 2:] >= boxes1[:, :2]).all()
    assert (boxes2[:, 2:] >= boxes2[:, :2]).all()
    lt = torch.max(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(dim=2)
    union = box_area(boxes1)[:, None] + box_area(boxes2) - inter
    iou = inter / union
    lt = torch.min(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.max(boxes1[:, None, 2:], boxes2[:, 2:])
    area = (rb - lt).clamp(min=0).prod(dim=2)
    return iou - (area - union) / area


class GreedyMatcher(nn.Module):
    @torch.no_grad()
    def forward(self, cost):
        cost = cost.clone()
        rows, cols = [], []
        for _ in range(min(cost.shape)):
            best = cost.argmin().item()
            i, j = best // cost.shape[1], best % cost.shape[1]
            rows.append(i)
            cols.append(j)
            cost[i, :] = float("inf")
            cost[:, j] = float("inf")
        return torch.tensor(rows), torch.tensor(cols)


class SetCriterion(nn.Module):
    def __init__(self, num_classes=5, eos_coef=0.1):
        super().__init__()
        self.num_classes = num_classes
        self.matcher = GreedyMatcher()
        weight = torch.ones(num_classes + 1)
        weight[-1] = eos_coef
        self.register_buffer("empty_weight", weight)
        self.bbox = nn.Linear(16, 4)
        self.cls = nn.Linear(16, num_classes + 1)

    @torch.no_grad()
    def class_error(self, logits, target_classes, matched):
        if matched.numel() == 0:
            return torch.zeros([])
        correct = (logits[matched].argmax(-1) == target_classes[matched]).float().mean()
        return (100 - 100 * correct).item()

    def forward(self, hs, labels, boxes):
        out_logits, out_bbox = self.cls(hs), self.bbox(hs).sigmoid()
        out_xyxy, tgt_xyxy = box_cxcywh_to_xyxy(out_bbox), box_cxcywh_to_xyxy(boxes)
        giou = generalized_box_iou(out_xyxy, tgt_xyxy)
        cost_class = -out_logits.softmax(-1)[:, labels]
        cost = 5 * torch.cdist(out_bbox, boxes, p=1) + cost_class - 2 * giou
        src_idx, tgt_idx = self.matcher(cost)

        target_classes = torch.full((hs.shape[0],), self.num_classes, dtype=torch.int64, device=hs.device)
        target_classes[src_idx] = labels[tgt_idx]
        num_boxes = torch.clamp(torch.as_tensor([len(labels)], dtype=torch.float), min=1).item()
        losses = {"loss_ce": F.cross_entropy(out_logits, target_classes, self.empty_weight)}
        losses["loss_bbox"] = F.l1_loss(out_bbox[src_idx], boxes[tgt_idx], reduction="none").sum() / num_boxes
        losses["loss_giou"] = (1 - giou[src_idx, tgt_idx]).sum() / num_boxes
        losses["class_error"] = self.class_error(out_logits, target_classes, src_idx)
        return losses


def build():
    torch.manual_seed(0)
    return SetCriterion()


def example_inputs():
    g = torch.Generator().manual_seed(6)
    return [(torch.randn(8, 16, generator=g), torch.randint(0, 5, (n,), generator=g), 0.2 + 0.5 * torch.rand(n, 4, generator=g)) for n in (3, 4)]
