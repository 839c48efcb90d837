"""A train step that updates an exponential moving average of the weights and watches the loss."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class EMA:
    def __init__(self, model, decay=0.99):
        self.shadow = copy.deepcopy(model)
        self.decay = decay
        self.updates = 0
        for p in self.shadow.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for ema_p, p in zip(self.shadow.parameters(), model.parameters()):
            ema_p.mul_(decay).add_(p.detach(), alpha=1 - decay)

    def drift(self, model):
        with torch.no_grad():
            pairs = zip(self.shadow.parameters(), model.parameters())
            return sum((a - b).pow(2).sum() for a, b in pairs).sqrt().item()


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
        self.ema = EMA(self.model)
        self.lr = 0.05
        self.running = torch.zeros(())

    def step(self, x, y):
        logits = self.model(x)
        loss = F.cross_entropy(logits, y)
        if torch.isnan(loss):
            print("loss is nan, skipping")
            return loss.detach(), 0.0
        grads = torch.autograd.grad(loss, list(self.model.parameters()))
        with torch.no_grad():
            for p, g in zip(self.model.parameters(), grads):
                p.sub_(self.lr * g)
        self.ema.update(self.model)
        value = loss.item()
        self.running = 0.9 * self.running + 0.1 * value
        print(f"loss {value:.3f}, running {self.running:.3f}")
        return loss.detach(), self.ema.drift(self.model)


def build():
    return Trainer().step


def example_inputs():
    for _ in range(3):
        yield torch.randn(16, 8), torch.randint(0, 4, (16,))
