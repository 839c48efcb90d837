"""Loops as people write them, one function each; ``vectorize.txt`` has what becomes of them.

The annotations say what a test passes: dtype and sizes, which it draws; `< C` bounds integers.
"""

# ruff: noqa
import torch
import torch.nn as nn
import torch.nn.functional as F


# Samples


def flip_some(x: "f B T", p: "f B"):
    out = torch.empty_like(x)
    for i in range(x.shape[0]):
        if p[i] > 0.5:
            out[i] = x[i].flip(-1)
        else:
            out[i] = x[i]
    return out


def scale_each(x: "f B C H W", scale: "f B"):
    out = []
    for i in range(len(x)):
        s = scale[i].item()
        # Keep what is small.
        out.append(torch.where(x[i].abs() < 0.1, x[i], x[i] * s))
    return torch.stack(out)


def listed(x: "f B T D", p: "f B"):
    out = []
    for image, prob in zip(x, p.tolist()):
        if prob > 0:
            image = image * (1 + prob)
        out.append(image)
    return torch.stack(out)


def shuffled(x: "f B T H", order: "p B T"):
    out = torch.empty_like(x)
    for i in range(x.shape[0]):
        out[i] = x[i, order[i]]
    return out


def clamped(x: "f B T", low: "f B"):
    B, T = x.shape
    out = x.clone()
    for i in range(B):
        out[i] = x[i].clamp(min=float(low[i]))
    return out


def by_maximum(x: "f B T"):
    out = torch.zeros_like(x)
    for i in range(x.size(0)):
        m = x[i].abs().max()
        if m > 0.5:
            out[i] = x[i] / m
    return out


def noisy(x: "f B T", p: "f B"):
    out = []
    for i in range(x.size(0)):
        if p[i] > 0:
            out.append(x[i] + torch.randn_like(x[i]))
        else:
            out.append(x[i])
    return torch.stack(out)


def picked_logit(logits: "f B C", index: "i B < C"):
    out = []
    for i in range(logits.size(0)):
        out.append(logits[i, index[i].item()])
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


def skip_masked(x: "f B T", mask: "b B"):
    out = torch.zeros(x.shape[0], x.shape[1])
    for i in range(x.shape[0]):
        if not mask[i]:
            continue
        out[i] = x[i].softmax(-1)
    return out


def differences(x: "f T D", reset: "b T"):
    out = torch.zeros_like(x)
    for t in range(1, x.size(0)):
        if reset[t]:
            continue
        out[t] = x[t] - x[t - 1]
    return out


# Experts


class TopK(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)) for _ in range(3)]
        )

    def forward(self, x: "f N 4"):
        probs = F.softmax(self.gate(x), dim=-1)
        weight, route = torch.topk(probs, 2, dim=-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, slot = torch.where(route == i)
            if rows.numel() == 0:
                continue
            out[rows] += weight[rows, slot, None] * expert(x[rows])
        return out


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


class Capacity(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: "f N 4"):
        n = x.shape[0]
        gate, expert_idx = torch.softmax(self.gate(x), -1).max(-1)
        capacity = int(1.0 * n / 3)
        out = torch.zeros_like(x)
        dropped = 0
        for e in range(3):
            idx = torch.nonzero(expert_idx == e).squeeze(-1)
            if len(idx) > capacity:
                dropped += len(idx) - capacity
                idx = idx[:capacity]
            if len(idx) == 0:
                continue
            out[idx] = gate[idx, None] * self.experts[e](x[idx])
        return out, dropped


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: "f B T 4"):
        choice = self.gate(x).argmax(-1)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            mask = choice == e
            if mask.any():
                y[mask] = expert(x[mask])
        return x + y


class Added(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: "f N 4"):
        weights, selected = torch.topk(self.gate(x).softmax(dim=-1), 2)
        final = torch.zeros_like(x)
        for e in range(len(self.experts)):
            rows, k = torch.where(selected == e)
            current = self.experts[e](x[rows]) * weights[rows, k].unsqueeze(-1)
            final.index_add_(0, rows, current)
        return final


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


