"""Vector quantizer: the codebook is initialized from the first batch and follows its codes."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class VectorQuantizer(nn.Module):
    def __init__(self, n_codes=8, dim=4, decay=0.9, beta=0.25):
        super().__init__()
        self.n_codes = n_codes
        self.decay = decay
        self.beta = beta
        self.register_buffer("codebook", torch.zeros(n_codes, dim))
        self.register_buffer("usage", torch.zeros(n_codes))
        self.register_buffer("initialized", torch.tensor(False))

    def init_codebook(self, flat):
        pick = torch.randperm(flat.shape[0])[: self.n_codes]
        self.codebook.copy_(flat[pick].detach())
        self.initialized.fill_(True)

    def forward(self, z):
        flat = z.reshape(-1, z.shape[-1])
        if not self.initialized:
            self.init_codebook(flat)
        dist = torch.cdist(flat, self.codebook)
        codes = dist.argmin(-1)
        quantized = F.embedding(codes, self.codebook).view_as(z)

        if self.training:
            onehot = F.one_hot(codes, self.n_codes).float()
            counts = onehot.sum(0)
            self.usage.mul_(self.decay).add_(counts, alpha=1 - self.decay)
            dead = self.usage < 0.02
            if dead.any():
                fresh = flat[torch.randint(0, flat.shape[0], (self.n_codes,))].detach()
                self.codebook.copy_(torch.where(dead[:, None], fresh, self.codebook))

        loss = self.beta * F.mse_loss(z, quantized.detach())
        perplexity = len(codes.unique())
        return z + (quantized - z).detach(), loss, perplexity


def example_inputs():
    torch.manual_seed(10)
    return [(torch.randn(2, 10, 4),), (torch.randn(2, 10, 4),)]
