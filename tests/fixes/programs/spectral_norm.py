"""Power iteration in forward, until it has converged."""

import torch
import torch.nn as nn


class SpectralLinear(nn.Module):
    def __init__(self, dim=8, max_iter=5, tol=1e-3):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim))
        self.register_buffer("u", torch.ones(dim))
        self.max_iter = max_iter
        self.tol = tol
        self.sigma = None

    def forward(self, x):
        with torch.no_grad():
            u = self.u
            for _ in range(self.max_iter):
                v = nn.functional.normalize(self.weight.t() @ u, dim=0)
                new_u = nn.functional.normalize(self.weight @ v, dim=0)
                if torch.allclose(new_u, u, atol=self.tol):
                    break
                u = new_u
            self.u.copy_(u)
        sigma = torch.dot(u, self.weight @ v)
        self.sigma = sigma.item()
        if sigma > 1:
            return x @ (self.weight / sigma).t()
        return x @ self.weight.t()


def example_inputs():
    torch.manual_seed(50)
    return [(torch.randn(3, 8),), (torch.randn(3, 8),)]
