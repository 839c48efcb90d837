"""Adam by hand: gradients are clipped by their norm, steps without finite gradients are skipped."""

import torch
import torch.nn as nn


class Optimizer(nn.Module):
    def __init__(self, dim=6, lr=0.01, max_norm=1.0):
        super().__init__()
        self.layer = nn.Linear(dim, 1)
        self.lr, self.max_norm = lr, max_norm
        self.m = [torch.zeros_like(p) for p in self.layer.parameters()]
        self.v = [torch.zeros_like(p) for p in self.layer.parameters()]
        self.t = 0
        self.skipped = 0

    def forward(self, x, y):
        loss = (self.layer(x).squeeze(-1) - y).pow(2).mean()
        grads = torch.autograd.grad(loss, list(self.layer.parameters()))
        total_norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
        if not torch.isfinite(total_norm):
            self.skipped += 1
            return loss.detach(), total_norm
        clip_coef = self.max_norm / (total_norm.item() + 1e-6)
        if clip_coef < 1:
            grads = [g * clip_coef for g in grads]
        self.t += 1
        with torch.no_grad():
            for p, g, m, v in zip(self.layer.parameters(), grads, self.m, self.v):
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                m_hat, v_hat = m / (1 - 0.9**self.t), v / (1 - 0.999**self.t)
                p.sub_(self.lr * m_hat / (v_hat.sqrt() + 1e-8))
        print("grad norm:", total_norm.item())
        return loss.detach(), total_norm


def example_inputs():
    torch.manual_seed(34)
    return [(torch.randn(8, 6) * scale, torch.randn(8)) for scale in (0.1, 5.0)]
