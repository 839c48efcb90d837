"""Runs a program from numbers with other last digits, and with operations that round otherwise.

How far its results move is how much of them is rounding: what a number was before it was rounded,
and in which order an operation adds, nobody knows. Numbers that cancel have no size of their own
to compare an error with; how far they move is measured without one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from ..torch_private.torch_api import DispatchMode, tree_leaves, tree_map

_UNITS = 8
"""How many units in the last place change of what goes in or is added; in 16 bits, one."""

_SUMS = 0.6
"""The part of the digits that a sum keeps at worst if it adds one number after the other: 7e-5 of
float32. PyTorch's runner allows 1e-4."""

_ADDING = re.compile(
    r"mm|mv|dot|sum|mean|norm|var|std|prod|conv|softmax|attention|avg_pool|loss|linalg|fft|linear"
    r"|backward|dist|lstm|gru|rnn|_add"
)
"""Operations, by parts of their names, that add what can be added in another order."""


def last_digits(dtype: torch.dtype) -> float:
    """Return the part of a number that its last digits are."""
    kind = torch.finfo(dtype)
    return float(kind.eps * (_UNITS if kind.bits > 16 else 1))


class Shaken(DispatchMode):
    """Changes numbers in their last digits, up or down at random: tensors that it's asked for, and
    while it is entered, what operations add and what they compute.

    Many numbers added one after the other round one way, so their sum drifts, too. What only moves
    or chooses numbers gives those that it was given, and a whole number stays: it may count or
    choose something. Numbers of 8 bits stay, with which torch can't compute.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def shake(self, tensors: Iterable[Tensor]) -> None:
        """Change tensors in place."""
        for tensor in tensors:
            tensor.data = self._added(tensor.data)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """See torch."""
        kwargs = kwargs or {}
        is_elementwise = torch.Tag.pointwise in func.tags
        is_adding = not is_elementwise and _ADDING.search(func._schema.name) is not None
        is_new = all(argument.alias_info is None for argument in func._schema.arguments)
        if not is_new or not (is_elementwise or is_adding):
            return func(*args, **kwargs)
        if is_adding:
            # A batch norm writes to them, and its schema doesn't say so.
            kept = {at for at, it in enumerate(func._schema.arguments) if "running_" in it.name}
            added = [it if at in kept else tree_map(self._added, it) for at, it in enumerate(args)]
            result = func(*added, **tree_map(self._added, kwargs))
            drift = _drift(tree_leaves((args, kwargs)), tree_leaves(result))
            return tree_map(lambda it: self._drifted(it, drift) if _is_plain(it) else it, result)
        result = func(*args, **kwargs)
        if not _is_plain(result):
            return result
        changed = self._changed(result, torch.finfo(result.dtype).eps)
        for it in args:
            if isinstance(it, Tensor) and it.device == result.device:
                changed = torch.where(result == it, result, changed)
        return changed

    def _added(self, value: Any) -> Any:
        return self._changed(value, last_digits(value.dtype)) if _is_plain(value) else value

    def _drifted(self, tensor: Tensor, part: float) -> Tensor:
        # Of one sign alone, so that what cancels drifts by a part of what it is made of.
        is_moved = tensor > 0 if self._seed % 2 else tensor < 0
        return torch.where(is_moved, _scaled(tensor, 1 + part), tensor)

    def _changed(self, tensor: Tensor, part: float) -> Tensor:
        generator = self._generators.get(tensor.device)
        if generator is None:
            generator = torch.Generator(tensor.device).manual_seed(self._seed)
            self._generators[tensor.device] = generator
        bits = torch.randint(0, 2, tensor.shape, generator=generator, device=tensor.device)
        return _scaled(tensor, 1 + (bits.to(tensor.dtype) * 2 - 1) * part)


def _scaled(tensor: Tensor, factor: Tensor | float) -> Tensor:
    return torch.where(tensor == tensor.round(), tensor, tensor * factor)


def _is_plain(value: object) -> TypeGuard[Tensor]:
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return False
    return value.is_floating_point() and value.itemsize > 1


def _drift(given: Iterable[object], made: Iterable[object]) -> float:
    """Return by what part of itself a sum may drift if it adds one number after the other, which
    are rounded one way: an eighth of a unit in the last place for each, in float32 at least.
    """
    sizes = sorted(it.numel() for it in given if _is_plain(it))
    results = [it for it in made if _is_plain(it) and it.numel()]
    if not sizes or not results:
        return 0.0
    least = min(it.numel() for it in results)
    # What a reduction adds, or a matrix product, by the sizes of what goes in and comes out.
    count = max(sizes[-1] / least, math.sqrt(sizes[-1] * sizes[-2] / least) if sizes[1:] else 0.0)
    unit = min(torch.finfo(results[0].dtype).eps, torch.finfo(torch.float32).eps)
    return min(count / 8 * unit, unit**_SUMS)
