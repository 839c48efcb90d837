"""Loops and their edits give the same results and gradients on sizes that are drawn, with a NaN in a
row as well.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixes.moves.test_vectorize import LOOPS, edited, program


def tensors(text: str, sizes: dict[str, int]) -> torch.Tensor:
    """Draw what an annotation in ``loops.py`` describes."""
    kind, *words = text.split()
    bound = sizes.get(words[-1]) or (int(words[-1]) if words[-1].isdigit() else 0)
    names = words[: next((words.index(sign) for sign in ("<", "<=") if sign in words), None)]
    shape = [sizes.get(name) or int(name) for name in names] if kind != "s" else []
    match kind:
        case "f":
            return torch.randn(shape)
        case "i":
            return torch.randint(0, bound, shape)
        case "n":
            return torch.randint(0, bound + 1, shape)
        case "b":
            return torch.rand(shape) > 0.5
        case "p":
            return torch.rand(shape).argsort(-1)
    cuts = torch.randint(0, sizes["P"] + 1, (sizes["B"] - 1,)).sort().values
    return torch.diff(torch.cat([torch.tensor([0]), cuts, torch.tensor([sizes["P"]])]))


BRANCHES = {"box_areas", "clamped", "selected_scores"} | {*("three_ways", "valid_loss")}
"""Where a row with a NaN has a gradient of NaN although no result takes it, or another of several
equal gradients. In torch 2.14, ``clamp`` by a tensor gives a NaN the gradient NaN, by a number 0."""


def results(text: str, name: str, sizes: dict[str, int], seed: int, bad: bool) -> list[Any]:
    """Run a program; return its results and the gradients of its inputs and parameters."""
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec", dont_inherit=True), names)
    torch.manual_seed(seed)
    made = names[name]
    function = made() if isinstance(made, type) else made
    annotations = (function.forward if isinstance(made, type) else function).__annotations__
    torch.manual_seed(seed + 1)
    inputs = [tensors(annotation, sizes) for annotation in annotations.values()]
    leaves = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    if bad and leaves and name not in BRANCHES:
        with torch.no_grad():
            leaves[0].view(-1)[seed % leaves[0].numel()] = float("nan")
    leaves += list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    out = function(*inputs)
    out = out if isinstance(out, tuple) else (out,)
    totals = [x.float().cos().sum() for x in out if isinstance(x, torch.Tensor) and x.requires_grad]
    grads = (
        torch.autograd.grad(sum(totals), leaves, allow_unused=True, materialize_grads=True)
        if totals
        else [torch.zeros_like(leaf) for leaf in leaves]
    )
    return [torch.as_tensor(x) for x in (*out, *grads)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LOOPS if edited(name)[1]])
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.fixed_dictionaries(
        {**{key: st.integers(1, 5) for key in "BCDHWTP"}, "N": st.integers(1, 9)}
    ),
    seed=st.integers(0, 10**6),
    bad=st.booleans(),
)
def test_loop_and_its_edit_agree(name, sizes, seed, bad):
    try:
        before = results(program(name), name, sizes, seed, bad)
    except (RuntimeError, IndexError):
        return  # such as an empty maximum
    after = results(edited(name)[1], name, sizes, seed, bad)
    assert len(before) == len(after)
    for was, now in zip(before, after, strict=True):
        assert was.dtype == now.dtype or was.dim() == 0
        torch.testing.assert_close(now, was, equal_nan=True, check_dtype=False)
