"""An int argument that changes its sign: two recompiles, then the two ways are known.

The first call is compiled for ``n == 3`` alone. The second number makes ``n`` dynamic, but the
``if`` ties the compiled code to ``n >= 0``; the first negative number needs code of its own.

graphdoctor finds:
    calls=6 compiles=3 graphs=3 break_sites=0 break_records=0 skipped_frames=0
    recompiles=2 frames_over_limit=0 coverage=1.00
    GD203 line 21
    GD207 line 21
"""

from __future__ import annotations

import torch
from torch import Tensor


def scale(x: Tensor, n: int) -> Tensor:
    y = torch.sin(x)
    if n >= 0:
        return y * n
    return y / n


def example_inputs() -> list[tuple[Tensor, int]]:
    x = torch.randn(4, 8)
    return [(x, n) for n in (3, 5, -2, 7, -4, 11)]


if __name__ == "__main__":
    compiled = torch.compile(scale, backend="eager")
    for inputs in example_inputs():
        compiled(*inputs)
