"""A model behind a service that counts and writes."""

import json
import os
import tempfile
import threading

import torch
from torch import nn


class Service(nn.Module):
    def __init__(self, path):
        super().__init__()
        self.net = nn.Linear(8, 2)
        self.lock = threading.Lock()
        self.path = path
        self.requests = 0

    def record(self, scores):
        with self.lock:
            self.requests += 1
        with open(self.path, "a") as file:
            file.write(json.dumps({"best": scores.argmax().item(), "pid": os.getpid()}) + "\n")

    def forward(self, x):
        scores = self.net(x).softmax(-1)
        self.record(scores[0])
        return scores


def get_service():
    path = os.path.join(tempfile.gettempdir(), f"requests-{os.getpid()}.jsonl")
    service = Service(path)
    return service


def example_inputs():
    return [(torch.randn(1, 8),), (torch.randn(1, 8),)]


model = get_service()
