"""Video recognition: shot-aware sampling of clips from untrimmed videos, and consensus over segments."""

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def detect_shots(video, threshold):
    """First frames of the shots of one video."""
    diff = (video[1:] - video[:-1]).abs().mean(dim=(1, 2, 3))
    cuts = torch.where(diff > threshold)[0] + 1
    return [0] + cuts.tolist()


def sample_indices(start, end, num_frames, mode="train"):
    total = end - start
    if total < num_frames:
        idx = np.arange(num_frames) % max(total, 1)
    elif mode == "train":
        seg = total / num_frames
        idx = np.array([int(seg * i + random.random() * seg) for i in range(num_frames)])
    else:
        idx = np.linspace(0, total - 1, num_frames).astype(int)
    return (idx + start).tolist()


class TemporalShift(nn.Module):
    def __init__(self, channels, n_div=4):
        super().__init__()
        self.fold = channels // n_div

    def forward(self, x):
        out = torch.zeros_like(x)
        out[:, :-1, : self.fold] = x[:, 1:, : self.fold]
        out[:, 1:, self.fold : 2 * self.fold] = x[:, :-1, self.fold : 2 * self.fold]
        out[:, :, 2 * self.fold :] = x[:, :, 2 * self.fold :]
        return out


class FrameNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.shift = TemporalShift(width)
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, clips):
        n, t = clips.shape[:2]
        x = F.relu(self.stem(clips.flatten(0, 1)))
        x = self.shift(x.unflatten(0, (n, t))).flatten(0, 1)
        x = x.add(F.relu(self.conv(x))).mean(dim=(2, 3))
        return x.unflatten(0, (n, t))


class UntrimmedNet(nn.Module):
    def __init__(self, num_classes=5, width=8, num_frames=4, max_shots=3, threshold=0.35):
        super().__init__()
        self.backbone = FrameNet(width)
        self.attention = nn.Linear(width, 1)
        self.fc = nn.Linear(width, num_classes)
        self.num_frames, self.max_shots, self.threshold = num_frames, max_shots, threshold
        self.shot_cache = {}
        self.class_hits = {}

    def get_shots(self, video, vid, length):
        key = vid.item()
        if key not in self.shot_cache:
            shots = detect_shots(video[:length], self.threshold)
            bounds = list(zip(shots, shots[1:] + [int(length)]))
            bounds = [(s, e) for s, e in bounds if e - s >= 2] or [(0, int(length))]
            self.shot_cache[key] = sorted(bounds, key=lambda b: b[0] - b[1])[: self.max_shots]
        return self.shot_cache[key]

    def sample_clips(self, videos, lengths, video_ids, mode):
        clips, counts = [], []
        for video, length, vid in zip(videos, lengths, video_ids):
            shots = self.get_shots(video, vid, length)
            for start, end in shots:
                clips.append(video[sample_indices(start, end, self.num_frames, mode)])
            counts.append(len(shots))
        clips = torch.stack(clips)
        if mode == "train" and random.random() < 0.6:
            clips = clips.flip(-1)
        return clips, counts

    def consensus(self, logits, weights, counts):
        out = []
        for scores, w in zip(logits.split(counts), weights.split(counts)):
            out.append((scores * torch.softmax(w, dim=0)).sum(0))
        return torch.stack(out)

    def forward(self, videos, lengths, video_ids, labels=None):
        mode = "val" if labels is None else "train"
        clips, counts = self.sample_clips(videos, lengths, video_ids, mode)
        feats = self.backbone(clips).mean(1)
        logits = self.consensus(self.fc(feats), self.attention(feats), counts)
        if labels is None:
            return logits.softmax(-1), counts
        valid = labels >= 0
        if valid.sum() == 0:
            return logits.sum() * 0.0, counts
        loss = F.cross_entropy(logits, labels, ignore_index=-1)
        pred = logits.argmax(dim=1)
        for p, label in zip(pred, labels):
            if p == label:
                c = int(label)
                self.class_hits[c] = self.class_hits.get(c, 0) + 1
        return loss, counts, dict(self.class_hits)


def build():
    torch.manual_seed(0)
    random.seed(0)
    return UntrimmedNet()


def example_inputs():
    g = torch.Generator().manual_seed(41)
    calls = []
    for ids, lens, labels in (
        ([0, 1], [12, 9], [1, 4]),
        ([1, 2], [9, 11], [4, -1]),
        ([0, 2], [12, 11], [-1, -1]),
        ([3, 1], [5, 9], None),
    ):
        videos = torch.zeros(2, 12, 3, 8, 8)
        for i, (vid, length) in enumerate(zip(ids, lens)):
            videos[i, :length] = torch.rand(length, 3, 8, 8, generator=g) * 0.2
            videos[i, 2 + vid : length] += 0.5
        labels = None if labels is None else torch.tensor(labels)
        calls.append((videos, torch.tensor(lens), torch.tensor(ids), labels))
    return calls
