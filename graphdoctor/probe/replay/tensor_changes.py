"""A tensor with one property changed and everything else kept: size, dtype, strides.

Content is cut or repeated, never invented, so that indices stay valid.
"""

from __future__ import annotations

import torch

from ..target.snapshot import dressed_as

_TRANSPOSED = "transposed"
_CHANNELS_LAST = "channels last"
_SLICE = "slice of a wider tensor"
_CONTIGUOUS = "contiguous"

_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_INTEGERS = (torch.int64, torch.int32, torch.int16)


def resized(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """The tensor with another size in one dim: cut, or its content repeated; dims stay in the same memory order."""
    before = tensor.shape[dim]
    source = tensor.detach()
    if before == 0:
        shape = list(source.shape)
        shape[dim] = size
        values = source.new_zeros(shape)
    else:
        index = torch.arange(size, device=source.device) % before
        values = source.index_select(dim, index)
    return dressed_as(in_memory_order(values, source.stride()), tensor)


def in_memory_order(values: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The values in a dense tensor whose dims have the memory order of these strides."""
    order = sorted(range(values.ndim), key=lambda dim: (-strides[dim], dim))
    result = torch.empty_permuted(values.shape, order, dtype=values.dtype, device=values.device)
    return result.copy_(values)


def other_dtypes(dtype: torch.dtype) -> list[torch.dtype]:
    """The dtypes that a caller might pass instead of this one."""
    for family in (_FLOATS, _INTEGERS):
        if dtype in family:
            return [other for other in family if other is not dtype][: 3 if family is _FLOATS else 1]
    return []


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


def other_layouts(tensor: torch.Tensor) -> list[str]:
    """Other memory layouts for the same values, without those that have the same strides."""
    if tensor.ndim == 0 or tensor.numel() < 2:
        return []
    names = [_CONTIGUOUS, _SLICE]
    if tensor.ndim == 4:
        names.insert(0, _CHANNELS_LAST)
    if tensor.ndim > 1:
        names.insert(0, _TRANSPOSED)
    seen = {tensor.stride()}
    kept = []
    for name in names:
        strides = laid_out(tensor, name).stride()
        if strides not in seen:
            seen.add(strides)
            kept.append(name)
    return kept


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in another memory layout."""
    source = tensor.detach()
    if layout == _CONTIGUOUS:
        result = source.clone(memory_format=torch.contiguous_format)
    elif layout == _CHANNELS_LAST:
        result = source.clone(memory_format=torch.channels_last)
    elif layout == _TRANSPOSED:
        result = source.transpose(-1, -2).clone(memory_format=torch.contiguous_format).transpose(-1, -2)
    else:
        wider = source.new_zeros((*source.shape[:-1], 2 * source.shape[-1]))
        result = wider[..., : source.shape[-1]]
        result.copy_(source)
    return dressed_as(result, tensor)


def other_device(device: torch.device) -> str | None:
    """Another device that this process can use, or None."""
    if device.type != "cpu":
        return "cpu"
    return "cuda" if torch.cuda.is_available() else None
