"""What the page of GD218 says of a deque is true of torch."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(("full", "compiles"), [(0, 4), (3, 1)])
def test_a_deque_that_is_full_of_such_values_before_the_first_call_is_compiled_for_once(
    full: int, compiles: int
) -> None:
    torch = pytest.importorskip("torch")
    from torch._dynamo.testing import CompileCounter

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = deque([torch.zeros(()) for _ in range(full)], maxlen=3)

        def forward(self, x: Any) -> Any:
            self.kept.append(x.sum())
            return x.sin()

    torch.compiler.reset()
    counter = CompileCounter()
    net = torch.compile(Net(), backend=counter)
    for _ in range(4):
        net(torch.ones(3))
    torch.compiler.reset()
    assert counter.frame_count == compiles
