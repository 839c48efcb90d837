"""Losses with their checks: warnings under a condition, assertions, messages made of tensors, a dict of numbers."""

import warnings

import torch
import torch.nn.functional as F
from torch import nn


class VAE(nn.Module):
    def __init__(self, dim=8, latent=3, beta=0.5):
        super().__init__()
        self.encoder = nn.Linear(dim, 2 * latent)
        self.decoder = nn.Linear(latent, dim)
        self.beta = beta
        self.last = {}

    def loss(self, x, y, mu, logvar):
        recon = F.mse_loss(y, x)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
        if not torch.isfinite(kl):
            warnings.warn(f"KL is {kl}; logvar goes up to {logvar.max()}")
            kl = torch.zeros_like(kl)
        if kl < 1e-8:
            warnings.warn("the posterior collapsed")
        total = recon + self.beta * kl
        assert torch.isfinite(total), f"loss is {total}"
        self.last = {"recon": recon.item(), "kl": kl.item(), "total": total.item()}
        return total

    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, -1)
        if (logvar > 20).any():
            logvar = logvar.clamp(max=20)
        y = self.decoder(mu + torch.exp(0.5 * logvar) * 0.1)
        loss = self.loss(x, y, mu, logvar)
        label = f"loss={loss.item():.3f}"
        return {"loss": loss, "y": y, "label": label}


def build():
    return VAE()


def example_inputs():
    return (torch.randn(4, 8),)
