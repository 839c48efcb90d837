"""Which of several models is the smallest, without allocating their parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch


def by_size(names: Iterable[str], build: Callable[[str], Any]) -> list[str]:
    """Names of models, the one with the fewest parameters first; without those that can't be built.

    Raises:
        Exception: What the first raised, if none can be built.
    """
    counts: dict[str, int] = {}
    first: Exception | None = None
    for name in names:
        try:
            counts[name] = _parameter_count(build, name)
        except Exception as error:  # noqa: BLE001
            first = first or error
    if first is not None and not counts:
        raise first
    return sorted(counts, key=lambda name: counts[name])


def _parameter_count(build: Callable[[str], Any], name: str) -> int:
    try:
        with torch.device("meta"):
            model = build(name)
    except Exception:  # noqa: BLE001 - it computes with other tensors while it is built
        with _parameters_on_meta():
            model = build(name)
    return sum(parameter.numel() for parameter in model.parameters())


@contextlib.contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Keep no parameter's memory longer than until its module has it, and let all other tensors be."""
    register = torch.nn.Module.register_parameter

    def registered(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter | None) -> None:
        if parameter is not None:
            parameter = torch.nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    torch.nn.Module.register_parameter = registered  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register  # type: ignore[method-assign]
