"""Counts that bincount-to-scatter leaves alone, and what it writes for the others."""

from __future__ import annotations

from graphdoctor.fixes.recipes import bincount_to_scatter
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of


def edited(line: str) -> str:
    text = f"import torch\n\n\ndef f(x, w, n):\n    {line}\n"
    return bincount_to_scatter.edit(place_in(text, "GD104", 5)).content.decode().partition("n):\n")[2]


@for_each(
    "before, after",
    [
        ("return torch.bincount(x, minlength=n)", "    return x.new_zeros(n).scatter_add(0, x, torch.ones_like(x))\n"),
        ("return x.bincount(w, n)", "    return w.new_zeros(n).scatter_add(0, x, w)\n"),
        ("return x.bincount(None, n)", "    return x.new_zeros(n).scatter_add(0, x, torch.ones_like(x))\n"),
        (
            "return torch.bincount(x + 1, minlength=n + 1)",
            "    index = x + 1\n    return index.new_zeros(n + 1).scatter_add(0, index, torch.ones_like(index))\n",
        ),
    ],
)
def test_it_counts_into_as_many_places(before: str, after: str) -> None:
    assert edited(before) == after


@for_each(
    "line, reason",
    [
        ("return x.sum()", "the line doesn't contain a call to `bincount`"),
        ("return torch.bincount(x)", "`bincount` has no `minlength`"),
        ("return torch.bincount(x, **w)", "its arguments aren't supported"),
        ("return torch.bincount(x, w, n, out=w)", "its arguments aren't supported"),
        ("return torch.bincount(x, w + 1, n)", "the weights aren't a name"),
        ("x = 1; y = torch.bincount(x + 1, minlength=n)", "the call has no statement of its own"),
        ("if torch.bincount(x + 1, minlength=n).any(): pass", "the call has no statement of its own"),
    ],
)
def test_it_declines(line: str, reason: str) -> None:
    assert reason_of(lambda: edited(line)).startswith(reason)
