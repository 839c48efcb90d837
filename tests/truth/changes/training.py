"""A training loop: a scheduler moves the rate under a compiled step, and each epoch ends with an
evaluation."""

from __future__ import annotations

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
forward = torch.compile(model, backend="eager")


@torch.compile(backend="eager")
def update():
    optimizer.step()


for epoch in range(3):  # noqa: B007 - what counts the loop is shown
    model.train()
    for step in range(2):  # noqa: B007 - as above
        forward(torch.ones(4, 8)).sum().backward()
        update()
        optimizer.zero_grad()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        forward(torch.ones(4, 8))
