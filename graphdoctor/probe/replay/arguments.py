"""Calls with all tensors in one dtype, or with one batch size.

The content of a tensor is cut or repeated, never invented, so that indices stay valid. Lists, dicts
and objects stay the same objects, because torch guards on them and the program may keep them;
tuples are made anew. A tensor that is in several places, or is there again in a later call, is
replaced by one tensor, and tensors that share memory still do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.utils.weak import WeakTensorKeyDictionary

from ..record.errors import RequestError, first_line
from ..target.snapshot import dressed_as
from ..target.targets import Call
from .leaves import Leaf, Step, leaves_of, replaced_in

_CASTS = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "half",
    torch.bfloat16: "bfloat16",
}

_PLAIN = (Tensor, Parameter)

_Make = Callable[[Sequence[Tensor]], list[Tensor]]


def resized(tensor: Tensor, dim: int, size: int) -> Tensor:
    """Cut a tensor, or repeat its content, to another size of a dim; dims stay in the same memory
    order.
    """
    source = tensor.detach()
    if source.shape[dim] == 0:
        shape = [size if at == dim else extent for at, extent in enumerate(source.shape)]
        values = source.new_zeros(shape)
    else:
        index = torch.arange(size, device=source.device) % source.shape[dim]
        values = source.index_select(dim, index)
    strides = source.stride()
    order = sorted(range(values.ndim), key=lambda place: (-strides[place], place))
    result = torch.empty_permuted(values.shape, order, dtype=values.dtype, device=values.device)
    return dressed_as(result.copy_(values), tensor)


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


def _tensor_leaves(call: Call, function: Any) -> Iterator[Leaf]:
    leaves = leaves_of(call, function, of_callables=True)
    return (leaf for leaf in leaves if isinstance(leaf.value, Tensor))


class InDtype:
    """Has calls made with floating-point tensors of one dtype."""

    def __init__(self, dtype: torch.dtype, function: Any) -> None:
        self._dtype, self._function = dtype, function
        self._replaced = _Replaced()

    def __call__(self, call: Call) -> Call:
        """Convert the tensors of a call, and the modules among its arguments."""
        for leaf in leaves_of(call, self._function, of_callables=True):
            if isinstance(leaf.value, Module):
                cast_module(leaf.value, self._dtype)
        floats = (
            leaf
            for leaf in _tensor_leaves(call, self._function)
            if leaf.value.is_floating_point() and leaf.value.dtype is not self._dtype
        )
        return self._replaced.put(call, floats, self._cast)

    def _cast(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        if len(tensors) == 1:
            return [_like(tensors[0], tensors[0].detach().to(self._dtype))]
        flat = _flat(tensors[0]).to(self._dtype)
        return [
            _like(tensor, flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()))
            for tensor in tensors
        ]


class WithBatch:
    """Has calls made with one batch size, whatever their own is.

    Which tensors have a batch dim shows in the first call, by their sizes alone
    (``batch_size_of``); in later calls the same ones have it. ``on_found`` gets tensors that have
    one, once each time that others are found.
    """

    def __init__(self, size: int, function: Any, on_found: Callable[[list[Leaf]], object]) -> None:
        self._size, self._function, self._on_found = size, function, on_found
        self._replaced = _Replaced()
        self._has_batch: dict[tuple[Step, ...], bool] = {}

    def __call__(self, call: Call) -> Call:
        """Cut or repeat the rows of a call."""
        tensors = _tensor_leaves(call, self._function)
        leaves = [leaf for leaf in tensors if leaf.value.ndim and leaf.value.numel()]
        batch = self._batch_of(leaves)
        batched = [
            leaf
            for leaf in leaves
            if self._has_batch.get(leaf.path, True) and leaf.value.shape[0] == batch != self._size
        ]
        return self._replaced.put(call, batched, partial(self._resize, batched))

    def _batch_of(self, leaves: list[Leaf]) -> int:
        sizes = [leaf.value.shape[0] for leaf in leaves if self._has_batch.get(leaf.path)]
        shapes = [tuple(leaf.value.shape) for leaf in leaves]
        batch = max(sizes) if sizes else batch_size_of(shapes)
        if batch is None:
            tensors = [f"{leaf.expression} {list(leaf.value.shape)}" for leaf in leaves]
            raise RequestError("no_batch", batch=self._size, tensors=tensors)
        new = [leaf for leaf in leaves if leaf.path not in self._has_batch]
        self._has_batch |= {leaf.path: leaf.value.shape[0] == batch for leaf in new}
        if batched := [leaf for leaf in new if self._has_batch[leaf.path]]:
            self._on_found(batched)
        return batch

    def _resize(self, leaves: list[Leaf], tensors: Sequence[Tensor]) -> list[Tensor]:
        try:
            rows = _rows(tensors, self._size) if len(tensors) > 1 else None
            if rows is None:
                return [self._alone(tensor) for tensor in tensors]
            made, first = rows
            return [
                _like(
                    tensor,
                    made.as_strided(
                        (self._size, *tensor.shape[1:]),
                        tensor.stride(),
                        tensor.storage_offset() - first,
                    ),
                )
                for tensor in tensors
            ]
        except (RuntimeError, TypeError) as error:
            name = next(leaf.expression for leaf in leaves if leaf.value is tensors[0])
            raise RequestError(
                "unusable_batch", batch=self._size, tensor=name, error=first_line(error)
            ) from None

    def _alone(self, tensor: Tensor) -> Tensor:
        if is_plain(tensor):
            return resized(tensor, 0, self._size)
        index = torch.arange(self._size, device=tensor.device) % tensor.shape[0]
        return _like(tensor, tensor.detach().index_select(0, index))


def batch_size_of(shapes: Sequence[tuple[int, ...]]) -> int | None:
    """Find the size of the batch dim, the first of those tensors that have one; None if it could be
    one or another.

    It explains the first dims of all tensors: each is the batch; or a later dim of a tensor with
    the batch, as that of an attention mask is; or 1, if the first tensor has the batch. Of several
    such sizes, the most tensors have it.
    """
    counts: dict[int, int] = {}
    for size in dict.fromkeys(shape[0] for shape in shapes):
        having = [shape for shape in shapes if shape[0] == size]
        explained = {size, *(later for shape in having for later in shape[1:])}
        if shapes[0][0] == size:
            explained.add(1)
        if all(shape[0] in explained for shape in shapes):
            counts[size] = len(having)
    most = [size for size, count in counts.items() if count == max(counts.values())]
    return most[0] if len(most) == 1 else None


class _Replaced:
    def __init__(self) -> None:
        self._made = WeakTensorKeyDictionary()
        # A container that we changed has these in the next round.
        self._ours = WeakTensorKeyDictionary()

    def put(self, call: Call, leaves: Iterable[Leaf], make: _Make) -> Call:
        leaves = [leaf for leaf in leaves if leaf.value not in self._ours]
        waiting = {id(leaf.value): leaf.value for leaf in leaves if leaf.value not in self._made}
        for group in _by_memory(waiting.values()):
            for old, new in zip(group, make(group), strict=True):
                self._made[old], self._ours[new] = new, True
        whole: Any = (tuple(call[0]), dict(call[1]))
        for leaf in leaves:
            whole = replaced_in(
                whole, leaf.path, lambda old: self._made.get(old, old), in_place=True
            )
        args, kwargs = whole
        return args, kwargs


def _like(original: Tensor, tensor: Tensor) -> Tensor:
    if type(original) in _PLAIN:
        return dressed_as(tensor, original)
    # The attributes of a subclass may hold its values.
    return tensor.requires_grad_(original.requires_grad)


def _by_memory(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    groups: dict[object, list[Tensor]] = {}
    for tensor in tensors:
        address = tensor.untyped_storage().data_ptr() if is_plain(tensor) else 0
        key = (address, tensor.device, tensor.dtype) if address else id(tensor)
        groups.setdefault(key, []).append(tensor)
    return list(groups.values())


def _flat(tensor: Tensor) -> Tensor:
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return empty.set_(tensor.untyped_storage())


def _rows(tensors: Sequence[Tensor], size: int) -> tuple[Tensor, int] | None:
    """Memory that several tensors share, with another number of rows, and where they begin; None if
    it has no rows.
    """
    flat, step = _flat(tensors[0]), tensors[0].stride(0)
    first = min(int(tensor.storage_offset()) for tensor in tensors)
    for tensor in tensors:
        extents = zip(tensor.shape[1:], tensor.stride()[1:], strict=True)
        last = sum((extent - 1) * stride for extent, stride in extents)
        if tensor.stride(0) != step or tensor.storage_offset() - first + last >= step:
            return None
    places = (torch.arange(size, device=flat.device) % tensors[0].shape[0])[:, None] * step
    index = first + places + torch.arange(step, device=flat.device)
    # Behind the last row of a slice there may be no more memory.
    return flat[index.clamp(max=flat.numel() - 1).flatten()], first
