"""GAN training step: the discriminator is updated only while it isn't too good."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GAN(nn.Module):
    def __init__(self, z_dim=4, dim=6):
        super().__init__()
        self.G = nn.Sequential(nn.Linear(z_dim, 16), nn.ReLU(), nn.Linear(16, dim))
        self.D = nn.Sequential(nn.Linear(dim, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.z_dim = z_dim
        self.log = {"d_loss": [], "g_loss": []}

    def forward(self, real):
        n = real.size(0)
        z = torch.randn(n, self.z_dim)
        fake = self.G(z)
        d_real = self.D(real)
        d_fake = self.D(fake.detach())
        d_loss = F.softplus(-d_real).mean() + F.softplus(d_fake).mean()
        d_acc = ((d_real > 0).float().mean() + (d_fake < 0).float().mean()) / 2
        if d_acc.item() > 0.8:
            d_loss = d_loss * 0.0
        g_loss = F.softplus(-self.D(fake)).mean()
        self.log["d_loss"].append(d_loss.item())
        self.log["g_loss"].append(g_loss.item())
        return d_loss, g_loss


def example_inputs():
    torch.manual_seed(11)
    return [(torch.randn(8, 6),), (torch.randn(8, 6) + 3,)]


model = GAN()
