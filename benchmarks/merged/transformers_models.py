"""A small model of transformers: the program that ``TRANSFORMERS_PROGRAM`` names, as the catalog of
``survey --from transformers`` writes it, in the mode of ``TRANSFORMERS_MODE``, train or eval.

As a script, it prints what an eager call gives and, in training, the gradients of its sum, as
digests.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

_spec = importlib.util.spec_from_file_location("program", os.environ["TRANSFORMERS_PROGRAM"])
assert _spec is not None and _spec.loader is not None
_program = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_program)


def build() -> Any:
    return _program.build().train(os.environ["TRANSFORMERS_MODE"] == "train")


def example_inputs() -> Any:
    return _program.example_inputs()


def digests() -> list[str]:
    """Digests of the output's tensors and of the gradients, in order.

    Evaluated, a model may change what its backward needs, as RWKV does.
    """
    model, inputs = build(), example_inputs()
    torch.manual_seed(0)
    leaves = [leaf for leaf in tree_leaves(model(**inputs)) if isinstance(leaf, torch.Tensor)]
    learnt = [leaf.float().sum() for leaf in leaves if leaf.requires_grad]
    if learnt and model.training:
        torch.stack(learnt).sum().backward()
    gradients = [item.grad for item in model.parameters() if item.grad is not None]
    return [
        hashlib.sha256(tensor.detach().contiguous().float().numpy().tobytes()).hexdigest()
        for tensor in (*leaves, *gradients)
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(" ".join(digests()))
