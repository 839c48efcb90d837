"""Low-rank adapters with adaptive ranks: importance scores, a budget schedule and an orthogonal penalty."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SVDLinear(nn.Module):
    def __init__(self, in_features, out_features, r=4, lora_alpha=8, lora_dropout=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features), requires_grad=False)
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.lora_A = nn.Parameter(torch.randn(r, in_features) * 0.02)
        self.lora_E = nn.Parameter(torch.randn(r, 1) * 0.02)
        self.lora_B = nn.Parameter(torch.randn(out_features, r) * 0.02)
        self.register_buffer("ranknum", torch.tensor(float(r)))
        self.lora_dropout = nn.Dropout(lora_dropout) if lora_dropout > 0 else nn.Identity()
        self.scaling = lora_alpha if lora_alpha > 0 else r

    def forward(self, x):
        result = F.linear(x, self.weight)
        if self.ranknum > 0:
            delta = self.lora_dropout(x) @ (self.lora_A * self.lora_E).T @ self.lora_B.T
            result = result + delta * self.scaling / (self.ranknum + 1e-5)
        return result


class RankAllocator:
    def __init__(self, layers, init_budget=8, target_budget=4, tinit=1, tfinal=4, total=8):
        self.layers = layers
        self.init_budget, self.target_budget = init_budget, target_budget
        self.tinit, self.tfinal, self.total = tinit, tfinal, total

    def schedule(self, step):
        if step <= self.tinit:
            return self.init_budget, False
        if step > self.total - self.tfinal:
            return self.target_budget, True
        coeff = 1 - (step - self.tinit) / (self.total - self.tfinal - self.tinit)
        return int((self.init_budget - self.target_budget) * coeff**3 + self.target_budget), True

    @torch.no_grad()
    def update_and_mask(self, step):
        budget, mask_ind = self.schedule(step)
        if not mask_ind:
            return None
        scores = [(layer.lora_E.abs().squeeze(1) * layer.lora_A.abs().mean(1)) for layer in self.layers]
        all_scores = torch.cat(scores)
        threshold = torch.kthvalue(all_scores, all_scores.numel() - budget)[0].item()
        for layer, score in zip(self.layers, scores):
            layer.lora_E.masked_fill_((score <= threshold).unsqueeze(1), 0.0)
            layer.ranknum.fill_((score > threshold).sum().item())
        return threshold


class AdaptedClassifier(nn.Module):
    def __init__(self, dim=16, n_classes=4, orth_reg_weight=0.5):
        super().__init__()
        self.query, self.value = SVDLinear(dim, dim), SVDLinear(dim, dim)
        self.head = nn.Linear(dim, n_classes)
        self.allocator = RankAllocator([self.query, self.value])
        self.orth_reg_weight = orth_reg_weight
        self.global_step = 0

    def orth_penalty(self):
        penalty = 0.0
        for layer in (self.query, self.value):
            cov = layer.lora_A @ layer.lora_A.T
            penalty = penalty + torch.norm(cov - torch.eye(cov.shape[0]), p="fro")
        return penalty / 2

    def forward(self, x, labels):
        h = torch.sigmoid(self.query(x)) * self.value(x)
        loss = F.cross_entropy(self.head(h.mean(1)), labels) + self.orth_reg_weight * self.orth_penalty()
        self.global_step += 1
        threshold = self.allocator.update_and_mask(self.global_step)
        return loss, threshold


def build():
    torch.manual_seed(0)
    return AdaptedClassifier()


def example_inputs():
    g = torch.Generator().manual_seed(1)
    return [(torch.randn(3, 5, 16, generator=g), torch.randint(0, 4, (3,), generator=g)) for _ in range(3)]
