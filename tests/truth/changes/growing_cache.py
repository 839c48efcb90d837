"""A cache of keys and values that each call lengthens: a prompt, single tokens, then a second,
longer prompt."""

from __future__ import annotations

from collections.abc import Iterator

import torch

Cache = dict[str, tuple[torch.Tensor, torch.Tensor]]


def forward(x: torch.Tensor, cache: Cache) -> torch.Tensor:
    total = torch.zeros(())
    for name in ("a", "b"):
        k, v = cache.get(name, (x[:, :0], x[:, :0]))
        k, v = torch.cat([k, x], dim=1), torch.cat([v, x], dim=1)
        cache[name] = k, v
        total = total + (k * v).sum()
    return total


def example_inputs() -> Iterator[tuple[torch.Tensor, Cache]]:
    for prompt in (6, 9):
        cache: Cache = {}
        yield torch.ones(1, prompt, 4), cache
        for _ in range(3):
            yield torch.ones(1, 1, 4), cache


def calls() -> None:
    """The same calls without graphdoctor."""
    compiled = torch.compile(forward, backend="eager")
    for x, cache in example_inputs():
        compiled(x, cache)


if __name__ == "__main__":
    calls()
