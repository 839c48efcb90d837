"""choose-at-return: what it writes beyond its case, and what it declines."""

from __future__ import annotations

from textwrap import dedent, indent

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import choose_at_return
from tests.fixes.recipes.places import outcomes, place_in

HEAD = "import torch\nclass Net:\n    def forward(self, x, y):\n"


def body(text: str) -> str:
    """What becomes of the method's body, whose first line torch points to."""
    whole = HEAD + indent(dedent(text).strip("\n"), " " * 8) + "\n"
    edited = choose_at_return.edit(place_in(whole, "GD102", 4)).content.decode()
    return dedent(edited.removeprefix(HEAD)).strip("\n")


def test_every_later_return_chooses() -> None:
    before = """
        if x.any(): return (x + 1)
        for z in y:
            if z is None:
                return y[0]
        f = lambda: 1
        def g():
            return 2
        print("late")
        return x if y else z
    """
    after = """
        is_early = x.any()
        early_value = x + 1
        for z in y:
            if z is None:
                return torch.where(is_early, early_value, y[0])
        f = lambda: 1
        def g():
            return 2
        print("late")
        return torch.where(is_early, early_value, x if y else z)
    """
    assert body(before) == dedent(after).strip("\n")


def test_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if x.any():\n    return x\nelse:\n    y = x\nreturn y",
        "if x.any():\n    y = x\n    return y\nreturn x",
        "if x.any():\n    return x, y\nreturn y, x",
        "if x.any():\n    return None\nreturn x",
        "if x.any():\n    return x\ny = x",
        "if x.any():\n    return x\nself.seen = y\nreturn y",
        "if x.any():\n    return x\nself.seen.append(y)\nreturn y",
        "if x.any():\n    return x\nz = self.seen.pop()\nreturn z",
        "if x.any():\n    return x\ny = y.add_(1)\nreturn y",
        "if x.any():\n    return x\nassert y\nreturn y",
        "if x.any():\n    return x\nif y:\n    return\nreturn y",
        "assert x.any()\nreturn y",
    ]
    assert outcomes(body, cases) == snapshot
