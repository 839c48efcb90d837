"""Sorts that sort-in-graph leaves alone, and what it writes for the others."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import sort_in_graph
from tests.fixes.recipes.places import outcomes, place_in


def edit(line: str, columns: tuple[int, int] | None = None) -> Edit:
    return sort_in_graph.edit(place_in(f"import torch\n{line}\n", "GD123", 2, columns))


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = max(x)",
        "y = sorted(x) + sorted(z)",
        "model.parts.sort()",
        "if sorted(x): pass",
        "y = sorted()",
        "y = sorted(*x)",
        "y = sorted(x.values())",
        "y = sorted(a for a in x)",
        "y = sorted([])",
        "y = sorted(x, key=abs)",
        "y = sorted(x, **options)",
        "x.sort(key=abs)",
        "y = x.sort()",
    ]
    assert outcomes(edit, cases) == snapshot


def test_it_sorts_in_the_graph(snapshot: SnapshotAssertion) -> None:
    def result(line: str) -> object:
        columns = (1, line.index(";") + 1) if ";" in line else None
        return edit(line, columns).content.decode()

    cases = [
        "low, high = sorted((a, b))",
        "low = sorted([a, b])[0]  # the first",
        "low = sorted([a, b])[:1]",
        "y = sorted([i.sum() for i in x])",
        "y = sorted(x, reverse=flag)",
        "x.sort(reverse=True); y = x",
    ]
    assert outcomes(result, cases) == snapshot


def test_torchs_columns_tell_which_sort_is_meant() -> None:
    result = edit("y = sorted(x) + sorted(z)", (17, 26)).content.decode()
    assert result == "import torch\ny = sorted(x) + list(torch.stack(z).sort().values)\n"


def test_newlines_and_tabs_stay_and_torch_is_imported() -> None:
    place = place_in("def f(x):\r\n\ta, b = sorted(x)\r\n\treturn a\r\n", "GD123", 2)
    assert sort_in_graph.edit(place).content.decode() == (
        "import torch\r\ndef f(x):\r\n\ta, b = torch.stack(x).sort().values\r\n\treturn a\r\n"
    )
