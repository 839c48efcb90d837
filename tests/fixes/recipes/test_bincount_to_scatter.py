"""Counts that bincount-to-scatter leaves alone, and what it writes for the others."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import bincount_to_scatter
from tests.fixes.recipes.places import outcomes, place_in


def edited(line: str) -> str:
    text = f"import torch\n\n\ndef f(x, w, n):\n    {line}\n"
    return bincount_to_scatter.edit(place_in(text, "GD104", 5)).content.decode().partition("n):\n")[2]


def test_it_counts_into_as_many_places(snapshot: SnapshotAssertion) -> None:
    cases = [
        "return torch.bincount(x, minlength=n)",
        "return x.bincount(w, n)",
        "return x.bincount(None, n)",
        "return torch.bincount(x + 1, minlength=n + 1)",
    ]
    assert outcomes(edited, cases) == snapshot


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "return x.sum()",
        "return torch.bincount(x)",
        "return torch.bincount(x, **w)",
        "return torch.bincount(x, w, n, out=w)",
        "return torch.bincount(x, w + 1, n)",
        "x = 1; y = torch.bincount(x + 1, minlength=n)",
        "if torch.bincount(x + 1, minlength=n).any(): pass",
    ]
    assert outcomes(edited, cases) == snapshot
