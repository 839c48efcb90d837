"""The programs that recipes edit for their control flow give the same results and gradients, whichever way they go."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes import RECIPES
from tests.each import for_each
from tests.fixes.recipes.places import cases, mended, place_of

_NAMES = (
    "branch-where",
    "condition-without-read",
    "drop-empty-check",
    "no-grad-for-inference-mode",
    "remove-disable",
    "remove-graph-break",
    "report-apart",
    "tuple-where",
)


def _program(path: Path, text: bytes) -> Callable[..., Any]:
    """The target as graphdoctor would take it, with the same weights each time."""
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, str(path), "exec"), names)
    return names["Net"]() if "Net" in names else names["forward"]


def _inputs(*, is_safe: bool) -> Iterator[torch.Tensor]:
    yield torch.ones(4, 8)
    yield -torch.ones(4, 8)
    yield torch.full((4, 8), 0.01)
    yield torch.full((4, 8), -0.01)
    for seed in range(4):
        yield torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))
    if is_safe:
        # The edges of what is defined: only a fix that is called safe must stand them.
        yield torch.zeros(4, 8)
        yield torch.full((4, 8), 1e30)


def _lines_of(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines_of(constant)


def _run(program: Callable[..., Any], x: torch.Tensor) -> tuple[Any, torch.Tensor | None]:
    x = x.clone().requires_grad_()
    out = program(x)
    out.sum().backward()
    return out, x.grad


@for_each("name", _NAMES)
def test_results_and_gradients_stay_whichever_way_is_taken(name: str) -> None:
    recipe = next(recipe for recipe in RECIPES if recipe.name == name)
    for path in cases(name):
        _check(recipe, path)


def _check(recipe: Recipe, path: Path) -> None:
    is_safe = recipe.edit(place_of(path)).is_safe
    bad, fixed = _program(path, path.read_bytes()), _program(path.with_suffix(".mended"), mended(recipe, path))
    seen: set[int] = set()

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename != str(path):
            return None
        seen.add(frame.f_lineno)
        return trace

    for x in _inputs(is_safe=is_safe):
        sys.settrace(trace)
        try:
            expected = _run(bad, x)
        finally:
            sys.settrace(None)
        torch.testing.assert_close(_run(fixed, x), expected)
    if recipe.name == "no-grad-for-inference-mode":
        return  # the way that no input takes is what goes
    function = type(bad).forward if isinstance(bad, torch.nn.Module) else bad
    assert seen >= set(_lines_of(function.__code__)), f"{path}: some way was never taken"
