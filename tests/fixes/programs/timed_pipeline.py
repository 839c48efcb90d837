"""Stages that time themselves, a total that is logged, a rate that is printed."""

import logging
import time

import torch
from torch import nn

logger = logging.getLogger(__name__)
logging.basicConfig(level=logging.INFO)


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(8, 16)
        self.mix = nn.Linear(16, 16)
        self.decode = nn.Linear(16, 8)
        self.timings = {}
        self.calls = []

    def forward(self, x):
        start = time.time()
        t0 = time.perf_counter()
        h = torch.relu(self.encode(x))
        self.timings["encode"] = time.perf_counter() - t0
        t0 = time.perf_counter()
        for _ in range(2):
            h = torch.relu(self.mix(h)) + h
        self.timings["mix"] = time.perf_counter() - t0
        y = self.decode(h)
        elapsed = time.time() - start
        self.calls.append(elapsed)
        logger.info("forward took %.4f ms", elapsed * 1000)
        if elapsed > 5:
            logger.warning(f"slow: {elapsed:.1f} s for {x.shape[0]} rows")
        return y


def build():
    return Pipeline()


def example_inputs():
    return (torch.randn(4, 8),)
