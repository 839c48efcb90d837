"""What one call works on: how many samples or tokens, where its tensors say so, and whether they could."""

from __future__ import annotations

import torch

from ..torch_private import torch_api
from ..wire import CallItems
from .targets import Call


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
