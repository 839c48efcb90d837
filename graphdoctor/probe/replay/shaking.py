"""Runs a program from numbers with other last digits, and with operations that round otherwise.

How far its results move is how much of them is rounding: what a number was before it was rounded,
and in which order an operation adds, nobody knows. Numbers that cancel have no size of their own
to compare an error with; how far they move is measured without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..torch_private.torch_api import DispatchMode, tree_map

_UNITS = 8
"""How many units in the last place change of what goes in or is added; in 16 bits, one."""

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

    What only moves or chooses numbers gives those that it was given, and a whole number stays: it
    may count or choose something.
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
            args, kwargs = tree_map(self._added, (args, kwargs))
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        changed = self._changed(result, torch.finfo(result.dtype).eps)
        for it in args:
            if isinstance(it, Tensor) and it.device == result.device:
                changed = torch.where(result == it, result, changed)
        return changed

    def _added(self, value: Any) -> Any:
        is_plain = isinstance(value, Tensor) and value.layout is torch.strided
        if not is_plain or not value.is_floating_point():
            return value
        return self._changed(value, last_digits(value.dtype))

    def _changed(self, tensor: Tensor, part: float) -> Tensor:
        generator = self._generators.get(tensor.device)
        if generator is None:
            generator = torch.Generator(tensor.device).manual_seed(self._seed)
            self._generators[tensor.device] = generator
        bits = torch.randint(0, 2, tensor.shape, generator=generator, device=tensor.device)
        changed = tensor * (1 + (bits.to(tensor.dtype) * 2 - 1) * part)
        return torch.where(tensor == tensor.round(), tensor, changed)
