"""A vector quantizer with EMA codebook, k-means style initialization and expiry of dead codes."""
import torch
import torch.nn.functional as F
from torch import nn


def exists(val):
    return val is not None


def ema_inplace(old, new, decay):
    old.data.mul_(decay).add_(new, alpha=1 - decay)


def laplace_smoothing(x, n_categories, eps=1e-5):
    return (x + eps) / (x.sum() + n_categories * eps)


class EuclideanCodebook(nn.Module):
    def __init__(self, dim, codebook_size, decay=0.8, threshold_ema_dead_code=2):
        super().__init__()
        self.decay = decay
        self.codebook_size = codebook_size
        self.threshold_ema_dead_code = threshold_ema_dead_code
        self.register_buffer("initted", torch.tensor([False]))
        self.register_buffer("cluster_size", torch.zeros(codebook_size))
        self.register_buffer("embed", torch.randn(codebook_size, dim))
        self.register_buffer("embed_avg", self.embed.clone())

    @torch.no_grad()
    def init_embed_(self, data):
        if self.initted:
            return
        self.embed.data.copy_(data[: self.codebook_size])
        self.embed_avg.data.copy_(data[: self.codebook_size])
        self.cluster_size.data.fill_(data.shape[0] / self.codebook_size)
        self.initted.data.copy_(torch.tensor([True]))

    def expire_codes_(self, batch_samples):
        if self.threshold_ema_dead_code == 0:
            return
        expired_codes = self.cluster_size < self.threshold_ema_dead_code
        if not torch.any(expired_codes):
            return
        sampled = batch_samples[torch.arange(self.codebook_size) % batch_samples.shape[0]]
        self.embed.data.copy_(torch.where(expired_codes[..., None], sampled, self.embed))

    def forward(self, x):
        shape = x.shape
        flatten = x.reshape(-1, shape[-1])
        self.init_embed_(flatten)
        dist = -(flatten.pow(2).sum(1, keepdim=True) - 2 * flatten @ self.embed.t() + self.embed.t().pow(2).sum(0, keepdim=True))
        embed_ind = dist.max(dim=-1).indices
        embed_onehot = F.one_hot(embed_ind, self.codebook_size).type(x.dtype)
        quantize = F.embedding(embed_ind.view(*shape[:-1]), self.embed)
        if self.training:
            ema_inplace(self.cluster_size, embed_onehot.sum(0), self.decay)
            embed_sum = flatten.t() @ embed_onehot
            ema_inplace(self.embed_avg, embed_sum.t().detach(), self.decay)
            cluster_size = laplace_smoothing(self.cluster_size, self.codebook_size) * self.cluster_size.sum()
            self.embed.data.copy_(self.embed_avg / cluster_size.unsqueeze(1))
            self.expire_codes_(flatten.detach())
        return quantize, embed_ind.view(*shape[:-1]), embed_onehot


class VectorQuantize(nn.Module):
    def __init__(self, dim=8, codebook_size=6, commitment_weight=0.25):
        super().__init__()
        self.project_in = nn.Linear(dim, dim)
        self.project_out = nn.Linear(dim, dim)
        self._codebook = EuclideanCodebook(dim, codebook_size)
        self.commitment_weight = commitment_weight

    def forward(self, x, mask=None):
        x = self.project_in(x)
        quantize, embed_ind, onehot = self._codebook(x)
        if exists(mask) and mask.any():
            quantize = torch.where(mask[..., None], quantize, x)
        commit_loss = F.mse_loss(quantize.detach(), x) * self.commitment_weight
        quantize = x + (quantize - x).detach()
        avg_probs = onehot.mean(0)
        perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return self.project_out(quantize), embed_ind, commit_loss, perplexity.item()


def build():
    torch.manual_seed(0)
    return VectorQuantize().train()


def example_inputs():
    g = torch.Generator().manual_seed(7)
    return [(torch.randn(2, 10, 8, generator=g), torch.rand(2, 10, generator=g) > 0.2) for _ in range(3)]
