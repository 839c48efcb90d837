"""Makes one call as the user asked for it: under ``no_grad``, a generator run to its end, backward afterwards."""

from __future__ import annotations

import contextlib
from types import GeneratorType
from typing import Any

import torch

from ..torch_private import torch_api
from .errors import RequestError, TargetError
from .options import first_line
from .targets import Call


def forward(function: Any, call: Call, *, no_grad: bool) -> Any:  # noqa: ANN401
    """Make a call; what it returned."""
    args, kwargs = call
    with torch.no_grad() if no_grad else contextlib.nullcontext():
        output = function(*args, **kwargs)
        # A generator runs only when its items are consumed.
        return list(output) if isinstance(output, GeneratorType) else output


def backward(output: object) -> None:
    """Run backward from the sum of the floating-point tensors in an output.

    Raises:
        RequestError: None of them needs a gradient.
    """
    leaves = [
        leaf
        for leaf in torch_api.tree_leaves(output)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point()
    ]
    if not leaves:
        raise RequestError("no_gradient")
    sum(leaf.sum() for leaf in leaves).backward()  # type: ignore[union-attr]


def forget_gradients(function: Any) -> None:  # noqa: ANN401
    """Remove the gradients of a module's parameters: each call's are its own."""
    if isinstance(function, torch.nn.Module):
        function.zero_grad()


def set_up(text: str) -> None:
    """Run the lines that a person would write before torch.compile.

    Raises:
        TargetError: They raised.
    """
    try:
        exec(compile(text, "<setup>", "exec"), {"torch": torch})
    except Exception as error:
        raise TargetError(f"`{text}` can't be set: {type(error).__name__}: {first_line(error)}") from error
