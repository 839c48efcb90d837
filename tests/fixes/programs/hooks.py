"""Forward hooks that record activations, log shapes and look for trouble."""
import logging

import torch
import torch.nn as nn

log = logging.getLogger("activations")


class Recorder:
    def __init__(self, model):
        self.outputs = {}
        self.stats = {}
        self.handles = []
        for name, module in model.named_modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                self.handles.append(module.register_forward_hook(self.hook(name)))

    def hook(self, name):
        def record(module, args, output):
            log.info("%s: %s -> %s", name, tuple(args[0].shape), tuple(output.shape))
            self.outputs[name] = output.detach()
            self.stats[name] = {
                "mean": output.mean().item(),
                "std": output.std().item(),
            }
            if torch.isnan(output).any():
                raise RuntimeError(f"NaN in {name}")

        return record


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)
        self.dead = 0

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = torch.relu(self.body(x)) + x
        pooled = x.mean((2, 3))
        zeros = (pooled == 0).sum()
        if zeros > 0:
            self.dead = int(zeros)
        return self.head(pooled)


def build():
    model = Net()
    model.recorder = Recorder(model)
    return model


def example_inputs():
    return (torch.randn(2, 3, 8, 8),)
