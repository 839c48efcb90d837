"""An encoder that logs as services do: levels, ``extra``, f-strings of tensors, a warning when values saturate."""

import logging

import torch
from torch import nn

log = logging.getLogger("encoder")
log.addHandler(logging.StreamHandler())
log.setLevel(logging.INFO)


class Encoder(nn.Module):
    def __init__(self, dim=16, depth=3, limit=1.5):
        super().__init__()
        self.embed = nn.Linear(8, dim)
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.head = nn.Linear(dim, 4)
        self.limit = limit

    def forward(self, x):
        log.info("encoding a batch of %d", x.shape[0])
        x = self.embed(x)
        log.info(f"embedded: mean={x.mean():.4f} std={x.std():.4f}", extra={"stage": "embed"})
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x)) + x
            log.debug("layer %d: norm %.3f", i, x.norm().item())
        peak = x.abs().max()
        if peak > self.limit:
            log.warning("saturated: %.3f is over %.1f", peak, self.limit, extra={"stage": "layers"})
            x = x.clamp(-self.limit, self.limit)
        out = self.head(x)
        log.info("done", extra={"stage": "head", "classes": out.shape[-1]})
        return out


def build():
    return Encoder()


def example_inputs():
    return (torch.randn(4, 8),)
