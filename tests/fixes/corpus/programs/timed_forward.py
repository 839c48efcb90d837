"""A two-stage model that logs how long its stages take."""

import logging
import time

import torch
import torch.nn as nn

logger = logging.getLogger("timed")


class TimedModel(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, dim))
        self.decoder = nn.Linear(dim, dim)
        self.times = {"encoder": 0.0, "decoder": 0.0}
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        start = time.time()
        z = self.encoder(x)
        self.times["encoder"] += time.time() - start

        start = time.time()
        y = self.decoder(z)
        self.times["decoder"] += time.time() - start
        logger.info("call %d: z %.3f ± %.3f", self.calls, z.mean().item(), z.std().item())
        if z.std() < 1e-5:
            logger.warning("the latent code has collapsed")
        return y


def example_inputs():
    torch.manual_seed(38)
    return [(torch.randn(4, 8),), (torch.randn(4, 8),)]
