"""Losses for semantic segmentation: Lovász-softmax over present classes, OHEM cross entropy and mean IoU."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def lovasz_grad(gt_sorted):
    p = len(gt_sorted)
    gts = gt_sorted.sum()
    intersection = gts - gt_sorted.float().cumsum(0)
    union = gts + (1 - gt_sorted).float().cumsum(0)
    jaccard = 1.0 - intersection / union
    if p > 1:  # cover 1-pixel case
        jaccard[1:p] = jaccard[1:p] - jaccard[0:-1]
    return jaccard


def lovasz_softmax_flat(probas, labels, classes="present"):
    C = probas.size(1)
    losses = []
    class_to_sum = list(range(C)) if classes in ["all", "present"] else classes
    for c in class_to_sum:
        fg = (labels == c).float()
        if classes == "present" and fg.sum() == 0:
            continue
        errors = (fg - probas[:, c]).abs()
        errors_sorted, perm = torch.sort(errors, 0, descending=True)
        fg_sorted = fg[perm.data]
        losses.append(torch.dot(errors_sorted, lovasz_grad(fg_sorted)))
    return torch.stack(losses).mean()


class OhemCrossEntropy(nn.Module):
    def __init__(self, ignore_label=255, thres=0.7, min_kept=20):
        super().__init__()
        self.thresh, self.min_kept, self.ignore_label = thres, max(1, min_kept), ignore_label
        self.criterion = nn.CrossEntropyLoss(ignore_index=ignore_label, reduction="none")

    def forward(self, score, target):
        pred = F.softmax(score, dim=1)
        pixel_losses = self.criterion(score, target).contiguous().view(-1)
        mask = target.contiguous().view(-1) != self.ignore_label
        tmp_target = target.clone()
        tmp_target[tmp_target == self.ignore_label] = 0
        pred = pred.gather(1, tmp_target.unsqueeze(1))
        pred, ind = pred.contiguous().view(-1)[mask].contiguous().sort()
        min_value = pred[min(self.min_kept, pred.numel() - 1)]
        threshold = max(min_value, self.thresh)
        pixel_losses = pixel_losses[mask][ind]
        pixel_losses = pixel_losses[pred < threshold]
        return pixel_losses.mean()


class SegTrainer(nn.Module):
    def __init__(self, n_classes=5):
        super().__init__()
        self.backbone = nn.Conv2d(3, 8, 3, padding=1)
        self.classifier = nn.Conv2d(8, n_classes, 1)
        self.ohem = OhemCrossEntropy()
        self.n_classes = n_classes

    @torch.no_grad()
    def mean_iou(self, pred, target):
        ious = []
        for cls in range(self.n_classes):
            inter = ((pred == cls) & (target == cls)).sum().item()
            union = (((pred == cls) | (target == cls)) & (target != 255)).sum().item()
            if union > 0:
                ious.append(inter / union)
        return sum(ious) / len(ious)

    def forward(self, image, target):
        logits = self.classifier(F.relu(self.backbone(image)))
        valid = target.view(-1) != 255
        probas = F.softmax(logits, dim=1).permute(0, 2, 3, 1).reshape(-1, self.n_classes)
        lovasz = lovasz_softmax_flat(probas[valid], target.view(-1)[valid])
        return self.ohem(logits, target) + lovasz, self.mean_iou(logits.argmax(1), target)


def build():
    torch.manual_seed(0)
    return SegTrainer()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    target = torch.randint(0, 4, (2, 8, 8), generator=g)
    target[torch.rand(2, 8, 8, generator=g) < 0.1] = 255
    return torch.randn(2, 3, 8, 8, generator=g), target
