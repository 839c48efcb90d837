"""A mode and a size that change together, although the mode's other value has been compiled: the
size is the cause."""

from __future__ import annotations

import torch


def forward(x: torch.Tensor, is_even: bool) -> torch.Tensor:
    return x.sin() if is_even else x.cos()


def example_inputs() -> list[tuple[torch.Tensor, bool]]:
    return [
        (torch.ones(size, 3), is_even)
        for size, is_even in ((4, True), (4, False), (4, True), (6, False))
    ]


if __name__ == "__main__":
    compiled = torch.compile(forward, backend="eager")
    for arguments in example_inputs():
        compiled(*arguments)
