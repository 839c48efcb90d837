"""Branches that tuple-where leaves alone."""

from __future__ import annotations

import textwrap

from graphdoctor.fixes.recipes import tuple_where
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of


def edited(body: str) -> str:
    lines = textwrap.indent(body, "    ")
    text = f"import torch\n\n\ndef f(a, b, c):\n{lines}\n"
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if"))
    content = tuple_where.edit(place_in(text, "GD102", line)).content.decode()
    return textwrap.dedent(content.partition("c):\n")[2]).strip()


def test_a_named_condition_is_used_as_it_is() -> None:
    after = edited("bad = a > b\nif bad: a, b = b, a * 2")
    assert after == "bad = a > b\na, b = torch.where(bad, b, a), torch.where(bad, a * 2, b)"


@for_each(
    "body, reason",
    [
        ("if a > b:\n    a, b = b, a\nelse:\n    a = c", "it isn't an `if` with a single branch"),
        ("if a > b:\n    a, b = c", "the branch does more than set several names at once"),
        ("if a > b:\n    a, *b = b, a", "the branch does more than set several names at once"),
        ("if a > b:\n    a, c.x = b, a", "the branch does more than set several names at once"),
        ("if a > b:\n    a, b = b, a\n    c = a", "the branch does more than set several names at once"),
        ("if a > b:\n    a, d = b, a\nreturn d", "`d` may have no value if the branch isn't taken"),
        ("if a > b:\n    a, b = None, a", "a branch yields `None`, not a tensor"),
        ("if a is b:\n    a, b = b, a", "part of the condition is about Python objects, not tensors"),
    ],
)
def test_it_declines(body: str, reason: str) -> None:
    assert reason_of(lambda: edited(body)) == reason
