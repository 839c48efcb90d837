"""Langevin sampling from an energy, with a progress bar."""

import torch
import torch.nn as nn
from tqdm import tqdm


class Sampler(nn.Module):
    def __init__(self, dim=4, n_steps=3, step_size=0.1):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, 16), nn.Tanh(), nn.Linear(16, dim))
        self.n_steps = n_steps
        self.step_size = step_size

    @torch.no_grad()
    def forward(self, x, noise):
        for i in tqdm(range(self.n_steps), disable=True):
            drift = self.score(x)
            x = x + 0.5 * self.step_size * drift + self.step_size**0.5 * noise[i]
        if (x.abs() > 50).any():
            x = x.clamp(-50, 50)
        return x


def example_inputs():
    torch.manual_seed(28)
    return (torch.randn(5, 4), torch.randn(3, 5, 4))
