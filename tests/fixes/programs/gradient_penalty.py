"""WGAN critic with a gradient penalty and an R1 term."""

import torch
import torch.nn as nn


class Critic(nn.Module):
    def __init__(self, dim=6, gp_weight=10.0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 16), nn.Softplus(), nn.Linear(16, 1))
        self.gp_weight = gp_weight
        self.penalties = []

    def gradient_penalty(self, real, fake):
        alpha = torch.rand(real.size(0), 1)
        mixed = alpha * real + (1 - alpha) * fake
        mixed.requires_grad_(True)
        score = self.net(mixed)
        (grad,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
        return (grad.norm(2, dim=1) - 1).pow(2).mean()

    def forward(self, real, fake):
        fake = fake.detach()
        loss = self.net(fake).mean() - self.net(real).mean()
        gp = self.gradient_penalty(real, fake)
        self.penalties.append(gp.item())
        if gp > 100:
            print(f"gradient penalty {gp:.1f}")
        return loss + self.gp_weight * gp


def example_inputs():
    torch.manual_seed(41)
    return (torch.randn(5, 6), torch.randn(5, 6))


model = Critic()
