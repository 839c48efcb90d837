"""Image classification step of a training script: mixup or cutmix, soft targets, meters, non-finite check."""
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class AverageMeter:
    """Computes and stores the average and current value"""

    def __init__(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def rand_bbox(img_shape, lam):
    ratio = np.sqrt(1 - lam)
    h, w = img_shape[-2:]
    cut_h, cut_w = int(h * ratio), int(w * ratio)
    cy, cx = np.random.randint(0, h), np.random.randint(0, w)
    return np.clip(cy - cut_h // 2, 0, h), np.clip(cy + cut_h // 2, 0, h), np.clip(cx - cut_w // 2, 0, w), np.clip(cx + cut_w // 2, 0, w)


def one_hot(x, num_classes, on_value, off_value):
    return torch.full((x.size(0), num_classes), off_value).scatter_(1, x.long().view(-1, 1), on_value)


class Mixup:
    def __init__(self, mixup_alpha=0.8, cutmix_alpha=1.0, switch_prob=0.5, label_smoothing=0.1, num_classes=5):
        self.mixup_alpha, self.cutmix_alpha, self.switch_prob = mixup_alpha, cutmix_alpha, switch_prob
        self.label_smoothing, self.num_classes = label_smoothing, num_classes

    def __call__(self, x, target):
        use_cutmix = np.random.rand() < self.switch_prob
        lam = float(np.random.beta(self.cutmix_alpha, self.cutmix_alpha) if use_cutmix else np.random.beta(self.mixup_alpha, self.mixup_alpha))
        if use_cutmix:
            yl, yh, xl, xh = rand_bbox(x.shape, lam)
            x = x.clone()
            x[:, :, yl:yh, xl:xh] = x.flip(0)[:, :, yl:yh, xl:xh]
            lam = 1.0 - (yh - yl) * (xh - xl) / (x.shape[-2] * x.shape[-1])
        else:
            x = x * lam + x.flip(0) * (1.0 - lam)
        off = self.label_smoothing / self.num_classes
        y1 = one_hot(target, self.num_classes, 1.0 - self.label_smoothing + off, off)
        y2 = one_hot(target.flip(0), self.num_classes, 1.0 - self.label_smoothing + off, off)
        return x, y1 * lam + y2 * (1.0 - lam)


class ConvNet(nn.Module):
    def __init__(self, num_classes=5, drop_path=0.1):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.block = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.head = nn.Linear(8, num_classes)
        self.drop_path = drop_path

    def forward(self, x):
        x = F.gelu(self.stem(x))
        y = self.block(x)
        if self.drop_path > 0.0 and self.training:
            keep = torch.empty(x.shape[0], 1, 1, 1).bernoulli_(1 - self.drop_path)
            y = y * keep / (1 - self.drop_path)
        return self.head((x + y).mean((2, 3)))


class TrainStep(nn.Module):
    def __init__(self, log_interval=2):
        super().__init__()
        self.model, self.mixup_fn = ConvNet(), Mixup()
        self.losses_m = AverageMeter()
        self.batch_idx, self.log_interval = 0, log_interval

    def forward(self, input, target):
        x, soft = self.mixup_fn(input, target)
        output = self.model(x)
        loss = torch.sum(-soft * F.log_softmax(output, dim=-1), dim=-1).mean()
        if not torch.isfinite(loss):
            print(f"Loss is {loss}, stopping training")
            sys.exit(1)
        self.losses_m.update(loss.item(), input.size(0))
        if self.batch_idx % self.log_interval == 0:
            print(f"Train: [{self.batch_idx:>4d}] Loss: {self.losses_m.val:>6.4f} ({self.losses_m.avg:>6.4f})")
        self.batch_idx += 1
        return loss


def build():
    torch.manual_seed(0)
    np.random.seed(0)
    return TrainStep().train()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    return [(torch.randn(4, 3, 8, 8, generator=g), torch.randint(0, 5, (4,), generator=g)) for _ in range(3)]
