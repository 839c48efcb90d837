"""Scene text spotting: differentiable binarization, boxes from the map, and recognition of the crops."""

import itertools
import logging

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

logger = logging.getLogger("ocr")

CHARSET = "-abcdefghij0123456789"
CONFUSIONS = {"a0": "ao", "0a": "oa", "1i": "ii"}


def connected_components(bitmap):
    """Labels of the regions of a boolean map, by spreading of the largest index."""
    h, w = bitmap.shape
    labels = torch.arange(1, h * w + 1, dtype=torch.float).view(h, w) * bitmap
    while True:
        spread = F.max_pool2d(labels[None, None], 3, 1, 1)[0, 0] * bitmap
        if torch.equal(spread, labels):
            return labels.long()
        labels = spread


class DBHead(nn.Module):
    def __init__(self, dim=8, k=20):
        super().__init__()
        self.k = k
        self.binarize = nn.Conv2d(dim, 1, 3, padding=1)
        self.thresh = nn.Conv2d(dim, 1, 3, padding=1)

    def forward(self, x):
        p, t = torch.sigmoid(self.binarize(x)), torch.sigmoid(self.thresh(x))
        return p.squeeze(1), torch.reciprocal(1 + torch.exp(-self.k * (p - t))).squeeze(1)


class BoxExtractor:
    def __init__(self, thresh=0.5, box_thresh=0.52, max_candidates=4, unclip_ratio=1.5, min_size=2):
        self.thresh, self.box_thresh, self.max_candidates = thresh, box_thresh, max_candidates
        self.unclip_ratio, self.min_size = unclip_ratio, min_size

    def __call__(self, prob):
        labels = connected_components(prob > self.thresh)
        boxes, scores = [], []
        for label in torch.unique(labels)[: self.max_candidates + 1]:
            if label == 0:
                continue
            region = labels == label
            ys, xs = torch.nonzero(region, as_tuple=True)
            x0, x1 = xs.min().item(), xs.max().item() + 1
            y0, y1 = ys.min().item(), ys.max().item() + 1
            if min(x1 - x0, y1 - y0) < self.min_size:
                continue
            score = prob[region].mean()
            if score < self.box_thresh:
                continue
            d = (x1 - x0) * (y1 - y0) * self.unclip_ratio / (2 * (x1 - x0 + y1 - y0)) / 2
            box = np.array([x0 - d, y0 - d, x1 + d, y1 + d]).round()
            boxes.append(np.clip(box, 0, prob.shape[0]).astype(int).tolist())
            scores.append(float(score))
        return boxes, scores


class CTCLabelDecode:
    def decode(self, logits):
        probs, idx = logits.softmax(-1).max(-1)
        texts = []
        for row, prob in zip(idx.numpy(), probs.numpy()):
            keep = np.insert(row[1:] != row[:-1], 0, True) & (row != 0)
            text = "".join(CHARSET[i] for i in row[keep])
            for bad, good in CONFUSIONS.items():
                text = text.replace(bad, good)
            conf = float(prob[keep].mean()) if keep.any() else 0.0
            texts.append((text, round(conf, 4)))
        return texts


class Spotter(nn.Module):
    def __init__(self, dim=8, crop=(6, 18), drop_score=0.02):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(1, dim, 5, padding=2), nn.BatchNorm2d(dim), nn.ReLU())
        self.head = DBHead(dim)
        self.extract = BoxExtractor()
        self.rnn = nn.GRU(dim * crop[0], 16, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(32, len(CHARSET))
        self.decoder = CTCLabelDecode()
        self.crop, self.drop_score = crop, drop_score

    def recognize(self, feature, boxes):
        crops = []
        for x0, y0, x1, y1 in boxes:
            crop = feature[None, :, y0:y1, x0:x1]
            crops.append(F.interpolate(crop, size=self.crop, mode="bilinear"))
        x = torch.cat(crops).permute(0, 3, 1, 2).flatten(2)
        return self.fc(self.rnn(x)[0])

    @torch.no_grad()
    def forward(self, images):
        feature = self.backbone(images)
        prob, binary = self.head(feature)
        results = []
        for i in range(len(images)):
            boxes, scores = self.extract(prob[i])
            if not boxes:
                logger.info("no text in image %d (max prob %.3f)", i, prob[i].max())
                results.append([])
                continue
            texts = self.decoder.decode(self.recognize(feature[i], boxes))
            found = [t for t in zip(boxes, texts, scores) if t[1][1] > self.drop_score]
            results.append(sorted(found, key=lambda item: (item[0][1], item[0][0])))
        chars = list(itertools.chain.from_iterable(t[1][0] for r in results for t in r))
        return binary, results, len(chars)


def build():
    torch.manual_seed(0)
    return Spotter().eval()


def example_inputs():
    g = torch.Generator().manual_seed(9)
    calls = []
    for n, is_blank in ((2, False), (1, False), (2, True)):
        images = torch.randn(n, 1, 16, 16, generator=g) * 0.1
        images[:, :, 3:8, 2:12] += 2.0
        images[0, :, 10:14, 6:14] -= 2.0
        if is_blank:
            images[1] = -0.5
        calls.append((images,))
    return calls
