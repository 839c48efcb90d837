"""Calls with all tensors in one dtype, or with one batch size.

The content of a tensor is cut or repeated, never invented, so that indices stay valid. Lists, dicts
and objects stay the same objects, because torch guards on them and the program may keep them;
tuples are made anew. A tensor that is in several places, or is there again in a later call, is
replaced by one tensor; tensors that share memory get memory of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.utils.weak import WeakTensorKeyDictionary

from ..record.errors import RequestError, first_line
from ..target.snapshot import dressed_as
from ..target.targets import Call
from .leaves import Leaf, Step, leaves_of, replaced

_CASTS = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "half",
    torch.bfloat16: "bfloat16",
}
_PLAIN = (Tensor, Parameter)


def resized(tensor: Tensor, dim: int, size: int) -> Tensor:
    """Cut a tensor, or repeat its content, to another size of a dim; dims stay in the same memory
    order.
    """
    source = tensor.detach()
    shape = [size if at == dim else extent for at, extent in enumerate(source.shape)]
    if not is_plain(tensor):
        # The attributes of a subclass may hold its values.
        return _repeated(source, dim, size).requires_grad_(tensor.requires_grad)
    strides = source.stride()
    order = sorted(range(source.ndim), key=lambda place: (-strides[place], place))
    result = torch.empty_permuted(shape, order, dtype=source.dtype, device=source.device)
    result = result.copy_(_repeated(source, dim, size)) if source.shape[dim] else result.zero_()
    return dressed_as(result, tensor)


def _repeated(tensor: Tensor, dim: int, size: int) -> Tensor:
    index = torch.arange(size, device=tensor.device) % tensor.shape[dim]
    return tensor.index_select(dim, index)


def has_strides(tensor: Tensor) -> bool:
    """Return whether a tensor's values lie in memory by its strides."""
    return tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested


def is_plain(value: Any) -> bool:
    """Return whether a value is a tensor of torch's own class that has strides."""
    return type(value) in _PLAIN and has_strides(value)


def cast_module(module: Module, dtype: torch.dtype) -> None:
    """Convert a module's float parameters and buffers; unlike ``Module.to``, this leaves complex
    ones alone.
    """
    getattr(module, _CASTS[dtype])()


class _Replacing:
    """Replaces some tensors of calls."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._made = WeakTensorKeyDictionary()
        # A container that we changed has these in the next round.
        self._ours = WeakTensorKeyDictionary()

    def chosen(self, leaves: list[Leaf]) -> Iterable[Leaf]:
        """Return those of a call's leaves that are tensors to replace."""
        raise NotImplementedError

    def make(self, leaf: Leaf) -> Tensor:
        """Make what replaces a tensor."""
        raise NotImplementedError

    def __call__(self, call: Call) -> Call:
        """Change a call; its containers and objects in place."""
        for leaf in list(self.chosen(leaves_of(call, self._function, of_callables=True))):
            tensor = leaf.value
            if tensor in self._ours:
                continue
            if tensor not in self._made:
                made = self._made[tensor] = self.make(leaf)
                self._ours[made] = True
            call = replaced(call, leaf.path, lambda old: self._made.get(old, old), in_place=True)
        return call


class InDtype(_Replacing):
    """Has calls made with floating-point tensors, and modules among the arguments, of one dtype."""

    def __init__(self, dtype: torch.dtype, function: Any) -> None:
        super().__init__(function)
        self._dtype = dtype

    def chosen(self, leaves: list[Leaf]) -> Iterable[Leaf]:
        """Return the floating-point tensors of another dtype; converts modules."""
        for leaf in leaves:
            value = leaf.value
            if isinstance(value, Module):
                cast_module(value, self._dtype)
            is_float = isinstance(value, Tensor) and value.is_floating_point()
            if is_float and value.dtype is not self._dtype:
                yield leaf

    def make(self, leaf: Leaf) -> Tensor:
        """Convert a tensor."""
        converted = leaf.value.detach().to(self._dtype)
        if type(leaf.value) in _PLAIN:
            return dressed_as(converted, leaf.value)
        # The attributes of a subclass may hold its values.
        return converted.requires_grad_(leaf.value.requires_grad)


class WithBatch(_Replacing):
    """Has calls made with one batch size, whatever their own is.

    Which tensors have a batch dim shows in the first call, by their sizes alone
    (``batch_size_of``); in later calls the same ones have it. ``on_found`` gets tensors that have
    one, once each time that others are found.
    """

    def __init__(self, size: int, function: Any, on_found: Callable[[list[Leaf]], object]) -> None:
        super().__init__(function)
        self._size = size
        self._on_found = on_found
        self._has_batch: dict[tuple[Step, ...], bool] = {}

    def chosen(self, leaves: list[Leaf]) -> Iterable[Leaf]:
        """Return the tensors with a batch dim of another size."""
        tensors = (leaf for leaf in leaves if isinstance(leaf.value, Tensor))
        leaves = [leaf for leaf in tensors if leaf.value.ndim and leaf.value.numel()]
        rows = {leaf.path: leaf.value.shape[0] for leaf in leaves}
        sizes = [size for path, size in rows.items() if self._has_batch.get(path)]
        batch = max(sizes) if sizes else batch_size_of([leaf.value.shape for leaf in leaves])
        if batch is None:
            texts = [f"{leaf.expression} {list(leaf.value.shape)}" for leaf in leaves]
            raise RequestError("no_batch", batch=self._size, tensors=texts)
        new = [leaf for leaf in leaves if leaf.path not in self._has_batch]
        self._has_batch |= {leaf.path: rows[leaf.path] == batch for leaf in new}
        if batched := [leaf for leaf in new if self._has_batch[leaf.path]]:
            self._on_found(batched)
        if batch == self._size:
            return []
        return [it for it in leaves if self._has_batch[it.path] and rows[it.path] == batch]

    def make(self, leaf: Leaf) -> Tensor:
        """Cut or repeat rows."""
        try:
            return resized(leaf.value, 0, self._size)
        except (RuntimeError, TypeError) as error:
            raise RequestError(
                "unusable_batch", batch=self._size, tensor=leaf.expression, error=first_line(error)
            ) from None


def batch_size_of(shapes: Sequence[Sequence[int]]) -> int | None:
    """Find the size of the batch dim, the first of those tensors that have one; None if it could be
    one or another.

    It explains the first dims of all tensors: each is the batch; or a later dim of a tensor with
    the batch, as that of an attention mask is; or 1, if the first tensor has the batch. Of several
    such sizes, the most tensors have it.
    """
    counts = {}
    for size in dict.fromkeys(shape[0] for shape in shapes):
        having = [shape for shape in shapes if shape[0] == size]
        explained = {size, *(later for shape in having for later in shape[1:])}
        if shapes[0][0] == size:
            explained.add(1)
        if all(shape[0] in explained for shape in shapes):
            counts[size] = len(having)
    most = [size for size, count in counts.items() if count == max(counts.values())]
    return most[0] if len(most) == 1 else None
