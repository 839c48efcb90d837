"""remove-graph-break: what it writes beyond its cases, and what it declines."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import remove_graph_break
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

CALL = "torch._dynamo.graph_break()"


def written(text: str, *, has_columns: bool = True) -> str:
    """The file where torch points to the first call."""
    text = dedent(text)
    number, line = next((number, line) for number, line in enumerate(text.split("\n"), 1) if "graph_break" in line)
    start = line.index(CALL) + 1 if CALL in line else None
    columns = (start, start + len(CALL)) if start and has_columns else None
    code = remove_graph_break.edit(place_in(text, "GD107", number, columns)).content.decode()
    ast.parse(code)
    return code


@for_each("has_columns", [True, False])
@for_each(
    "before, after",
    [
        (f"def f(x):\n    {CALL}\n    return x\n", "def f(x):\n    return x\n"),
        (f"def f(x):\n    if x:\n        {CALL}\n    return x\n", "def f(x):\n    if x:\n        pass\n    return x\n"),
        (f"def f(x):\n    if x: {CALL}  # c\n    return x\n", "def f(x):\n    if x: pass  # c\n    return x\n"),
        (f"def f(x): {CALL}\n", "def f(x): pass\n"),
        (f"class A:\n    @d\n    def f(x):\n\n        {CALL}\n", "class A:\n    @d\n    def f(x):\n\n        pass\n"),
        (
            f"def f(x):\n    x = 1\n    # why\n\n    {CALL}  # now\n    # end\ny = 2\n",
            "def f(x):\n    x = 1\n    # why\n    # end\ny = 2\n",
        ),
        (
            f"def f(x):\n    # why\n    {CALL}\n\n    # next\n    with x: pass\n",
            "def f(x):\n    # why\n\n    # next\n    with x: pass\n",
        ),
    ],
)
def test_written(before: str, after: str, has_columns: bool) -> None:
    assert written(before, has_columns=has_columns) == after


@for_each(
    "before, after",
    [
        (f"a = 1; {CALL}", "a = 1"),
        (f"{CALL}; a = 1", "a = 1"),
        (f"a = 1; {CALL}; b = 2;", "a = 1; b = 2;"),
        (f"a = 1; {CALL};  # c", "a = 1;  # c"),
        (f"if x: a = 1; {CALL}", "if x: a = 1"),
    ],
)
def test_one_line_with_several_statements(before: str, after: str) -> None:
    assert written(f"def f(x):\n    {before}\n    return x\n") == f"def f(x):\n    {after}\n    return x\n"
    with pytest.raises(DeclinedError):
        written(f"def f(x):\n    {before}\n    return x\n", has_columns=False)


def test_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "def f(x):\n    y = torch._dynamo.graph_break()\n",
        "def f(x):\n    g(torch._dynamo.graph_break())\n",
        "def f(x):\n    return lambda: torch._dynamo.graph_break()\n",
        "def f(x):\n    library(graph_break=1)\n",
        "def f(x):\n    if torch._dynamo.graph_break():\n        pass\n",
        "torch._dynamo.graph_break()\n",
    ]
    assert outcomes(written, cases) == snapshot
