"""Industrial anomaly detection: a memory of patch features, greedy coreset, adaptive thresholds."""

import random
import statistics

import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(3, dim, 3, 2, 1), nn.BatchNorm2d(dim), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Conv2d(dim, dim, 3, 2, 1), nn.BatchNorm2d(dim), nn.ReLU())

    def forward(self, x):
        x1 = self.layer1(x)
        x2 = F.interpolate(self.layer2(x1), size=x1.shape[-2:], mode="bilinear")
        return F.avg_pool2d(torch.cat([x1, x2], 1), 3, 1, 1)


class KCenterGreedy:
    def __init__(self, embedding, sampling_ratio):
        self.embedding = embedding
        self.coreset_size = max(1, int(len(embedding) * sampling_ratio))
        self.min_distances = None

    def update_distances(self, center):
        dist = torch.norm(self.embedding - self.embedding[center], dim=1)
        if self.min_distances is None:
            self.min_distances = dist
        else:
            self.min_distances = torch.minimum(self.min_distances, dist)

    def select_coreset_idxs(self):
        selected = [random.randint(0, len(self.embedding) - 1)]
        self.update_distances(selected[0])
        while len(selected) < self.coreset_size:
            idx = int(torch.argmax(self.min_distances))
            if self.min_distances[idx] <= 0:
                break
            selected.append(idx)
            self.update_distances(idx)
        return selected


class PatchMemory(nn.Module):
    def __init__(self, dim=8, ratio=0.1, num_neighbors=3, max_size=12, sigma=1):
        super().__init__()
        self.feature_extractor = Backbone(dim).eval()
        self.register_buffer("memory_bank", torch.empty(0, 2 * dim))
        self.ratio, self.num_neighbors, self.max_size = ratio, num_neighbors, max_size
        self.val_scores = []
        self.image_threshold = None
        x = torch.arange(-2, 3).float()
        k = torch.exp(-(x**2) / (2 * sigma**2))
        self.register_buffer("kernel", (k[:, None] * k[None] / k.sum() ** 2)[None, None])

    def subsample(self, embedding):
        sampler = KCenterGreedy(embedding, self.ratio)
        coreset = embedding[sampler.select_coreset_idxs()]
        self.memory_bank = torch.cat([self.memory_bank, coreset])
        if len(self.memory_bank) > self.max_size:
            self.memory_bank = self.memory_bank[-self.max_size :]

    def anomaly_score(self, patch_scores, locations, embedding):
        max_patches = torch.argmax(patch_scores, dim=1)
        out = []
        for i, p in enumerate(max_patches):
            m_test, score = embedding[i, p], patch_scores[i, p]
            nn_index = locations[i, p].item()
            around = torch.cdist(self.memory_bank[nn_index : nn_index + 1], self.memory_bank)
            k = min(self.num_neighbors, len(self.memory_bank))
            _, support = around.topk(k, largest=False)
            distances = torch.cdist(m_test[None], self.memory_bank[support[0]])
            weight = 1 - F.softmax(distances, 1)[0, 0]
            out.append(weight * score)
        return torch.stack(out)

    def update_threshold(self, scores):
        self.val_scores.extend(scores.tolist())
        med = statistics.median(self.val_scores)
        mad = statistics.median(abs(s - med) for s in self.val_scores)
        self.image_threshold = med + 1.5 * mad

    @torch.no_grad()
    def forward(self, images, is_train=False):
        features = self.feature_extractor(images)
        b, c, h, w = features.shape
        embedding = features.permute(0, 2, 3, 1).reshape(b, h * w, c)
        if is_train:
            self.subsample(embedding.reshape(-1, c))
            return {"bank": self.memory_bank.clone(), "size": len(self.memory_bank)}

        assert len(self.memory_bank) > 0, "The memory bank is empty"
        distances = torch.cdist(embedding.reshape(-1, c), self.memory_bank).view(b, h * w, -1)
        patch_scores, locations = distances.min(-1)
        pred_score = self.anomaly_score(patch_scores, locations, embedding)
        amap = F.interpolate(patch_scores.view(b, 1, h, w), size=images.shape[-2:])
        amap = F.conv2d(F.pad(amap, (2, 2, 2, 2), mode="reflect"), self.kernel)
        self.update_threshold(pred_score)
        labels = pred_score > self.image_threshold
        if labels.any():
            worst = pred_score.argmax()
            print(f"anomalous: {int(labels.sum())}/{b}, worst {worst} at {amap[worst].max():.3f}")
        amap = (amap - amap.min()) / (amap.max() - amap.min()).clamp(min=1e-6)
        return {"map": amap, "score": pred_score, "label": labels, "t": self.image_threshold}


def build():
    torch.manual_seed(0)
    random.seed(0)
    return PatchMemory()


def example_inputs():
    g = torch.Generator().manual_seed(17)
    calls = []
    for b, is_train in ((2, True), (3, True), (2, False), (3, False)):
        images = torch.randn(b, 3, 12, 12, generator=g) * 0.3 + 0.5
        if not is_train:
            images[-1, :, 3:7, 4:8] += 3.0
        calls.append((images, is_train))
    return calls
