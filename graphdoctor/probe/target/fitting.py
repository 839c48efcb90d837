"""Inputs that fit a callable: tensors beside it that are named as its parameters, and what the
first layers of a module take.

Reads modules only; calls nothing of the program's.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ..torch_private.torch_api import DTYPES

_BATCH = 8
_LENGTH = 16
_IMAGE = 224
_NAMES = ("x", "inp", "input", "inputs", "example_input", "sample", "batch")
"""Names that programs give to the input of a module that has one."""

_SIZES = {1: 128, 2: 32, 3: 16}
"""Length of each dim that a convolution slides over, by their number."""


def beside(module: ModuleType | None, signature: inspect.Signature | None) -> dict[str, object]:
    """Find tensors and numbers of a module that are named as the parameters that a call needs;
    empty unless all are there, with a tensor among them.
    """
    needed = _needed(signature)
    values = {name: getattr(module, name, None) for name in needed}
    named = [name for name in _NAMES if isinstance(getattr(module, name, None), Tensor)]
    if len(needed) == len(named) == 1:
        # nn.Sequential calls its input so, whatever the program does.
        values = {named[0]: getattr(module, named[0])}
    has_tensor = any(isinstance(value, Tensor) for value in values.values())
    is_all = all(isinstance(value, Tensor | int | float) for value in values.values())
    return values if has_tensor and is_all else {}


def proposed(function: object, signature: inspect.Signature | None) -> list[tuple[str, str]]:
    """Propose arguments for what a module needs, each as an input of the command line and as a
    Python expression; empty where its first layers don't say.
    """
    needed = _needed(signature)
    if not isinstance(function, nn.Module) or not needed:
        return []
    config: Any = getattr(function, "config", None)
    if needed[0] == "pixel_values" and hasattr(config, "num_channels"):
        size = getattr(config, "image_size", None) or _IMAGE
        sizes = [size, size] if isinstance(size, int) else list(size)
        return [_tensor([1, config.num_channels, *sizes])]
    layers = [taken for layer in function.modules() if (taken := _taken_by(layer)) is not None]
    # Tables of ids have an argument each; what else a module takes is mostly like the first.
    ids = [taken for taken in layers if taken[0].startswith("i64")]
    if layers and layers[0] in ids and len(ids) >= len(needed):
        return ids[: len(needed)]
    return layers[:1] * len(needed)


def _needed(signature: inspect.Signature | None) -> list[str]:
    parameters = () if signature is None else tuple(signature.parameters.values())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind in kinds and parameter.default is parameter.empty
    ]


def _taken_by(layer: nn.Module) -> tuple[str, str] | None:
    shape = None
    match layer:
        case nn.Embedding() | nn.EmbeddingBag():
            ids = f"torch.randint({layer.num_embeddings}, ({_BATCH}, {_LENGTH}))"
            return f"i64[{_BATCH},{_LENGTH}]", ids
        case nn.Linear():
            shape = [_BATCH, layer.in_features]
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            reach = zip(layer.kernel_size, layer.dilation, strict=True)
            least = max((kernel - 1) * dilation + 1 for kernel, dilation in reach)
            dims = len(layer.kernel_size)
            shape = [_BATCH, layer.in_channels, *[max(_SIZES[dims], least)] * dims]
        case nn.RNNBase():
            first = [_BATCH, _LENGTH] if layer.batch_first else [_LENGTH, _BATCH]
            shape = [*first, layer.input_size]
        case nn.MultiheadAttention():
            shape = [_BATCH, _LENGTH, layer.embed_dim]
        case nn.LayerNorm():
            shape = [_BATCH, *layer.normalized_shape]
    weight = next(layer.parameters(recurse=False), None)
    return (
        None if shape is None else _tensor(shape, torch.float32 if weight is None else weight.dtype)
    )


def _tensor(shape: Sequence[Any], dtype: torch.dtype = torch.float32) -> tuple[str, str]:
    sizes = [*map(str, shape)]
    suffix = "" if dtype == torch.float32 else f", dtype={dtype}"
    return f"{DTYPES[dtype]}[{','.join(sizes)}]", f"torch.randn({', '.join(sizes)}{suffix})"
