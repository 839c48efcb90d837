"""Conditions that condition-without-read leaves alone, and what it writes for the others."""

from __future__ import annotations

import textwrap

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import RECIPES
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

(RECIPE,) = (recipe for recipe in RECIPES if recipe.name == "condition-without-read")


def program(body: str) -> str:
    return "import torch\n\n\ndef f(x, c, k):\n" + textwrap.indent(body, "    ") + "\n"


def edit(text: str, pointed: str | None = None) -> Edit:
    lines = text.splitlines()
    number = next(number for number, line in enumerate(lines, 1) if line.lstrip().startswith(("if", "y =")))
    columns = None
    if pointed is not None:
        start = lines[number - 1].index(pointed) + 1
        columns = (start, start + len(pointed))
    return RECIPE.edit(place_in(text, "GD103", number, columns))


@for_each(
    "before, after",
    [
        ("if c.item() > 1:\n    x = x * 2", "x = torch.where(c > 1, x * 2, x)"),
        ("if float(c) > 1:\n    x.mul_(k)", "condition = c > 1\nx.mul_(torch.where(condition, k, 1))"),
        ("if (c + 1).item() > k:\n    x = x * 2", "x = torch.where((c + 1) > k, x * 2, x)"),
        ("if (c > 1).any().item():\n    x = x * 2", "x = torch.where((c > 1).any(), x * 2, x)"),
        ("if c.max().item() > c.min().item():\n    x = x * 2", "x = torch.where(c.max() > c.min(), x * 2, x)"),
        (
            "n = c.norm().item()\nif n > 1:\n    x = x / n",
            "n = c.norm().item()\nx = torch.where(c.norm() > 1, x / n, x)",
        ),
    ],
)
def test_the_tensor_is_what_the_condition_asks_about(before: str, after: str) -> None:
    edited = edit(program(before))
    assert edited.content.decode() == program(after)
    assert not edited.is_safe


def test_the_title_names_the_read() -> None:
    found = edit(program("if c.item() > 1:\n    x = x * 2"), "c.item()")
    assert found.title == "Choose `x` with `torch.where`, without reading `c.item()`"


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        ("y = c.item()\nif y > 1:\n    x = x * 2", "c.item()"),
        ("y = 1 if c.item() > 1 else 2", "c.item()"),
        ("if c > 1:\n    x = x * 2", None),
        ("if c.add_(1).item() > 1:\n    x = x * 2", None),
        ("if c.item() > 1:\n    k.append(x)", None),
    ]
    assert outcomes(lambda body, pointed: edit(program(body), pointed), cases) == snapshot
