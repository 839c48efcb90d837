"""Top-down human pose: heatmap head, its loss and the decoding with sub-pixel refinement."""

import numpy as np
import torch
import torch.nn as nn


def get_max_preds(batch_heatmaps):
    batch_size, num_joints, _, width = batch_heatmaps.shape
    reshaped = batch_heatmaps.reshape((batch_size, num_joints, -1))
    idx = np.argmax(reshaped, 2).reshape((batch_size, num_joints, 1))
    maxvals = np.amax(reshaped, 2).reshape((batch_size, num_joints, 1))
    preds = np.tile(idx, (1, 1, 2)).astype(np.float32)
    preds[:, :, 0] = preds[:, :, 0] % width
    preds[:, :, 1] = np.floor(preds[:, :, 1] / width)
    pred_mask = np.tile(np.greater(maxvals, 0.0), (1, 1, 2)).astype(np.float32)
    return preds * pred_mask, maxvals


def refine(coords, heatmaps):
    height, width = heatmaps.shape[2:]
    for n in range(coords.shape[0]):
        for p in range(coords.shape[1]):
            hm = heatmaps[n][p]
            px, py = int(coords[n][p][0]), int(coords[n][p][1])
            if 1 < px < width - 1 and 1 < py < height - 1:
                diff = np.array([hm[py][px + 1] - hm[py][px - 1], hm[py + 1][px] - hm[py - 1][px]])
                coords[n][p] += np.sign(diff) * 0.25
    return coords


def accuracy(output, target, thr=0.5):
    pred, _ = get_max_preds(output)
    gt, _ = get_max_preds(target)
    norm = np.array([output.shape[2], output.shape[3]]) / 10
    dists = np.linalg.norm((pred - gt) / norm, axis=2)
    valid = (gt > 1).all(axis=2)
    if not valid.any():
        return 0.0, 0
    return float((dists[valid] < thr).mean()), int(valid.sum())


class JointsOHKMMSELoss(nn.Module):
    def __init__(self, topk=3):
        super().__init__()
        self.criterion = nn.MSELoss(reduction="none")
        self.topk = topk

    def ohkm(self, loss):
        ohkm_loss = 0.0
        for i in range(loss.size(0)):
            sub_loss = loss[i]
            _, topk_idx = torch.topk(sub_loss, k=self.topk, dim=0, sorted=False)
            ohkm_loss += torch.gather(sub_loss, 0, topk_idx).sum() / self.topk
        return ohkm_loss / loss.size(0)

    def forward(self, output, target, target_weight):
        loss = 0.5 * self.criterion(output, target).mean(dim=(2, 3)) * target_weight
        return self.ohkm(loss)


class AverageMeter:
    def __init__(self):
        self.sum, self.count, self.avg = 0.0, 0, 0.0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count if self.count != 0 else 0


class PoseHead(nn.Module):
    def __init__(self, num_joints=5, print_freq=2):
        super().__init__()
        self.deconv = nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.final_layer = nn.Conv2d(8, num_joints, 1)
        self.criterion = JointsOHKMMSELoss()
        self.losses, self.acc = AverageMeter(), AverageMeter()
        self.print_freq, self.iter = print_freq, 0

    def forward(self, feats, target, target_weight):
        output = self.final_layer(torch.relu(self.bn(self.deconv(feats))))
        loss = self.criterion(output, target, target_weight)
        self.losses.update(loss.item(), feats.size(0))
        avg_acc, cnt = accuracy(output.detach().cpu().numpy(), target.detach().cpu().numpy())
        self.acc.update(avg_acc, cnt)
        if self.iter % self.print_freq == 0:
            print(f"[{self.iter}] Loss {self.losses.avg:.4f} Accuracy {self.acc.avg:.3f}")
        self.iter += 1
        with torch.no_grad():
            heatmaps = output.clone().cpu().numpy()
            coords, maxvals = get_max_preds(heatmaps)
            coords = torch.from_numpy(refine(coords, heatmaps))
        return loss, coords, torch.from_numpy(maxvals)


def build():
    torch.manual_seed(0)
    return PoseHead()


def example_inputs():
    g = torch.Generator().manual_seed(5)
    calls = []
    for n, s in ((2, 6), (2, 6), (3, 6), (2, 8)):
        weight = (torch.rand(n, 5, generator=g) > 0.3).float()
        target = torch.rand(n, 5, 2 * s, 2 * s, generator=g)
        calls.append((torch.randn(n, 8, s, s, generator=g), target, weight))
    return calls
