"""GD101 14:5-47"""

import functools
import logging

import torch

log = logging.getLogger(__name__)


@functools.lru_cache
def is_recent(least):
    found = tuple(int(part) for part in torch.__version__.split(".")[:2])
    log.warning("torch has version %s", found)
    return found >= least


def forward(x):
    return x.sin() if is_recent((2, 0)) else x.cos()


def example_inputs():
    return (torch.randn(4, 8),)
