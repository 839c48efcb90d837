"""A submodule shadowed in a module's __dict__ has no guard."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Wrapper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)  # here


_WRAPPER, _OTHER = Wrapper(), nn.Linear(4, 4)


@torch.compiler.disable
def _shadow(is_shadowed: bool) -> None:
    vars(_WRAPPER).pop("inner", None)
    if is_shadowed:
        vars(_WRAPPER)["inner"] = _OTHER


def build() -> object:
    def step(x: Tensor, is_shadowed: bool) -> Tensor:
        _shadow(is_shadowed)
        return _WRAPPER(x)

    return step


def example_inputs() -> list[tuple[Tensor, bool]]:
    x = torch.arange(4.0)
    return [(x, False), (x, True)]
