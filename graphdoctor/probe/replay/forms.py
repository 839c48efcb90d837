"""Forms of a call's outputs, which callers rely on besides values: dtype, device and
``requires_grad`` of tensors, what they share memory with, and which outputs are arguments; and
their strides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from ...facts.base import Fields
from ..record.describe import dtype_text
from ..target.snapshot import attribute_names
from .results import Tensors, named_leaves

_MAX_DEPTH = 3
_CONTAINERS = (list, dict, set, deque)


def forms_in(output: object, arguments: Fields, tensors: Tensors) -> Fields:
    """Describe what a call returned.

    Args:
        output: What it returned.
        arguments: By name.
        tensors: Those that an output may share memory with: the arguments', parameters and buffers.
    """
    forms: Fields = {}
    same = {id(tensor): name for name, tensor in reversed(tensors.items())}
    shared = {storage: name for name, storage in _storages(reversed(tensors.items()))}
    for name, leaf in named_leaves(output, "output"):
        if not isinstance(leaf, Tensor):
            continue
        forms[f"dtype of {name}"] = dtype_text(leaf.dtype)
        forms[f"device of {name}"] = str(leaf.device)
        forms[f"requires_grad of {name}"] = leaf.requires_grad
        text = "memory of its own"
        if id(leaf) in same:
            text = f"{same[id(leaf)]} itself"
        for _, storage in _storages([(name, leaf)]):
            if storage in shared and text.startswith("memory"):
                text = f"memory of {shared[storage]}"
            shared.setdefault(storage, name)
        same.setdefault(id(leaf), name)
        forms[f"memory of {name}"] = text
    objects = {
        id(value): name
        for argument, whole in reversed(arguments.items())
        for name, value in _objects(whole, argument)
    }
    for name, value in _objects(output, "output"):
        is_passed = id(value) in objects
        forms[f"identity of {name}"] = f"{objects[id(value)]} itself" if is_passed else "a new one"
    return forms


def strides_in(output: object) -> Fields:
    """Describe how what a call returned lies in memory."""
    return {
        f"strides of {name}": _strides_text(leaf)
        for name, leaf in named_leaves(output, "output")
        if isinstance(leaf, Tensor) and leaf.layout is torch.strided and leaf.numel()
    }


def _strides_text(tensor: Tensor) -> str:
    """Write strides, without those of dims of size 1, which have no effect."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return f"({', '.join(str(stride) if size > 1 else '-' for size, stride in pairs)})"


def _storages(tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, int]]:
    for name, tensor in tensors:
        with suppress(RuntimeError, NotImplementedError):  # a kind of tensor without one
            if address := tensor.untyped_storage().data_ptr():
                yield name, address


def _objects(value: object, name: str, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield what can be changed in place, other than tensors."""
    names = attribute_names(value)
    if isinstance(value, _CONTAINERS) or names:
        yield name, value
    if depth == _MAX_DEPTH:
        return
    inside: list[tuple[str, Any]] = [(f".{key}", getattr(value, key, None)) for key in names]
    if isinstance(value, dict):
        inside = [(f"[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        inside = [(f"[{index}]", item) for index, item in enumerate(value)]
    for path, item in inside:
        yield from _objects(item, name + path, depth + 1)
