"""Curriculum learning: self-paced weights, buckets of difficulty and noisy-label filtering."""

import math
import random
import warnings
from collections import Counter, deque

import torch
import torch.nn as nn
import torch.nn.functional as F


class DifficultyBuckets:
    """A history of losses by sample id; what is hard now waits until the competence allows it."""

    def __init__(self, n_buckets=3, window=3):
        self.n_buckets, self.window = n_buckets, window
        self.history = {}

    def record(self, ids, losses):
        for i, loss in zip(ids.tolist(), losses.detach().cpu().tolist()):
            self.history.setdefault(i, deque(maxlen=self.window)).append(loss)

    def difficulty(self, i):
        past = self.history.get(i)
        return sum(past) / len(past) if past else 0.0

    def bucket(self, i):
        ranked = sorted(self.history, key=self.difficulty)
        if i not in self.history:
            return 0
        return ranked.index(i) * self.n_buckets // len(ranked)


class SelfPacedClassifier(nn.Module):
    def __init__(self, dim=10, num_classes=4, lam=0.1, growth=1.15, total_steps=30, keep=0.5):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 24), nn.ReLU(), nn.Linear(24, num_classes))
        self.buckets = DifficultyBuckets()
        self.lam, self.growth, self.total_steps, self.keep = lam, growth, total_steps, keep
        self.c0, self.min_chosen = 0.2, 5
        self.step = 0
        self.bad_counter = Counter()

    def competence(self):
        t = self.step / self.total_steps
        return min(1.0, math.sqrt(t * (1 - self.c0**2) + self.c0**2))

    def select(self, ids):
        """Positions of the samples that the curriculum lets through."""
        limit = math.ceil(self.competence() * self.buckets.n_buckets)
        chosen = []
        for pos, i in enumerate(ids):
            if self.buckets.bucket(i.item()) < limit or random.random() < 0.1:
                chosen.append(pos)
        if len(chosen) < self.min_chosen:
            chosen = random.sample(range(len(ids)), self.min_chosen)
        return torch.tensor(sorted(chosen), dtype=torch.long)

    def soft_weights(self, losses):
        if torch.all(losses >= self.lam):
            warnings.warn("no sample is easy enough; the pace is raised")
            self.lam = losses.min().item() * 1.1
        v = (1 - losses / self.lam).clamp(min=0)
        return v / v.sum().clamp(min=1e-8) * (v > 0).sum()

    def filter_noisy(self, logits, labels, ids):
        confidence, pred = logits.softmax(-1).max(dim=-1)
        suspicious = (pred != labels) & (confidence > self.keep)
        for i in ids[suspicious]:
            self.bad_counter[int(i)] += 1
        repeated = [i for i, n in self.bad_counter.items() if n > 1]
        if not repeated:
            return torch.ones_like(labels, dtype=torch.bool)
        return ~torch.isin(ids, torch.tensor(repeated))

    def forward(self, x, labels, ids):
        self.step += 1
        chosen = self.select(ids)
        x, labels, ids = x[chosen], labels[chosen], ids[chosen]
        logits = self.net(x)
        losses = F.cross_entropy(logits, labels, reduction="none")
        self.buckets.record(ids, losses)
        clean = self.filter_noisy(logits.detach(), labels, ids)
        weights = self.soft_weights(losses.detach())
        loss = (losses * weights * clean).sum() / clean.sum().clamp(min=1)
        self.lam *= self.growth
        info = {"lam": self.lam, "competence": self.competence(), "used": len(chosen)}
        if self.step % 2 == 0:
            hardest = losses.argmax()
            info["hardest"] = (ids[hardest].item(), self.buckets.difficulty(ids[hardest].item()))
        return loss, weights, info


def build():
    torch.manual_seed(0)
    random.seed(0)
    return SelfPacedClassifier()


def example_inputs():
    g = torch.Generator().manual_seed(3)
    x = torch.randn(14, 10, generator=g) * 3
    labels = torch.randint(0, 4, (14,), generator=g)
    calls = []
    for n in (8, 8, 8, 6, 10):
        ids = torch.randperm(14, generator=g)[:n]
        calls.append((x[ids], labels[ids], ids))
    return calls