def prototypes(x: "f N D", labels: "i N < 4"):
    protos = torch.zeros(4, x.size(1))
    for c in range(4):
        m = labels == c
        if m.any():
            protos[c] = x[m].mean(0)
    return protos


def label_counts(labels: "i N < 4"):
    counts = torch.zeros(4)
    for c in range(4):
        counts[c] = (labels == c).sum().item()
    return counts


def segment_means(x: "f N D", batch: "i N < 3"):
    out = []
    for g in range(3):
        nodes = x[batch == g]
        if nodes.shape[0] == 0:
            out.append(torch.zeros(x.shape[1]))
        else:
            out.append(nodes.mean(dim=0))
    return torch.stack(out, dim=0)


def class_accuracy(pred: "i N < 3", labels: "i N < 3"):
    acc = torch.zeros(3)
    for c in range(3):
        mask = labels == c
        if mask.sum() > 0:
            acc[c] = (pred[mask] == labels[mask]).float().mean()
    return acc


def iou(pred: "i H W < 3", target: "i H W < 3"):
    ious = torch.zeros(3)
    for c in range(3):
        inter = ((pred == c) & (target == c)).sum().float()
        union = ((pred == c) | (target == c)).sum().float()
        if union > 0:
            ious[c] = inter / union
    return ious.mean()


def class_loss(x: "f N D", y: "f N D", labels: "i N < 3"):
    total = x.new_zeros(())
    for c in range(3):
        m = labels == c
        if m.sum() == 0:
            continue
        total = total + (x[m] - y[m]).abs().mean()
    return total


def segment_max(x: "f N D", batch: "i N < 3"):
    out = x.new_zeros(3, x.size(1))
    for g in range(3):
        idx = torch.nonzero(batch == g).squeeze(1)
        if idx.numel() > 0:
            out[g] = x[idx].amax(dim=0)
    return out


def variance_within(x: "f N D", labels: "i N < 3"):
    loss = 0.0
    for c in range(3):
        m = labels == c
        if not m.any():
            continue
        center = x[m].mean(0)
        loss = loss + ((x[m] - center) ** 2).sum()
    return loss


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


def mean_of_length(x: "f B T D", lengths: "n B <= T"):
    out = []
    for i, n in enumerate(lengths.tolist()):
        out.append(x[i, :n].mean(0))
    return torch.stack(out)


def copy_length(x: "f B T D", lengths: "n B <= T"):
    out = torch.zeros_like(x)
    for i in range(x.size(0)):
        n = int(lengths[i])
        out[i, :n] = x[i, :n]
    return out


def length_mask(x: "f B T", lengths: "n B <= T"):
    mask = torch.zeros(x.size(0), x.size(1), dtype=torch.bool)
    for i, n in enumerate(lengths.tolist()):
        mask[i, :n] = True
    return x.masked_fill(~mask, 0.0)


def fill_padding(scores: "f B T", lengths: "n B <= T"):
    scores = scores.clone()
    for i in range(scores.shape[0]):
        scores[i, lengths[i].item() :] = -1e9
    return scores.softmax(-1)


def last_step(h: "f B T D", lengths: "n B <= T"):
    out = []
    for i in range(h.size(0)):
        out.append(h[i, lengths[i].item() - 1])
    return torch.stack(out)


def attention_of_length(x: "f B T D", score: "f B T", lengths: "n B <= T"):
    out = []
    for b, n in enumerate(lengths.tolist()):
        weight = score[b, :n].softmax(0)
        out.append((weight.unsqueeze(-1) * x[b, :n]).sum(0))
    return torch.stack(out)


def max_of_length(x: "f B T D", lengths: "n B <= T"):
    pooled = torch.zeros(x.size(0), x.size(2))
    for i in range(x.size(0)):
        n = lengths[i].item()
        if n > 0:
            pooled[i] = x[i, :n].amax(dim=0)
    return pooled


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


