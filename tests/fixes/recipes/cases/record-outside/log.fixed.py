"""GD101 19:9-76"""

import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    @torch.compiler.disable(recursive=False)
    def forward(self, x, *masks, scale: float = 2.0, **others):
        log.info("a batch of %d", len(x))
        result, mean_value, x_before, norm_value = self._compiled_part(x, *masks, scale=scale, **others)
        log.info(f"mean {mean_value:.3f} of {x_before}", extra={"rows": x_before.shape[0]})
        log.info("norm %.3f", float(norm_value))
        return result

    def _compiled_part(self, x, *masks, scale, **others):
        x = self.linear(x) * scale
        mean_value = x.mean().detach()
        x_before = x
        x = x.relu()
        norm_value = x.norm().detach()
        return self.linear(x), mean_value, x_before, norm_value


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
