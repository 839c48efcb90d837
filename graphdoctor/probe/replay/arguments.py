"""The tensors in the arguments of calls, changed: one property of one, or the dtype or batch size
of all.

The content of a tensor is cut or repeated, never invented, so that indices stay valid. Lists, dicts
and objects stay the same objects, because torch guards on them and the program may keep them;
tuples are made anew. A tensor that is in several places, or is there again in a later call, is
replaced by one tensor, and tensors that share memory still do.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from ..record.errors import RequestError, first_line
from ..target.snapshot import dressed_as
from ..target.targets import Call
from .leaves import Leaf, Step, leaves_of, replaced_in

_CHANNELS_LAST = "channels last"
_CONTIGUOUS = "contiguous"

_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_INTEGERS = (torch.int64, torch.int32, torch.int16)


def resized(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """The tensor with another size in one dim: cut, or its content repeated; dims stay in the same
    memory order.
    """
    before, source = tensor.shape[dim], tensor.detach()
    if before == 0:
        values = source.new_zeros(
            [size if place == dim else extent for place, extent in enumerate(source.shape)]
        )
    else:
        values = source.index_select(dim, torch.arange(size, device=source.device) % before)
    strides = source.stride()
    order = sorted(range(values.ndim), key=lambda place: (-strides[place], place))
    result = torch.empty_permuted(values.shape, order, dtype=values.dtype, device=values.device)
    return dressed_as(result.copy_(values), tensor)


def other_dtypes(dtype: torch.dtype) -> list[torch.dtype]:
    """The dtypes that a caller might pass instead of this one."""
    family, most = (_FLOATS, 3) if dtype in _FLOATS else (_INTEGERS, 1)
    return [other for other in family if other is not dtype][:most] if dtype in family else []


def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in another dtype, its strides kept."""
    return dressed_as(tensor.detach().to(dtype), tensor)


def layout_name(tensor: torch.Tensor) -> str:
    """A short name for a tensor's memory layout."""
    if tensor.is_contiguous():
        return _CONTIGUOUS
    if tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return _CHANNELS_LAST
    return f"strides {tuple(tensor.stride())}"


def _in_wider(source: torch.Tensor) -> torch.Tensor:
    wider = source.new_zeros((*source.shape[:-1], 2 * source.shape[-1]))
    return wider[..., : source.shape[-1]].copy_(source)


_LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda source: source.mT.clone(memory_format=torch.contiguous_format).mT,
    _CHANNELS_LAST: lambda source: source.clone(memory_format=torch.channels_last),
    _CONTIGUOUS: lambda source: source.clone(memory_format=torch.contiguous_format),
    "slice of a wider tensor": _in_wider,
}


def other_layouts(tensor: torch.Tensor) -> list[str]:
    """Other memory layouts for the same values, without those that have the same strides."""
    found: dict[tuple[int, ...], str] = {}
    for name in _LAYOUTS if tensor.ndim and tensor.numel() > 1 else ():
        with contextlib.suppress(RuntimeError):  # it's for tensors with more dims
            found.setdefault(laid_out(tensor, name).stride(), name)
    found.pop(tensor.stride(), None)
    return list(found.values())


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in another memory layout."""
    return dressed_as(_LAYOUTS[layout](tensor.detach()), tensor)


def other_device(device: torch.device) -> str | None:
    """Another device that this process can use, or None."""
    if device.type != "cpu":
        return "cpu"
    return "cuda" if torch.cuda.is_available() else None


_CASTS = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "half",
    torch.bfloat16: "bfloat16",
}

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def cast_module(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Convert a module's float parameters and buffers; unlike ``Module.to``, this leaves complex
    ones alone.
    """
    getattr(module, _CASTS[dtype])()


