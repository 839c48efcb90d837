"""A contrastive loss that mines hard negatives."""

import torch
import torch.nn.functional as F
from torch import nn


class ContrastiveLoss(nn.Module):
    def __init__(self, margin: float = 0.5) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        embeddings = F.normalize(embeddings, dim=-1)
        similarity = embeddings @ embeddings.T
        same = labels[:, None] == labels[None, :]
        positives = similarity[same]
        negatives = similarity[~same]
        hard = negatives[negatives > self.margin]
        if len(hard) == 0:
            return (1 - positives).mean()
        loss = (1 - positives).mean() + hard.mean()
        return loss


class Trainer:
    def __init__(self, model, loss):
        self.model = torch.compile(model, backend="eager")
        self.loss = torch.compile(loss, backend="eager")

    def step(self, x, labels):
        return self.loss(self.model(x), labels)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 4)

    def forward(self, x):
        out = self.net(x)
        if self.training:
            noise = torch.randn_like(out) * 0.01
            out = out + noise
        return out


trainer = Trainer(Embedder(), ContrastiveLoss())
trainer.step(torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2]))
