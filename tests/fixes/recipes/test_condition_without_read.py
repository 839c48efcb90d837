"""Conditions that condition-without-read leaves alone, and what it writes for the others."""

from __future__ import annotations

import textwrap

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import RECIPES
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


def test_the_tensor_is_what_the_condition_asks_about(snapshot: SnapshotAssertion) -> None:
    def result(before: str) -> object:
        edited = edit(program(before))
        return edited.content.decode()

    cases = [
        "if c.item() > 1:\n    x = x * 2",
        "if float(c) > 1:\n    x.mul_(k)",
        "if (c + 1).item() > k:\n    x = x * 2",
        "if (c > 1).any().item():\n    x = x * 2",
        "if c.max().item() > c.min().item():\n    x = x * 2",
        "n = c.norm().item()\nif n > 1:\n    x = x / n",
    ]
    assert outcomes(result, cases) == snapshot


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
