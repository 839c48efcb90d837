"""Branches that report-apart leaves alone, and what it writes for the others."""

from __future__ import annotations

import textwrap

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import RECIPES
from tests.fixes.recipes.places import outcomes, place_in

(RECIPE,) = (recipe for recipe in RECIPES if recipe.name == "report-apart")


def program(body: str) -> str:
    return "import torch\n\n\ndef f(x, c):\n" + textwrap.indent(body, "    ") + "\n"


def edit(body: str) -> Edit:
    text = program(body)
    number = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if c"))
    return RECIPE.edit(place_in(text, "GD102", number))


def test_the_rest_is_fixed_as_a_branch_of_its_own() -> None:
    found = edit("if c > 1:\n    print('large')\n    x = x / c\nreturn x")
    report = "if not torch.compiler.is_compiling() and c > 1:\n    print('large')\n"
    after = report + "x = torch.where(c > 1, x / c, x)\nreturn x"
    assert found.content.decode() == program(after)
    assert found.drops_output
    assert not found.is_safe


def test_the_branch_that_is_meant_is_found_among_equal_ones() -> None:
    before = "if c > 1:\n    print(1)\n    x = x / c\nif c > 1:\n    print(2)\n    x = x * c\nreturn x"
    place = place_in(program(before), "GD102", 8)
    after = RECIPE.edit(place).content.decode()
    assert after.count("if c > 1:") == 1
    assert "torch.where(c > 1, x * c, x)" in after


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if c > 1:\n    x = x / c\n    print(x)\nreturn x",
        "if c > 1:\n    print(x)\nreturn x",
        "if c > 1: print(x); x = c\nreturn x",
        "if c > 1:\n    print(x)\n    x = c\nelse:\n    x = 2\nreturn x",
        "if c > (n := 1):\n    print(x)\n    x = n\nreturn x",
        "if c > 1:\n    print(x)\n    x.append(1)\nreturn x",
    ]
    assert outcomes(edit, cases) == snapshot
