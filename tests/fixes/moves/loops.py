"""Loops as people write them, one function each; ``vectorize.txt`` has what becomes of them.

The annotations say what a test passes: dtype and sizes, which it draws; `< C` bounds integers.
"""

# ruff: noqa
import torch
import torch.nn as nn
import torch.nn.functional as F


# Samples


def listed(x: "f B T D", p: "f B"):
    out = []
    for image, prob in zip(x, p.tolist()):
        if prob > 0:
            image = image * (1 + prob)
        out.append(image)
    return torch.stack(out)


def clamped(x: "f B T", low: "f B"):
    B, T = x.shape
    out = x.clone()
    for i in range(B):
        out[i] = x[i].clamp(min=float(low[i]))
    return out


def noisy(x: "f B T", p: "f B"):
    out = []
    for i in range(x.size(0)):
        if p[i] > 0:
            out.append(x[i] + torch.randn_like(x[i]))
        else:
            out.append(x[i])
    return torch.stack(out)


def valid_loss(x: "f B T", y: "f B T", valid: "b B"):
    loss = x.new_zeros(())
    n = 0
    for i in range(len(x)):
        if valid[i]:
            loss = loss + (x[i] - y[i]).pow(2).mean()
            n += 1
    return loss / max(n, 1)


def three_ways(x: "f B T", mode: "i B < 3"):
    out = torch.empty_like(x)
    for i, m in enumerate(mode.tolist()):
        if m == 0:
            out[i] = x[i]
        elif m == 1:
            out[i] = -x[i]
        else:
            out[i] = x[i].exp()
    return out


def differences(x: "f T D", reset: "b T"):
    out = torch.zeros_like(x)
    for t in range(1, x.size(0)):
        if reset[t]:
            continue
        out[t] = x[t] - x[t - 1]
    return out


# Experts


class Switch(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: "f N 4"):
        gate, expert_idx = F.softmax(self.gate(x), dim=-1).max(dim=-1)
        out = torch.zeros_like(x)
        for e in range(3):
            idx = torch.nonzero(expert_idx == e).squeeze(-1)
            if len(idx) == 0:
                continue
            out[idx] = gate[idx].unsqueeze(-1) * self.experts[e](x[idx])
        return out


class WithDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)) for _ in range(3)]
        )

    def forward(self, x: "f N 4", choice: "i N < 3"):
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            idx = (choice == e).nonzero(as_tuple=True)
            out[idx] += expert(x[idx])
        return out


class WithNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)) for _ in range(3)]
        )

    def forward(self, x: "f N 4", choice: "i N < 3"):
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            mask = choice == e
            out[mask] = expert(x[mask])
        return out


# Classes and segments


def segment_means(x: "f N D", batch: "i N < 3"):
    out = []
    for g in range(3):
        nodes = x[batch == g]
        if nodes.shape[0] == 0:
            out.append(torch.zeros(x.shape[1]))
        else:
            out.append(nodes.mean(dim=0))
    return torch.stack(out, dim=0)


def segment_max(x: "f N D", batch: "i N < 3"):
    out = x.new_zeros(3, x.size(1))
    for g in range(3):
        idx = torch.nonzero(batch == g).squeeze(1)
        if idx.numel() > 0:
            out[g] = x[idx].amax(dim=0)
    return out


def running_means(x: "f N D", labels: "i N < 3", old: "f 3 D"):
    new = old.clone()
    for c in range(3):
        m = labels == c
        n = m.sum()
        if n > 0:
            new[c] = 0.9 * old[c] + 0.1 * x[m].sum(0) / n
    return new


def over_unique(x: "f N D", labels: "i N < 3"):
    loss = x.new_zeros(())
    for c in labels.unique():
        loss = loss + x[labels == c].mean(0).norm()
    return loss


def selected_scores(scores: "f N", labels: "i N < 3"):
    best = torch.full((3,), -1.0)
    for c in range(3):
        s = scores[labels == c]
        if len(s) > 0:
            best[c] = s.max()
    return best


# Ragged rows


def packed_sums(packed: "f P D", lengths: "s B P"):
    pooled = []
    start = 0
    for length in lengths.tolist():
        seq = packed[start : start + length]
        start += length
        if length == 0:
            pooled.append(torch.zeros(packed.size(-1)))
            continue
        pooled.append(seq.sum(0))
    return torch.stack(pooled)


def masked_rows(x: "f B T D", mask: "b B T"):
    out = []
    for i in range(x.size(0)):
        kept = x[i][mask[i]]
        out.append(kept.sum(0) / max(len(kept), 1))
    return torch.stack(out)


# Running values


def alphas(beta: "f T"):
    out = []
    alpha = 1.0
    for b in beta.tolist():
        alpha = alpha * (1 - b)
        out.append(alpha)
    return torch.tensor(out)


# As in libraries


def masked_cross_entropy(logits: "f N 4", labels: "i N < 4", group: "i N < 2"):
    total = logits.new_zeros(())
    for g in range(2):
        m = group == g
        if m.any():
            total = total + F.cross_entropy(logits[m], labels[m])
    return total


# Other styles


def dice_per_class(pred: "f B C H W", target: "i B H W < 3"):
    total = 0.0
    for c in range(pred.shape[1]):
        p = pred[:, c].sigmoid()
        t = (target == c).float()
        if t.sum() == 0:
            continue
        total = total + 1 - 2 * (p * t).sum() / (p.sum() + t.sum() + 1e-6)
    return total


def pairwise_margin(scores: "f B C", target: "i B < C"):
    loss = 0.0
    for i in range(scores.size(0)):
        s = scores[i]
        y = int(target[i])
        loss = loss + F.relu(1.0 - s[y] + s).sum() - 1.0
    return loss / scores.size(0)


def box_areas(boxes: "f B 4", keep: "b B"):
    areas = []
    for b, k in zip(boxes, keep):
        if k:
            areas.append((b[2] - b[0]).clamp(min=0) * (b[3] - b[1]).clamp(min=0))
        else:
            areas.append(boxes.new_tensor(0.0))
    return torch.stack(areas)
