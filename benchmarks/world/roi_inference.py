"""Box head of a two-stage detector at test time: decode, threshold, class-wise NMS, keep the best."""
import torch
from torch import nn
from torch.nn import functional as F


def nms(boxes, scores, iou_threshold):
    order = scores.argsort(descending=True)
    keep = []
    while order.numel() > 0:
        i = order[0]
        keep.append(i)
        if order.numel() == 1:
            break
        xx1 = boxes[order[1:], 0].clamp(min=boxes[i, 0].item())
        yy1 = boxes[order[1:], 1].clamp(min=boxes[i, 1].item())
        xx2 = boxes[order[1:], 2].clamp(max=boxes[i, 2].item())
        yy2 = boxes[order[1:], 3].clamp(max=boxes[i, 3].item())
        inter = (xx2 - xx1).clamp(min=0) * (yy2 - yy1).clamp(min=0)
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        iou = inter / (area[i] + area[order[1:]] - inter)
        order = order[1:][iou <= iou_threshold]
    return torch.stack(keep)


class FastRCNNOutputLayers(nn.Module):
    def __init__(self, input_size=16, num_classes=3, test_score_thresh=0.2, test_nms_thresh=0.5, topk=5):
        super().__init__()
        self.cls_score = nn.Linear(input_size, num_classes + 1)
        self.bbox_pred = nn.Linear(input_size, num_classes * 4)
        self.num_classes = num_classes
        self.score_thresh, self.nms_thresh, self.topk = test_score_thresh, test_nms_thresh, topk

    def decode(self, deltas, proposals):
        widths = proposals[:, 2] - proposals[:, 0]
        heights = proposals[:, 3] - proposals[:, 1]
        ctr_x, ctr_y = proposals[:, 0] + 0.5 * widths, proposals[:, 1] + 0.5 * heights
        dx, dy, dw, dh = deltas.view(len(proposals), -1, 4).unbind(-1)
        pred_ctr_x, pred_ctr_y = dx * widths[:, None] + ctr_x[:, None], dy * heights[:, None] + ctr_y[:, None]
        pred_w, pred_h = torch.exp(dw.clamp(max=4.0)) * widths[:, None], torch.exp(dh.clamp(max=4.0)) * heights[:, None]
        return torch.stack((pred_ctr_x - pred_w / 2, pred_ctr_y - pred_h / 2, pred_ctr_x + pred_w / 2, pred_ctr_y + pred_h / 2), dim=-1)

    @torch.no_grad()
    def forward(self, features, proposals, image_size):
        scores = F.softmax(self.cls_score(features), dim=-1)
        boxes = self.decode(self.bbox_pred(features), proposals)
        valid_mask = torch.isfinite(boxes).all(dim=2).all(dim=1) & torch.isfinite(scores).all(dim=1)
        if not valid_mask.all():
            boxes = boxes[valid_mask]
            scores = scores[valid_mask]
        scores = scores[:, :-1]
        h, w = image_size
        boxes = torch.stack((boxes[..., 0].clamp(0, w), boxes[..., 1].clamp(0, h), boxes[..., 2].clamp(0, w), boxes[..., 3].clamp(0, h)), -1)
        filter_mask = scores > self.score_thresh
        filter_inds = filter_mask.nonzero()
        boxes, scores, classes = boxes[filter_mask], scores[filter_mask], filter_inds[:, 1]
        max_coordinate = boxes.max()
        keep = nms(boxes + classes[:, None] * (max_coordinate + 1), scores, self.nms_thresh)
        if self.topk >= 0:
            keep = keep[: self.topk]
        return boxes[keep], scores[keep], classes[keep]


def build():
    torch.manual_seed(3)
    return FastRCNNOutputLayers().eval()


def example_inputs():
    g = torch.Generator().manual_seed(1)
    lo = torch.rand(7, 2, generator=g) * 20
    return torch.randn(7, 16, generator=g), torch.cat([lo, lo + 4 + 20 * torch.rand(7, 2, generator=g)], 1), (48, 48)
