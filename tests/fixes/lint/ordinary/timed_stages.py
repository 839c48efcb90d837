"""Stages of a pipeline, each timed."""

import time

import torch


class Pipeline(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = torch.nn.Linear(8, 8)
        self.decode = torch.nn.Linear(8, 8)
        self.times = {}

    def timed(self, name, stage, x):
        start = time.perf_counter()
        out = stage(x)
        self.times[name] = time.perf_counter() - start
        return out

    def forward(self, x):
        x = self.timed("encode", self.encode, x)
        x = self.timed("decode", self.decode, x)
        return x


pipeline = Pipeline()
pipeline.compile(backend="eager")
pipeline(torch.randn(2, 8))
pipeline(torch.randn(2, 8))
