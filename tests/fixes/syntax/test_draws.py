"""Which calls draw random numbers, by name."""

from __future__ import annotations

from graphdoctor.fixes.source.torch_names import draws_random
from tests.each import for_each


@for_each("name, draws", (
    *((name, True) for name in ("rand", "randn_like", "randperm", "normal_", "uniform_", "Dropout2d")),
    *((name, True) for name in ("exponential_", "random_", "log_normal_", "rsample", "manual_seed")),
    *((name, False) for name in ("operand", "normalize", "brand", "sampled", "linear", "")),
))  # fmt: skip
def test_a_draw_is_told_by_name(name, draws):
    assert draws_random(name) is draws
