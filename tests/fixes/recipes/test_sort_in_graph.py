"""Sorts that sort-in-graph leaves alone, and what it writes for the others."""

from __future__ import annotations

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import sort_in_graph
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of


def edit(line: str, columns: tuple[int, int] | None = None) -> Edit:
    return sort_in_graph.edit(place_in(f"import torch\n{line}\n", "GD123", 2, columns))


@for_each(
    "line, reason",
    [
        ("y = max(x)", "the line doesn't call `sorted` or `sort` exactly once"),
        ("y = sorted(x) + sorted(z)", "the line doesn't call `sorted` or `sort` exactly once"),
        ("model.parts.sort()", "the line doesn't call `sorted` or `sort` exactly once"),
        ("if sorted(x): pass", "the line begins a compound statement"),
        ("y = sorted()", "it doesn't say what it sorts"),
        ("y = sorted(*x)", "it doesn't say what it sorts"),
        ("y = sorted(x.values())", "what it sorts isn't a list"),
        ("y = sorted(a for a in x)", "what it sorts isn't a list"),
        ("y = sorted([])", "what it sorts is empty"),
        ("y = sorted(x, key=abs)", "it sorts by a key"),
        ("y = sorted(x, **options)", "it sorts by a key"),
        ("x.sort(key=abs)", "it sorts by a key"),
        ("y = x.sort()", "what it sorts isn't a variable"),
    ],
)
def test_it_declines(line: str, reason: str) -> None:
    assert reason_of(lambda: edit(line)) == reason


@for_each(
    "line, written",
    [
        ("low, high = sorted((a, b))", "low, high = torch.stack((a, b)).sort().values"),
        ("low = sorted([a, b])[0]  # the first", "low = torch.stack([a, b]).sort().values[0]  # the first"),
        ("low = sorted([a, b])[:1]", "low = list(torch.stack([a, b]).sort().values)[:1]"),
        ("y = sorted([i.sum() for i in x])", "y = list(torch.stack([i.sum() for i in x]).sort().values)"),
        ("y = sorted(x, reverse=flag)", "y = list(torch.stack(x).sort(descending=flag).values)"),
        ("x.sort(reverse=True); y = x", "x[:] = list(torch.stack(x).sort(descending=True).values); y = x"),
    ],
)
def test_it_sorts_in_the_graph(line: str, written: str) -> None:
    columns = (1, line.index(";") + 1) if ";" in line else None
    assert edit(line, columns).content.decode() == f"import torch\n{written}\n"


def test_torchs_columns_tell_which_sort_is_meant() -> None:
    result = edit("y = sorted(x) + sorted(z)", (17, 26)).content.decode()
    assert result == "import torch\ny = sorted(x) + list(torch.stack(z).sort().values)\n"


def test_newlines_and_tabs_stay_and_torch_is_imported() -> None:
    place = place_in("def f(x):\r\n\ta, b = sorted(x)\r\n\treturn a\r\n", "GD123", 2)
    assert sort_in_graph.edit(place).content.decode() == (
        "import torch\r\ndef f(x):\r\n\ta, b = torch.stack(x).sort().values\r\n\treturn a\r\n"
    )


def test_it_needs_judgement() -> None:
    assert not edit("y = sorted(x)").is_safe
