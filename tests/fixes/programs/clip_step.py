"""An optimizer of one's own: clips gradients, drops broken ones, and keeps a history of norms."""
import warnings

import torch


def clip_grad_norm(grads, max_norm):
    total = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    if total > max_norm:
        for g in grads:
            g.mul_(max_norm / (total + 1e-6))
    return total


class ClippedSGD:
    def __init__(self, shapes, lr=0.1, momentum=0.9, max_norm=1.0):
        self.params = [torch.randn(shape) for shape in shapes]
        self.buffers = [torch.zeros(shape) for shape in shapes]
        self.lr, self.momentum, self.max_norm = lr, momentum, max_norm
        self.norms = []
        self.largest = 0.0

    @torch.no_grad()
    def step(self, grads):
        norm = clip_grad_norm(grads, self.max_norm)
        if not torch.isfinite(norm):
            # A broken step only moves on with the momentum.
            for g in grads:
                g.zero_()
        if norm.item() > 100 * self.max_norm:
            warnings.warn("gradients are exploding")
        for p, g, buf in zip(self.params, grads, self.buffers):
            buf.mul_(self.momentum).add_(g)
            p.sub_(buf, alpha=self.lr)
        update = torch.stack([buf.abs().max() for buf in self.buffers]).max()
        if update.item() > 0.5:
            for buf in self.buffers:
                buf.mul_(0.5)
        self.norms.append(float(norm))
        return update


def build():
    return ClippedSGD([(10, 32), (32,), (32, 1)]).step


def example_inputs():
    for _ in range(2):
        yield ([torch.randn(10, 32), torch.randn(32), torch.randn(32, 1)],)
