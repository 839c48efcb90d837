"""Local feature matching with early stopping and pruning of points between layers."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def normalize_keypoints(kpts, size):
    shift = size / 2
    scale = size.max(-1).values / 2
    return (kpts - shift[..., None, :]) / scale[..., None, None]


def filter_matches(scores, th):
    max0, max1 = scores[:, :-1, :-1].max(2), scores[:, :-1, :-1].max(1)
    m0, m1 = max0.indices, max1.indices
    indices0 = torch.arange(m0.shape[1])[None]
    indices1 = torch.arange(m1.shape[1])[None]
    mutual0 = indices0 == m1.gather(1, m0)
    mutual1 = indices1 == m0.gather(1, m1)
    max0_exp = max0.values.exp()
    mscores0 = torch.where(mutual0, max0_exp, max0_exp.new_tensor(0))
    valid0 = mutual0 & (mscores0 > th)
    valid1 = mutual1 & valid0.gather(1, m1)
    return torch.where(valid0, m0, -1), torch.where(valid1, m1, -1), mscores0


class TransformerLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, d0, d1):
        d0 = d0 + self.self_attn(d0, d0, d0, need_weights=False)[0]
        d1 = d1 + self.self_attn(d1, d1, d1, need_weights=False)[0]
        m0 = self.cross_attn(d0, d1, d1, need_weights=False)[0]
        m1 = self.cross_attn(d1, d0, d0, need_weights=False)[0]
        return d0 + self.ffn(d0 + m0), d1 + self.ffn(d1 + m1)


class MatchAssignment(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.matchability = nn.Linear(dim, 1)
        self.final_proj = nn.Linear(dim, dim)

    def forward(self, d0, d1):
        md0, md1 = self.final_proj(d0), self.final_proj(d1)
        sim = torch.einsum("bmd,bnd->bmn", md0, md1) / self.dim**0.5
        z0, z1 = self.matchability(d0), self.matchability(d1)
        certainties = F.logsigmoid(z0) + F.logsigmoid(z1).transpose(1, 2)
        scores = sim.new_full((sim.shape[0], sim.shape[1] + 1, sim.shape[2] + 1), 0)
        scores[:, :-1, :-1] = F.log_softmax(sim, 2) + F.log_softmax(sim, 1) + certainties
        scores[:, :-1, -1] = F.logsigmoid(-z0.squeeze(-1))
        scores[:, -1, :-1] = F.logsigmoid(-z1.squeeze(-1))
        return scores


class Matcher(nn.Module):
    def __init__(self, dim=16, n_layers=3, depth_confidence=0.8, width_confidence=0.5):
        super().__init__()
        self.n_layers = n_layers
        self.depth_confidence, self.width_confidence = depth_confidence, width_confidence
        self.posenc = nn.Linear(2, dim)
        self.transformers = nn.ModuleList([TransformerLayer(dim, 2) for _ in range(n_layers)])
        self.log_assignment = nn.ModuleList([MatchAssignment(dim) for _ in range(n_layers)])
        self.token_confidence = nn.ModuleList([nn.Linear(dim, 1) for _ in range(n_layers - 1)])
        self.pruning_th, self.filter_threshold = 6, 0.02

    def check_if_stop(self, conf0, conf1, layer_index, num_points):
        confidences = torch.cat([conf0, conf1], -1)
        ratio_confident = 1.0 - (confidences < 0.5).float().sum() / num_points
        return ratio_confident > self.depth_confidence

    def get_pruning_mask(self, confidences, scores, layer_index):
        keep = scores > (1 - self.width_confidence)
        if confidences is not None:
            keep |= confidences <= 0.5
        return keep

    def prune_points(self, ind, desc, conf, layer_index):
        scores = torch.sigmoid(self.log_assignment[layer_index].matchability(desc)).squeeze(-1)
        keep = torch.where(self.get_pruning_mask(conf, scores, layer_index))[1]
        return ind.index_select(1, keep), desc.index_select(1, keep)

    def collect_matches(self, m0, mscores0, ind0, ind1):
        matches, mscores = [], []
        for k in range(m0.shape[0]):
            valid = m0[k] > -1
            m_indices_0 = torch.where(valid)[0]
            m_indices_1 = m0[k][valid]
            m_indices_0, m_indices_1 = ind0[k, m_indices_0], ind1[k, m_indices_1]
            matches.append(torch.stack([m_indices_0, m_indices_1], -1))
            mscores.append(mscores0[k][valid])
        return matches, mscores

    def forward(self, kpts0, kpts1, desc0, desc1, size):
        m, n = kpts0.shape[1], kpts1.shape[1]
        desc0 = desc0 + self.posenc(normalize_keypoints(kpts0, size))
        desc1 = desc1 + self.posenc(normalize_keypoints(kpts1, size))
        ind0, ind1 = torch.arange(0, m)[None], torch.arange(0, n)[None]
        for i in range(self.n_layers):
            if desc0.shape[1] == 0 or desc1.shape[1] == 0:
                break
            desc0, desc1 = self.transformers[i](desc0, desc1)
            if i == self.n_layers - 1:
                continue
            conf0 = torch.sigmoid(self.token_confidence[i](desc0.detach())).squeeze(-1)
            conf1 = torch.sigmoid(self.token_confidence[i](desc1.detach())).squeeze(-1)
            if self.check_if_stop(conf0, conf1, i, m + n):
                break
            if desc0.shape[-2] > self.pruning_th:
                ind0, desc0 = self.prune_points(ind0, desc0, conf0, i)

        scores = self.log_assignment[i](desc0, desc1)
        m0, m1, mscores0 = filter_matches(scores, self.filter_threshold)
        matches, mscores = self.collect_matches(m0, mscores0, ind0, ind1)
        return {"matches": matches, "scores": mscores, "stop": i + 1, "log_assignment": scores}


def build():
    torch.manual_seed(0)
    return Matcher().eval()


def example_inputs():
    g = torch.Generator().manual_seed(23)
    calls = []
    for m, n, scale in ((10, 8, 1.0), (10, 8, 0.2), (5, 8, 3.0), (12, 9, 1.0)):
        kpts0, kpts1 = (torch.rand(1, k, 2, generator=g) * 64 for k in (m, n))
        desc0, desc1 = (torch.randn(1, k, 16, generator=g) * scale for k in (m, n))
        calls.append((kpts0, kpts1, desc0, desc1, torch.tensor([[64.0, 48.0]])))
    return calls
