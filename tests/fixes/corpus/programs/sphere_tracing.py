"""Sphere tracing: rays go on until all have hit the surface or left."""

import torch
import torch.nn as nn


class SDF(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, hidden), nn.Softplus(), nn.Linear(hidden, 1))

    def forward(self, p):
        return p.norm(dim=-1) - 0.5 + 0.05 * torch.tanh(self.net(p)).squeeze(-1)


class Tracer(nn.Module):
    def __init__(self, sdf, max_steps=12, far=4.0, eps=1e-3):
        super().__init__()
        self.sdf = sdf
        self.max_steps = max_steps
        self.far = far
        self.eps = eps

    def forward(self, origins, directions):
        depth = torch.zeros(origins.shape[0])
        active = torch.ones(origins.shape[0], dtype=torch.bool)
        for _ in range(self.max_steps):
            points = origins + depth[:, None] * directions
            dist = self.sdf(points)
            active = active & (dist.abs() > self.eps) & (depth < self.far)
            if active.sum() == 0:
                break
            depth = torch.where(active, depth + dist, depth)
        hit = depth < self.far
        return depth, hit


model = Tracer(SDF())


def example_inputs():
    torch.manual_seed(31)
    origins = torch.tensor([[0.0, 0.0, -2.0]]).repeat(6, 1)
    directions = nn.functional.normalize(
        torch.randn(6, 3) * 0.2 + torch.tensor([0.0, 0.0, 1.0]), dim=-1
    )
    return [(origins, directions), (origins, -directions)]