def loss_of_length(x: "f B T", y: "f B T", lengths: "n B <= T"):
    total = 0.0
    for i, n in enumerate(lengths.tolist()):
        total = total + (x[i, :n] - y[i, :n]).pow(2).sum()
    return total / lengths.sum()


# Running values


def offsets(counts: "i B < 5"):
    starts = torch.zeros_like(counts)
    offset = 0
    for i in range(len(counts)):
        starts[i] = offset
        offset += counts[i].item()
    return starts


def alphas(beta: "f T"):
    out = []
    alpha = 1.0
    for b in beta.tolist():
        alpha = alpha * (1 - b)
        out.append(alpha)
    return torch.tensor(out)


def discounted(r: "f T", done: "b T"):
    out = torch.zeros_like(r)
    total = 0.0
    for t in range(len(r)):
        if done[t]:
            total = 0.0
        total = r[t] + 0.9 * total
        out[t] = total
    return out


# As in libraries


class Mixtral(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.register_buffer("load", torch.zeros(3))

    def forward(self, hidden_states: "f B T 4"):
        batch, seq, dim = hidden_states.shape
        x = hidden_states.view(-1, dim)
        weights, selected = torch.topk(F.softmax(self.gate(x), dim=-1), 2, dim=-1)
        final = torch.zeros_like(x)
        expert_mask = F.one_hot(selected, num_classes=3).permute(2, 1, 0)
        for expert_idx in range(3):
            idx, top_x = torch.where(expert_mask[expert_idx])
            if top_x.shape[0] == 0:
                continue
            current = x[None, top_x].reshape(-1, dim)
            out = self.experts[expert_idx](current) * weights[top_x, idx, None]
            final.index_add_(0, top_x, out.to(x.dtype))
            self.load[expert_idx] += top_x.shape[0]
        return final.view(batch, seq, dim), self.load.clone()


class Centers(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(4, 3))

    def forward(self, x: "f N 3", labels: "i N < 4"):
        loss = 0.0
        for c in labels.unique():
            members = x[labels == c]
            loss = loss + (members - self.centers[c]).pow(2).sum(1).mean()
        return loss / self.centers.shape[0]


def dice(logits: "f N 4", target: "i N < 4"):
    shares = logits.softmax(1)
    losses = []
    for number in range(4):
        wanted = (target == number).float()
        if wanted.sum() == 0:
            continue
        given = shares[:, number]
        both = (given * wanted).sum()
        losses.append(1 - 2 * both / (given.sum() + wanted.sum()))
    return torch.stack(losses).mean()


def channel_shuffle(x: "f B C H W", order: "p B C"):
    out = torch.empty_like(x)
    for i in range(out.shape[0]):
        out[i] = x[i, order[i]]
    return out


def masked_cross_entropy(logits: "f N 4", labels: "i N < 4", group: "i N < 2"):
    total = logits.new_zeros(())
    for g in range(2):
        m = group == g
        if m.any():
            total = total + F.cross_entropy(logits[m], labels[m])
    return total


def comprehension(x: "f B T", p: "f B"):
    return torch.stack([x[i] * float(p[i]) for i in range(len(x))])


def comprehension_of_pairs(x: "f B T", lengths: "n B <= T"):
    pooled = torch.stack([row[:n].sum() / max(n, 1) for row, n in zip(x, lengths.tolist())])
    return pooled * 2


# Other styles


def solarize(x: "f B C H W", thresholds: "f B"):
    res = []
    for i in range(x.shape[0]):
        t = float(thresholds[i])
        res.append(torch.where(x[i] < t, x[i], 1.0 - x[i]))
    return torch.stack(res)


def dice_per_class(pred: "f B C H W", target: "i B H W < 3"):
    total = 0.0
    for c in range(pred.shape[1]):
        p = pred[:, c].sigmoid()
        t = (target == c).float()
        if t.sum() == 0:
            continue
        total = total + 1 - 2 * (p * t).sum() / (p.sum() + t.sum() + 1e-6)
    return total


def class_balanced(losses: "f N", labels: "i N < 4"):
    per_class = losses.new_zeros(4)
    for c in range(4):
        sel = losses[labels == c]
        if sel.numel() > 0:
            per_class[c] = sel.mean()
    return per_class.sum()


def normalized_rows(x: "f B T", lengths: "n B <= T"):
    out = x.clone()
    for b in range(x.size(0)):
        n = int(lengths[b].item())
        if n > 1:
            out[b, :n] = x[b, :n] - x[b, :n].mean()
    return out


def token_accuracy(logits: "f B T C", labels: "i B T < C", lengths: "n B <= T"):
    correct = 0
    for b in range(logits.size(0)):
        n = lengths[b].item()
        correct += (logits[b, :n].argmax(-1) == labels[b, :n]).sum()
    return correct / lengths.sum().clamp(min=1)


def graph_readout(h: "f N D", batch: "i N < 3", gate: "f N"):
    outs = []
    for g in range(3):
        mask = batch == g
        w = gate[mask].softmax(0)
        outs.append((w.unsqueeze(-1) * h[mask]).sum(0))
    return torch.stack(outs)


def ema_codebook(z: "f N D", codes: "i N < 4", book: "f 4 D"):
    new = book.clone()
    for k in range(4):
        hits = z[codes == k]
        if len(hits) > 0:
            new[k] = 0.9 * book[k] + 0.1 * hits.mean(0).detach()
    return new


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


def semihard(x: "f N N", labels: "i N < 3"):
    losses = []
    for i in range(labels.shape[0]):
        others = labels != labels[i]
        if not others.any():
            continue
        far = x[i][others]
        near = far[far > 0.2]
        best = near.min() if len(near) > 0 else far.min()
        losses.append(torch.relu(best + 0.3))
    if len(losses) == 0:
        return x.sum() * 0.0
    return sum(losses) / len(losses)


def present_classes(x: "f N C", labels: "i N < 4"):
    losses = []
    for c in range(4):
        m = labels == c
        if not m.any():
            continue
        losses.append((x[:, 0][m] - c).square().mean())
    return torch.stack(losses).sum() / max(len(losses), 1)


# Rows that are set, found and counted


def silence(x: "f B C T", lens: "n B <= T"):
    x = x.clone()
    for i, n in enumerate(lens.tolist()):
        x[i, :, n:] = 0
    return x


def padded_mask(x: "f B T D", lens: "n B <= T"):
    mask = torch.zeros(x.shape[0], x.shape[1], dtype=torch.bool)
    for i, n in enumerate(lens):
        mask[i, :n] = True
    return x.masked_fill(mask.unsqueeze(-1), 0)


def hard_negatives(scores: "f B N", least: "f B", bank: "f N D"):
    negatives = []
    for i in range(scores.shape[0]):
        candidates = torch.nonzero(scores[i] < least[i]).squeeze(1)
        if len(candidates) == 0:
            negatives.append(bank[scores[i].argmin()])
            continue
        best = candidates[scores[i][candidates].argmax()]
        negatives.append(bank[best])
    return torch.stack(negatives)


def some_anchors(sim: "f N N", labels: "i N < C"):
    losses = []
    for i in range(len(labels)):
        mask = labels == labels[i]
        mask[i] = False
        if mask.sum() == 0:
            continue
        losses.append(-sim[i][mask].mean())
    if not losses:
        return sim.sum() * 0, 0
    losses = torch.stack(losses)
    return losses.mean() + losses.max(), int((losses > 0).sum())


def reciprocal_ranks(scores: "f B N", labels: "i B < N"):
    ranks = []
    order = scores.argsort(dim=1, descending=True)
    for row, label in zip(order, labels):
        ranks.append((row == label).nonzero(as_tuple=True)[0].item() + 1)
    return sum(1.0 / r for r in ranks) / len(ranks), sum(r <= 3 for r in ranks) / len(ranks)
