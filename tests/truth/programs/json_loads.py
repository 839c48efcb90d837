"""The innermost lines lie in the standard library."""

import json

import torch


def build():
    def configured(x):
        y = x.sin()
        settings = json.loads('{"factor": 2}')  # breaks here
        return y * settings["factor"]

    return configured


def example_inputs():
    return [(torch.ones(4),)]
