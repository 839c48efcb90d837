"""Metric learning: hardest and semi-hard triplets from a batch, and recall@1 for the log."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def pdist(vectors):
    d = -2 * vectors.mm(vectors.t()) + vectors.pow(2).sum(1).view(1, -1) + vectors.pow(2).sum(1).view(-1, 1)
    return d.clamp(min=1e-12).sqrt()


class EmbeddingNet(nn.Module):
    def __init__(self, dim=12, embedding=6):
        super().__init__()
        self.convnet = nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.PReLU(), nn.AvgPool1d(2))
        self.fc = nn.Linear(4 * dim // 2, embedding)

    def forward(self, x):
        return F.normalize(self.fc(self.convnet(x.unsqueeze(1)).flatten(1)), dim=1)


class SemihardTripletLoss(nn.Module):
    def __init__(self, margin=0.3):
        super().__init__()
        self.margin = margin

    def forward(self, embeddings, labels):
        dist = pdist(embeddings)
        same = labels[:, None] == labels[None, :]
        losses = []
        for i in range(labels.shape[0]):
            positives = same[i].clone()
            positives[i] = False
            negatives = ~same[i]
            if not positives.any() or not negatives.any():
                continue
            ap = dist[i][positives].max()
            an = dist[i][negatives]
            semihard = an[(an > ap) & (an < ap + self.margin)]
            negative = semihard.min() if len(semihard) > 0 else an.min()
            losses.append(F.relu(ap - negative + self.margin))
        if len(losses) == 0:
            return embeddings.sum() * 0.0, 0
        losses = torch.stack(losses)
        return losses.mean(), int((losses > 0).sum())


class CenterLoss(nn.Module):
    def __init__(self, num_classes, dim):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(num_classes, dim))

    def forward(self, x, labels):
        loss = 0.0
        for c in labels.unique():
            members = x[labels == c]
            loss = loss + (members - self.centers[c]).pow(2).sum(1).mean()
        return loss / self.centers.shape[0]


class MetricLearner(nn.Module):
    def __init__(self, num_classes=4, center_weight=0.01):
        super().__init__()
        self.net = EmbeddingNet()
        self.triplet = SemihardTripletLoss()
        self.center = CenterLoss(num_classes, 6)
        self.center_weight = center_weight

    @torch.no_grad()
    def recall_at_1(self, embeddings, labels):
        dist = pdist(embeddings).fill_diagonal_(float("inf"))
        return (labels[dist.argmin(1)] == labels).float().mean().item()

    def forward(self, x, labels):
        embeddings = self.net(x)
        loss, nonzero = self.triplet(embeddings, labels)
        loss = loss + self.center_weight * self.center(embeddings, labels)
        return loss, {"nonzero_triplets": nonzero, "recall@1": self.recall_at_1(embeddings, labels)}


def build():
    torch.manual_seed(0)
    return MetricLearner()


def example_inputs():
    g = torch.Generator().manual_seed(3)
    return [(torch.randn(9, 12, generator=g), torch.tensor([0, 0, 1, 1, 2, 2, 2, 3, 3])), (torch.randn(9, 12, generator=g), torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3]))]
