"""Runs two programs in eager mode and compares what they compute."""

from __future__ import annotations

import copy
import random
import runpy
from pathlib import Path
from typing import Any


def same_in_eager(before: Path, after: Path) -> bool:
    """Outputs, gradients, and what became of the inputs are equal, each program run on the same inputs and seed."""
    import torch

    try:
        torch.testing.assert_close(_run(after), _run(before), equal_nan=True)
    except AssertionError:
        return False
    return True


def _run(path: Path) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    torch.manual_seed(0)
    random.seed(0)
    program = runpy.run_path(str(path))
    model = program["Net"]() if "Net" in program else program["forward"]
    inputs = copy.deepcopy(program["example_inputs"]())
    outputs = [leaf for leaf in tree_leaves(model(*inputs)) if isinstance(leaf, torch.Tensor)]
    trained = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if isinstance(model, torch.nn.Module):
        trained += list(model.parameters())
    loss = sum((output.sin().sum() for output in outputs if output.requires_grad), torch.zeros(()))
    grads = torch.autograd.grad(loss, trained, allow_unused=True) if loss.requires_grad else []
    zeros = [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(trained, grads, strict=False)]
    return [*outputs, *zeros, *(leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor))]
