"""Edited programs give the same results and gradients, whichever way they go, and raise where they
raised."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch

from graphdoctor.fixes.moves.drop import check_in_graph
from graphdoctor.fixes.moves.registry import RECIPES
from graphdoctor.fixes.recipe import Recipe
from tests.each import for_each
from tests.fixes.recipes.places import cases, mended, place_of

_NAMES = (
    "condition-without-read",
    "drop",
    "remove-disable",
    "remove-graph-break",
    "report-apart",
    "select",
)


def _program(text: bytes, path: Path = Path("model.py")) -> Callable[..., Any]:
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
    yield from (
        line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno
    )
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines_of(constant)


def _run(program: Callable[..., Any], x: torch.Tensor) -> tuple[Any, torch.Tensor | None]:
    x = x.clone().requires_grad_()
    out = program(x)
    out.sum().backward()
    return out, x.grad


@pytest.mark.slow
@for_each("name", _NAMES)
def test_results_and_gradients_stay_whichever_way_is_taken(name):
    recipe = next(recipe for recipe in RECIPES if recipe.name == name)
    for path in cases(name):
        # What leaves early goes where inputs show that the rest gives the same.
        if not recipe.edit(place_of(path)).reached and _takes_a_tensor(path):
            _check(recipe, path)


def _takes_a_tensor(path: Path) -> bool:
    program = _program(path.read_bytes(), path)
    return len(inspect.signature(program).parameters) == 1


def _check(recipe: Recipe, path: Path) -> None:
    is_safe = recipe.edit(place_of(path)).is_safe
    bad, fixed = _program(path.read_bytes(), path), _program(mended(recipe, path))
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
    function = type(bad).forward if isinstance(bad, torch.nn.Module) else bad
    assert seen >= set(_lines_of(function.__code__)), f"{path}: some way was never taken"


def _checked() -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
    for path in cases(check_in_graph.name):
        yield _program(path.read_bytes()), _program(mended(check_in_graph, path))


def test_good_input_gives_the_same_and_bad_input_still_raises():
    for bad, fixed in _checked():
        for x in (torch.ones(4, 8), -torch.ones(4, 8), torch.randn(4, 8)):
            torch.testing.assert_close(_run(fixed, x), _run(bad, x))
        too_large = torch.full((4, 8), 1e9)
        with pytest.raises((ValueError, RuntimeError, AssertionError)) as raised:
            bad(too_large)
        with pytest.raises(raised.type, match=re.escape(str(raised.value))) as raised_after:
            fixed(too_large)
        assert raised_after.type is raised.type


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_the_check_is_in_the_one_graph_and_raises_there(backend):
    for _, fixed in _checked():
        torch.compiler.reset()
        compiled = torch.compile(fixed, backend=backend, fullgraph=True)
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
        # Inductor adds up in another order.
        torch.testing.assert_close(_run(compiled, x), _run(fixed, x), rtol=1e-4, atol=1e-4)
        with pytest.raises(RuntimeError):
            compiled(torch.full((4, 8), 1e9))
