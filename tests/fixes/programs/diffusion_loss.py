"""Diffusion loss with a snr weight, dropped conditions, and losses kept by timestep."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class DiffusionLoss(nn.Module):
    def __init__(self, dim=6, steps=20, p_uncond=0.5):
        super().__init__()
        self.model = nn.Linear(2 * dim + 1, dim)
        self.null = nn.Parameter(torch.zeros(dim))
        self.register_buffer("a_bar", torch.linspace(0.99, 0.01, steps))
        self.steps = steps
        self.p_uncond = p_uncond
        self.by_step = {}

    def forward(self, x0, cond):
        t = torch.randint(0, self.steps, (x0.size(0),))
        noise = torch.randn_like(x0)
        a = self.a_bar[t][:, None]
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        if random.random() < self.p_uncond:
            cond = self.null.expand_as(x0)
        pred = self.model(torch.cat([xt, cond, t[:, None] / self.steps], dim=-1))
        loss = F.mse_loss(pred, noise, reduction="none").mean(-1)
        for step, value in zip(t.tolist(), loss.detach().tolist()):
            self.by_step[step] = value
        snr = (a / (1 - a)).squeeze(-1)
        return (loss * snr.clamp(max=5.0)).mean()


def example_inputs():
    torch.manual_seed(20)
    return [(torch.randn(4, 6), torch.randn(4, 6)) for _ in range(2)]
