"""Random numbers that are the same in every row, so that a program that draws for more rows than
another can be compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..torch_private.torch_api import DispatchMode
from .results import Results

_SEED, _SINGLE = 20_251, 10_007


class RowsAlike(DispatchMode):
    """Draws one row for all rows, always the same one.

    ``has_single``: a single row, such as a coin for the whole batch, is another one.
    """

    def __init__(self, number: int, *, has_single: bool) -> None:
        super().__init__()
        self._seed, self._has_single = _SEED + number, has_single

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """See torch."""
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs or {})
        with torch.random.fork_rng():
            torch.manual_seed(self._seed)
            drawn = func(*args, **kwargs or {})
            if self._has_single and isinstance(drawn, Tensor) and drawn.shape[:1] == (1,):
                torch.manual_seed(self._seed + _SINGLE)
                drawn = func(*args, **kwargs or {})
        if isinstance(drawn, Tensor) and drawn.ndim and len(drawn):
            drawn.copy_(drawn[:1].clone().expand_as(drawn))
        return drawn


def same_rows(mine: Results, other: Results) -> None:
    """Cut what is kept of both to one row where each has the same in all, if it has rows at all."""
    state, reference = mine.values["state"], other.values["state"]
    for name in state.keys() & reference.keys():
        pair = state[name], reference[name]
        if not all(isinstance(value, Tensor) and value.ndim for value in pair):
            continue
        if pair[0].shape[1:] == pair[1].shape[1:] and all((v[:1] == v).all() for v in pair):
            state[name] = reference[name] = pair[0][:1]
            if all(map(len, pair)):
                reference[name] = pair[1][:1]
