"""GD112 18:9-24"""

import torch
import torch.nn as nn


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Linear(8, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)

    def forward(self, x, target, scale=2.0):
        output = self.model(x)
        loss = (output - target).square().mean() * scale

        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.detach(), "output": output.detach()}


def example_inputs():
    torch.manual_seed(1)
    return [(torch.randn(4, 8), torch.randn(4, 1)) for _ in range(3)]
