"""Anchor-based detection loss over three strides."""
import torch
import torch.nn as nn


def bbox_iou(box1, box2, eps=1e-7):
    (x1, y1, w1, h1), (x2, y2, w2, h2) = box1.chunk(4, -1), box2.chunk(4, -1)
    inter = (torch.min(x1 + w1 / 2, x2 + w2 / 2) - torch.max(x1 - w1 / 2, x2 - w2 / 2)).clamp(0) * (
        torch.min(y1 + h1 / 2, y2 + h2 / 2) - torch.max(y1 - h1 / 2, y2 - h2 / 2)
    ).clamp(0)
    return inter / (w1 * h1 + w2 * h2 - inter + eps)


class ComputeLoss(nn.Module):
    def __init__(self, nc=3, anchor_t=4.0, autobalance=True):
        super().__init__()
        self.BCEcls = nn.BCEWithLogitsLoss()
        self.BCEobj = nn.BCEWithLogitsLoss()
        self.balance = [4.0, 1.0, 0.4]
        self.nc, self.anchor_t, self.autobalance = nc, anchor_t, autobalance
        self.gr = 1.0
        self.register_buffer("anchors", torch.tensor([[[1.2, 1.6], [2.0, 3.7]], [[1.9, 3.8], [3.8, 2.8]], [[3.6, 2.8], [4.8, 6.2]]]))

    def build_targets(self, p, targets):
        tcls, tbox, indices = [], [], []
        na, nt = self.anchors.shape[1], targets.shape[0]
        gain = torch.ones(7, device=targets.device)
        ai = torch.arange(na, device=targets.device).float().view(na, 1).repeat(1, nt)
        targets = torch.cat((targets.repeat(na, 1, 1), ai[..., None]), 2)
        for i in range(len(p)):
            anchors, shape = self.anchors[i], p[i].shape
            gain[2:6] = torch.tensor(shape)[[3, 2, 3, 2]]
            t = targets * gain
            if nt:
                r = t[..., 4:6] / anchors[:, None]
                j = torch.max(r, 1 / r).max(2)[0] < self.anchor_t
                t = t[j]
            else:
                t = targets[0]
            bc, gxy, gwh, a = t.chunk(4, 1) if t.shape[1] == 8 else (t[:, :2], t[:, 2:4], t[:, 4:6], t[:, 6:])
            a, (b, c) = a.long().view(-1), bc.long().T
            gij = gxy.long()
            gi, gj = gij.T
            indices.append((b, a, gj.clamp(0, shape[2] - 1), gi.clamp(0, shape[3] - 1)))
            tbox.append(torch.cat((gxy - gij, gwh), 1))
            tcls.append(c)
        return tcls, tbox, indices

    def forward(self, p3, p4, p5, targets):
        p = [p3, p4, p5]
        lcls, lbox, lobj = torch.zeros(1), torch.zeros(1), torch.zeros(1)
        tcls, tbox, indices = self.build_targets(p, targets)
        for i, pi in enumerate(p):
            b, a, gj, gi = indices[i]
            tobj = torch.zeros(pi.shape[:4], dtype=pi.dtype)
            if n := b.shape[0]:
                pxy, pwh, _, pcls = pi[b, a, gj, gi].split((2, 2, 1, self.nc), 1)
                pwh = (pwh.sigmoid() * 2) ** 2 * self.anchors[i][a]
                iou = bbox_iou(torch.cat((pxy.sigmoid() * 2 - 0.5, pwh), 1), tbox[i]).squeeze(-1)
                lbox = lbox + (1.0 - iou).mean()
                tobj[b, a, gj, gi] = iou.detach().clamp(0).type(tobj.dtype)
                t = torch.zeros_like(pcls)
                t[range(n), tcls[i]] = 1.0
                lcls = lcls + self.BCEcls(pcls, t)
            obji = self.BCEobj(pi[..., 4], tobj)
            lobj = lobj + obji * self.balance[i]
            if self.autobalance:
                self.balance[i] = self.balance[i] * 0.9999 + 0.0001 / obji.detach().item()
        return (lbox * 0.05 + lobj + lcls * 0.5) * p3.shape[0], torch.cat((lbox, lobj, lcls)).detach()


def build():
    return ComputeLoss()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    t = torch.rand(5, 6, generator=g) * 0.5 + 0.2
    t[:, 0] = torch.tensor([0.0, 0, 1, 1, 1])
    t[:, 1] = torch.tensor([0.0, 2, 1, 0, 1])
    return tuple(torch.randn(2, 2, s, s, 8, generator=g) for s in (8, 4, 2)) + (t,)
