"""A whole training step in one compiled function."""

import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)


model = Regressor()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.MSELoss()


def train_step(x, y):
    optimizer.zero_grad()
    prediction = model(x)
    loss = loss_fn(prediction, y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if norm > 10:
        print("large gradient", norm.item())
    optimizer.step()
    return loss.item()


compiled_step = torch.compile(train_step, backend="eager")
for _ in range(2):
    compiled_step(torch.randn(4, 8), torch.randn(4, 1))
