"""Losses of a generator and a discriminator, with values for a progress bar."""

import torch
from torch import nn


def mlp(*sizes):
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.LeakyReLU()]
    return nn.Sequential(*layers[:-1])


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = mlp(4, 16, 8)
        self.discriminator = mlp(8, 16, 1)
        self.criterion = nn.BCEWithLogitsLoss()

    def forward(self, real):
        noise = torch.randn(real.size(0), 4)
        fake = self.generator(noise)
        ones = torch.ones(real.size(0), 1)
        real_loss = self.criterion(self.discriminator(real), ones)
        fake_loss = self.criterion(self.discriminator(fake), 1 - ones)
        metrics = {"real": real_loss.item(), "fake": fake_loss.item()}
        total = real_loss + fake_loss
        metrics["total"] = total.detach().cpu().item()
        return total, metrics


def main() -> None:
    gan = Gan()
    gan = gan.to("cpu")
    step = torch.compile(gan.forward, backend="eager")
    step(torch.randn(4, 8))


main()
