"""A text encoder with exits after every layer: patience, entropy thresholds, layer dropout, head pruning."""

import copy
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


def entropy(logits):
    p = F.softmax(logits, dim=-1)
    return -(p * torch.log(p + 1e-12)).sum(-1)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("head_mask", torch.ones(heads))
        self.is_pruned = False
        self.register_buffer("importance", torch.zeros(heads))

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / self.d**0.5
        probs = scores.masked_fill(~mask[:, None, None], -1e4).softmax(-1)
        if self.is_pruned:
            probs = probs * self.head_mask.view(1, -1, 1, 1)
        confidence = (probs.max(-1).values * mask[:, None]).sum(-1) / mask.sum(-1, keepdim=True)
        self.importance.mul_(0.5).add_(0.5 * confidence.detach().mean(0))
        return self.out((probs @ v).transpose(1, 2).reshape(b, t, -1))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = Attention(dim, heads)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, mask):
        x = self.n1(x + self.attn(x, mask))
        return self.n2(x + self.ffn(x))


class EarlyExitEncoder(nn.Module):
    def __init__(self, vocab=40, dim=16, depth=4, heads=4, num_labels=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])
        head = nn.Linear(dim, num_labels)
        nn.init.normal_(head.weight, std=0.4)
        self.exits = nn.ModuleList([copy.deepcopy(head) for _ in range(depth)])
        self.patience, self.early_exit_entropy = 1, 0.95
        self.layer_drop = 0.4
        self.prune_every, self.min_heads = 1, 3
        self.inference_layers_num = self.inference_instances_num = 0
        self.steps = 0

    def prune_heads(self):
        for n, layer in enumerate(self.layers):
            attn = layer.attn
            active = attn.head_mask.nonzero().flatten()
            if len(active) <= self.min_heads:
                continue
            worst = active[attn.importance[active].argmin()].item()
            attn.head_mask[worst], attn.is_pruned = 0, True
            print(f"layer {n}: pruned head {worst}, left {int(attn.head_mask.sum())}")

    def exit_by_patience(self, x, mask):
        patient_counter, patient_result, calculated = 0, None, 0
        for layer, head in zip(self.layers, self.exits):
            calculated += 1
            x = layer(x, mask)
            logits = head(x[:, 0])
            labels = logits.argmax(1)
            if patient_result is not None and torch.all(labels.eq(patient_result.argmax(1))):
                patient_counter += 1
            else:
                patient_counter = 0
            patient_result = logits
            if patient_counter == self.patience:
                break
        self.inference_layers_num += calculated
        self.inference_instances_num += 1
        return patient_result

    def exit_by_entropy(self, x, mask):
        """Rows that are sure leave the batch; the others go on."""
        result = torch.zeros(len(x), self.exits[0].out_features)
        depth = torch.zeros(len(x), dtype=torch.long)
        rows = torch.arange(len(x))
        for i, (layer, head) in enumerate(zip(self.layers, self.exits)):
            x = layer(x, mask)
            logits = head(x[:, 0])
            result[rows], depth[rows] = logits, i + 1
            unsure = entropy(logits) > self.early_exit_entropy
            if not unsure.any():
                break
            x, mask, rows = x[unsure], mask[unsure], rows[unsure]
        self.inference_layers_num += depth.float().mean().item()
        self.inference_instances_num += 1
        return result

    def forward(self, ids, labels=None, mode="patience"):
        mask = ids.ne(0)
        x = self.embed(ids)
        if labels is None:
            logits = self.exit_by_patience(x, mask) if mode == "patience" else self.exit_by_entropy(x, mask)
            return logits, self.inference_layers_num / self.inference_instances_num
        self.steps += 1
        total, weights = 0.0, 0
        for i, (layer, head) in enumerate(zip(self.layers, self.exits)):
            if i > 0 and random.random() < self.layer_drop:
                continue
            x = layer(x, mask)
            total = total + (i + 1) * F.cross_entropy(head(x[:, 0]), labels)
            weights += i + 1
        if self.steps % self.prune_every == 0:
            self.prune_heads()
        return total / weights, x[:, 0]


def build():
    torch.manual_seed(0)
    random.seed(0)
    return EarlyExitEncoder()


def example_inputs():
    g = torch.Generator().manual_seed(37)
    calls = []
    for n, mode in ((4, None), (4, None), (3, "patience"), (4, "entropy"), (3, "entropy")):
        ids = torch.randint(1, 40, (n, 6), generator=g)
        ids[-1, 4:] = 0
        labels = torch.randint(0, 3, (n,), generator=g)
        calls.append((ids, labels) if mode is None else (ids, None, mode))
    return calls
