"""Branches that in-place-where leaves alone, and what it writes for the others."""

from __future__ import annotations

import textwrap

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import in_place_where
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of


def program(body: str) -> str:
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return "import torch\n\n\ndef f(x, grads, c, self):\n" + lines + "\n"


def edit(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if"))
    return in_place_where.edit(place_in(text, "GD102", line))


@for_each(
    "before, after",
    [
        ("if c > 1:\n    x.mul_(0.5)", "condition = c > 1\nx.mul_(torch.where(condition, 0.5, 1))"),
        (
            "bad = c > 1\nif bad:\n    self.total -= x.sum()",
            "bad = c > 1\nself.total -= torch.where(bad, x.sum(), 0)",
        ),
        ("bad = c > 1\nif bad:\n    x.zero_()", "bad = c > 1\nx.masked_fill_(bad, 0)"),
        ("bad = c > 1\nif bad: x.fill_(2.0)", "bad = c > 1\nx.masked_fill_(bad, 2.0)"),
        (
            "bad = c > 1\nif bad:\n    for g in grads:\n        if g.grad is not None:\n            g.grad.mul_(1 / c)",
            "bad = c > 1\namount = torch.where(bad, 1 / c, 1)\nfor g in grads:\n    if g.grad is not None:\n"
            "        g.grad.mul_(amount)",
        ),
        (
            "bad = c > 1\nif bad:\n    for g in grads:\n        g.mul_(1 / g.norm())",
            "bad = c > 1\nfor g in grads:\n    g.mul_(torch.where(bad, 1 / g.norm(), 1))",
        ),
        (
            "bad = c > 1\nif bad:\n    for g in grads:\n        c.add_(1)\n        g.mul_(1 / c)",
            "bad = c > 1\namount = torch.where(bad, 1, 0)\nfor g in grads:\n    c.add_(amount)\n"
            "    g.mul_(torch.where(bad, 1 / c, 1))",
        ),
        (
            "# why\nif not c.any():\n    # how\n    x /= 2",
            "# why\ncondition = ~c.any()\n# how\nx /= torch.where(condition, 2, 1)",
        ),
    ],
)
def test_the_change_does_nothing_if_the_condition_does_not_hold(before: str, after: str) -> None:
    assert edit(program(before)).content.decode() == program(after)


@for_each(
    "text, reason",
    [
        ("if c > 1:\n    x.mul_(2)\nelse:\n    x.mul_(3)", "it isn't an `if` with a single branch"),
        ("if c > 1:\n    y = x * 2\nreturn y", "`y` is used after the branch"),
        ("if c > 1:\n    y = x * 2", "the branch changes no tensor in place by an amount"),
        ("if c > 1:\n    x.clamp_(0)", "`clamp_` has no argument with which it changes nothing"),
        ("if c > 1:\n    print(x)", "the branch does more than change"),
        ("if c > 1:\n    x.mul_(*c)", "`mul_` takes arguments that the line doesn't show"),
        ("if c > 1:\n    x.add_(other=c)", "`add_` has no argument with which it changes nothing"),
        ("if c > 1:\n    x.add_(None)", "a branch yields `None`, not a tensor"),
        ("if c > 1:\n    x **= 2", "the branch does more than change tensors in place"),
        ("if c > 1:\n    if c > 2:\n        x.mul_(2)", "the branch does more than change tensors in place"),
        ("if c > 1:\n    for g in grads:\n        g.mul_(2)\n        break", "the branch does more than change"),
        ("if c is None:\n    x.mul_(2)", "part of the condition is about Python objects, not tensors"),
        ("if c > 1:  # why\n    x.mul_(2)", "a comment would be lost"),
    ],
)
def test_it_declines(text: str, reason: str) -> None:
    assert reason_of(lambda: edit(program(text))).startswith(reason)
