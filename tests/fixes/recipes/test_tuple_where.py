"""Branches that tuple-where leaves alone."""

from __future__ import annotations

import textwrap

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import tuple_where
from tests.fixes.recipes.places import outcomes, place_in


def edited(body: str) -> str:
    lines = textwrap.indent(body, "    ")
    text = f"import torch\n\n\ndef f(a, b, c):\n{lines}\n"
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if"))
    content = tuple_where.edit(place_in(text, "GD102", line)).content.decode()
    return textwrap.dedent(content.partition("c):\n")[2]).strip()


def test_a_named_condition_is_used_as_it_is() -> None:
    after = edited("bad = a > b\nif bad: a, b = b, a * 2")
    assert after == "bad = a > b\na, b = torch.where(bad, b, a), torch.where(bad, a * 2, b)"


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if a > b:\n    a, b = b, a\nelse:\n    a = c",
        "if a > b:\n    a, b = c",
        "if a > b:\n    a, *b = b, a",
        "if a > b:\n    a, c.x = b, a",
        "if a > b:\n    a, b = b, a\n    c = a",
        "if a > b:\n    a, d = b, a\nreturn d",
        "if a > b:\n    a, b = None, a",
        "if a is b:\n    a, b = b, a",
    ]
    assert outcomes(edited, cases) == snapshot
