"""A variational autoencoder that someone debugged once."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, dim=10, latent=3, free_bits=0.05):
        super().__init__()
        self.enc = nn.Linear(dim, 2 * latent)
        self.dec = nn.Linear(latent, dim)
        self.free_bits = free_bits
        self.debug = False

    def forward(self, x):
        torch.autograd.set_detect_anomaly(False)
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        if self.debug:
            print("mu", mu.mean(), "logvar", logvar.mean())
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        recon = self.dec(z)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean(0)
        active = kl > self.free_bits
        n_active = active.sum().item()
        kl_loss = kl[active].sum() if n_active > 0 else kl.sum() * 0
        print(f"{n_active} active units")
        return F.mse_loss(recon, x) + kl_loss


def example_inputs():
    torch.manual_seed(29)
    return (torch.randn(7, 10),)


model = VAE()
