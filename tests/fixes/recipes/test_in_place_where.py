"""Branches that in-place-where leaves alone, and what it writes for the others."""

from __future__ import annotations

import textwrap

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import in_place_where
from tests.fixes.recipes.places import outcomes, place_in


def program(body: str) -> str:
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return "import torch\n\n\ndef f(x, grads, c, self):\n" + lines + "\n"


def edit(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if"))
    return in_place_where.edit(place_in(text, "GD102", line))


def test_the_change_does_nothing_if_the_condition_does_not_hold(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if c > 1:\n    x.mul_(0.5)",
        "bad = c > 1\nif bad:\n    self.total -= x.sum()",
        "bad = c > 1\nif bad:\n    x.zero_()",
        "bad = c > 1\nif bad: x.fill_(2.0)",
        "bad = c > 1\nif bad:\n    for g in grads:\n        if g.grad is not None:\n            g.grad.mul_(1 / c)",
        "bad = c > 1\nif bad:\n    for g in grads:\n        g.mul_(1 / g.norm())",
        "bad = c > 1\nif bad:\n    for g in grads:\n        c.add_(1)\n        g.mul_(1 / c)",
        "# why\nif not c.any():\n    # how\n    x /= 2",
    ]
    assert outcomes(lambda before: edit(program(before)).content.decode(), cases) == snapshot


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if c > 1:\n    x.mul_(2)\nelse:\n    x.mul_(3)",
        "if c > 1:\n    y = x * 2\nreturn y",
        "if c > 1:\n    y = x * 2",
        "if c > 1:\n    x.clamp_(0)",
        "if c > 1:\n    print(x)",
        "if c > 1:\n    x.mul_(*c)",
        "if c > 1:\n    x.add_(other=c)",
        "if c > 1:\n    x.add_(None)",
        "if c > 1:\n    x **= 2",
        "if c > 1:\n    if c > 2:\n        x.mul_(2)",
        "if c > 1:\n    for g in grads:\n        g.mul_(2)\n        break",
        "if c is None:\n    x.mul_(2)",
        "if c > 1:  # why\n    x.mul_(2)",
    ]
    assert outcomes(lambda text: edit(program(text)), cases) == snapshot
