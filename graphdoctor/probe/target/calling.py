"""Makes one call as the user asked for it, and counts the samples or tokens that it works on."""

from __future__ import annotations

import contextlib
from types import GeneratorType
from typing import Any

import torch

from ..torch_private import torch_api
from ..wire import CallItems
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


def items_in(call: Call, output: object) -> CallItems | None:
    """The size of the batch dim: the first dim of all tensors that are passed, and of what is returned.

    One tensor alone doesn't show which of its dims is the batch, unless the output has the same first size. Integers
    in two dims are tokens, if the output has both sizes.

    Returns:
        None where no batch dim is known.
    """
    passed = _with_dims(call)
    returned = [tensor for tensor in _with_dims(output) if tensor.is_floating_point()]
    sizes = {tensor.shape[0] for tensor in passed}
    if len(sizes) != 1 or (len(passed) == 1 and not returned):
        return None
    (size,) = sizes
    if returned and all(tensor.shape[0] != size for tensor in returned):
        return None
    ids = next((tensor for tensor in passed if tensor.dtype is torch.int64 and tensor.ndim == 2), None)
    if ids is not None and any(tensor.ndim > 2 and tensor.shape[:2] == ids.shape for tensor in returned):
        return CallItems(count=ids.numel(), unit="tokens")
    return CallItems(count=size, unit="samples")


def lacks_batch(output: object, size: int) -> bool:
    """Whether what a call returned speaks against a batch size: it has sizes, and none is a multiple of it."""
    sizes = [extent for tensor in _with_dims(output) for extent in tensor.shape]
    return bool(sizes) and not any(extent and extent % size == 0 for extent in sizes)


def _with_dims(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in torch_api.tree_leaves(values) if isinstance(leaf, torch.Tensor) and leaf.ndim]
