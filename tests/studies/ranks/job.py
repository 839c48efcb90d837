"""A job of several ranks; its argument says what rank 1 does otherwise."""

import os
import sys

import torch
import torch.distributed as dist

WHAT = sys.argv[1]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.scale = 1

    def forward(self, x):
        if WHAT == "branch" and dist.get_rank() == 0:
            print(float(x.mean()))
        return self.linear(x) * self.scale


class Head(torch.nn.Module):
    def forward(self, x):
        return x.relu()


def main(what):
    dist.init_process_group("gloo")
    is_other = dist.get_rank() == 1
    model = Net()
    if not (what == "silent" and is_other):
        model = torch.compile(model, backend="eager")
    head = torch.compile(Head(), backend="eager")
    for step in range(3):
        rows = 4 + step if what == "sizes" and is_other else 4
        if what == "alone" and is_other and step == 2:
            model.scale = 2
        model(torch.ones(rows, 8)).sum().backward()
    dist.barrier()
    if what == "equal" or (what == "dies" and not is_other):
        head(torch.ones(4))
    dist.barrier()
    if what == "dies" and is_other:
        os._exit(3)
    dist.barrier()
    dist.destroy_process_group()
    if what == "silent" and is_other:
        raise RuntimeError("at its end")


main(WHAT)