class InDtype:
    """Has calls made with floating-point tensors of one dtype."""

    def __init__(self, dtype: torch.dtype, function: Any) -> None:
        self._dtype, self._function = dtype, function
        self._replaced = _Replaced()

    def __call__(self, call: Call) -> Call:
        """A call with its tensors, and the modules among its arguments, in this dtype."""
        leaves = leaves_of(call, self._function, of_callables=True)
        for leaf in leaves:
            if isinstance(leaf.value, torch.nn.Module):
                cast_module(leaf.value, self._dtype)
        tensors = (leaf for leaf in leaves if isinstance(leaf.value, torch.Tensor))
        floats = (leaf for leaf in tensors if leaf.value.is_floating_point())
        return self._replaced.put(
            call, (leaf for leaf in floats if leaf.value.dtype is not self._dtype), self._cast
        )

    def _cast(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if len(tensors) == 1:
            return [_like(tensors[0], tensors[0].detach().to(self._dtype))]
        flat = _flat(tensors).to(self._dtype)
        return [
            _like(each, flat.as_strided(each.size(), each.stride(), each.storage_offset()))
            for each in tensors
        ]


class WithBatch:
    """Has calls made with one batch size, whatever their own is.

    Which tensors have a batch dim is found in the first call, by their sizes alone
    (``batch_size_of``); in later calls the same ones have it. ``on_found`` gets tensors that have
    one, once each time that others are found.
    """

    def __init__(self, size: int, function: Any, on_found: Callable[[list[Leaf]], object]) -> None:
        self._size, self._function, self._on_found = size, function, on_found
        self._replaced = _Replaced()
        self._known: dict[tuple[Step, ...], bool] = {}

    def __call__(self, call: Call) -> Call:
        """A call with this batch size: the rows of its own, cut or repeated."""
        tensors = (
            leaf
            for leaf in leaves_of(call, self._function, of_callables=True)
            if isinstance(leaf.value, torch.Tensor)
        )
        leaves = [leaf for leaf in tensors if leaf.value.ndim and leaf.value.numel()]
        own = self._own_size(leaves)
        wanted = [
            leaf
            for leaf in leaves
            if self._known.get(leaf.path, True) and leaf.value.shape[0] == own != self._size
        ]
        return self._replaced.put(call, wanted, functools.partial(self._resize, wanted))

    def _own_size(self, leaves: list[Leaf]) -> int:
        known = [leaf.value.shape[0] for leaf in leaves if self._known.get(leaf.path)]
        own = max(known) if known else batch_size_of([tuple(leaf.value.shape) for leaf in leaves])
        if own is None:
            tensors = [f"{leaf.expression} {list(leaf.value.shape)}" for leaf in leaves]
            raise RequestError("no_batch", batch=self._size, tensors=tensors)
        found = {
            leaf.path: leaf.value.shape[0] == own for leaf in leaves if leaf.path not in self._known
        }
        if any(found.values()):
            self._on_found([leaf for leaf in leaves if found.get(leaf.path)])
        self._known |= found
        return own

    def _resize(self, leaves: list[Leaf], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        try:
            return self._resized(tensors)
        except (RuntimeError, TypeError) as error:
            name = next(leaf.expression for leaf in leaves if leaf.value is tensors[0])
            raise RequestError(
                "unusable_batch", batch=self._size, tensor=name, error=first_line(error)
            ) from None

    def _resized(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        rows = _rows(tensors, self._size) if len(tensors) > 1 else None
        if rows is None:
            return [self._alone(tensor) for tensor in tensors]
        made, first = rows
        return [
            _like(
                each,
                made.as_strided(
                    (self._size, *each.shape[1:]), each.stride(), each.storage_offset() - first
                ),
            )
            for each in tensors
        ]

    def _alone(self, tensor: torch.Tensor) -> torch.Tensor:
        if _is_plain(tensor):
            return resized(tensor, 0, self._size)
        index = torch.arange(self._size, device=tensor.device) % tensor.shape[0]
        return _like(tensor, tensor.detach().index_select(0, index))


def batch_size_of(shapes: Sequence[tuple[int, ...]]) -> int | None:
    """The size of the batch dim, the first of those tensors that have one; None if it could be one
    or another.

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
        self._own = WeakTensorKeyDictionary()

    def put(
        self,
        call: Call,
        leaves: Iterable[Leaf],
        make: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]],
    ) -> Call:
        wanted = [leaf for leaf in leaves if leaf.value not in self._own]
        waiting = {id(leaf.value): leaf.value for leaf in wanted if leaf.value not in self._made}
        for group in _by_memory(waiting.values()):
            for old, new in zip(group, make(group), strict=True):
                self._made[old], self._own[new] = new, True
        whole: Any = (tuple(call[0]), dict(call[1]))
        for leaf in wanted:
            whole = replaced_in(
                whole, leaf.path, lambda old: self._made.get(old, old), in_place=True
            )
        args, kwargs = whole
        return args, kwargs


def has_strides(tensor: torch.Tensor) -> bool:
    """Whether a tensor's values lie in memory by its strides."""
    return tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in _PLAIN and has_strides(tensor)


def _like(original: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    if type(original) in _PLAIN:
        return dressed_as(tensor, original)
    # The attributes of a subclass may hold its values.
    return tensor.requires_grad_(original.requires_grad)


def _by_memory(tensors: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    groups: dict[object, list[torch.Tensor]] = {}
    for tensor in tensors:
        address = tensor.untyped_storage().data_ptr() if _is_plain(tensor) else 0
        groups.setdefault(
            (address, tensor.device, tensor.dtype) if address else id(tensor), []
        ).append(tensor)
    return list(groups.values())


def _flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    first = tensors[0]
    return torch.empty(0, dtype=first.dtype, device=first.device).set_(first.untyped_storage())


def _rows(tensors: Sequence[torch.Tensor], size: int) -> tuple[torch.Tensor, int] | None:
    """Memory that several tensors share, with another number of rows, and where they begin; None if
    it has no rows.
    """
    flat = _flat(tensors)
    step, count = tensors[0].stride(0), tensors[0].shape[0]
    first = min(int(each.storage_offset()) for each in tensors)
    for each in tensors:
        last = sum(
            (extent - 1) * stride
            for extent, stride in zip(each.shape[1:], each.stride()[1:], strict=True)
        )
        if each.stride(0) != step or each.storage_offset() - first + last >= step:
            return None
    places = (torch.arange(size, device=flat.device) % count)[:, None] * step
    index = first + places + torch.arange(step, device=flat.device)
    # Behind the last row of a slice there may be no more memory.
    return flat[index.clamp(max=flat.numel() - 1).flatten()], first
