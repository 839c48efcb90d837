"""The inside of a training loop: a progress bar, losses in a list, a line every few steps, a check for NaN."""

import torch
from torch import nn
from tqdm import tqdm


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        self.bar = tqdm(total=10, disable=True)
        self.losses = []
        self.metrics = {"loss": 0.0, "accuracy": 0.0}
        self.best = float("inf")

    def forward(self, x, y):
        out = self.model(x).squeeze(-1)
        loss = nn.functional.binary_cross_entropy_with_logits(out, y)
        if torch.isnan(loss):
            raise RuntimeError(f"loss is NaN after {len(self.losses)} steps")
        self.losses.append(loss.item())
        accuracy = ((out > 0) == (y > 0.5)).float().mean()
        self.metrics["loss"] = loss.item()
        self.metrics["accuracy"] = accuracy.item()
        self.bar.update(1)
        self.bar.set_postfix(loss=f"{loss.item():.3f}", acc=f"{accuracy:.2f}")
        if len(self.losses) % 2 == 0:
            print(f"step {len(self.losses)}: loss {loss:.4f}, accuracy {accuracy.item():.1%}")
        if loss.item() < self.best:
            self.best = loss.item()
        return loss


def build():
    return Trainer()


def example_inputs():
    return [(torch.randn(4, 8), torch.ones(4)), (torch.randn(4, 8), torch.zeros(4))]
