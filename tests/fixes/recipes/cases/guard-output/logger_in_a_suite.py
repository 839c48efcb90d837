"""GD101 12:21-47"""
import logging

import torch

log = logging.getLogger("model")


def forward(x, flag=True):
    y = x.sin()
    for _ in range(2):
        if flag:    log.debug("step %s", flag)
    return y.cos()
