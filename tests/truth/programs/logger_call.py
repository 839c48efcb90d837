"""A call of a logger's method."""

import logging

import torch
from torch import nn

logger = logging.getLogger(__name__)


class Net(nn.Module):
    def forward(self, x):
        x = x.sin()
        logger.info("size %s", x.shape)  # breaks here
        return x.cos()


def build():
    return Net()


def example_inputs():
    return [(torch.ones(2, 4),)]
