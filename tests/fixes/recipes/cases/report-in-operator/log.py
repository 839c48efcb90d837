"""GD103 17:49-64"""

import logging

from torch import nn

log = logging.getLogger("encoder")


class Net(nn.Module):
    def __init__(self, limit=0.5):
        super().__init__()
        self.limit = limit

    def forward(self, x):
        for i in range(2):
            log.info("layer %d: %.3f of %s", i, x.mean().item(), self.limit)
            x = x * 2
        return x
