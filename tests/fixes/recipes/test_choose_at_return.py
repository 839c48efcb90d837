"""choose-at-return: what it writes beyond its case, and what it declines."""

from __future__ import annotations

from textwrap import dedent, indent

from graphdoctor.fixes.recipes import choose_at_return
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of

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


@for_each(
    "text, reason",
    [
        ("if x.any():\n    return x\nelse:\n    y = x\nreturn y", "the `if` has another branch"),
        ("if x.any():\n    y = x\n    return y\nreturn x", "the branch does more than return"),
        ("if x.any():\n    return x, y\nreturn y, x", "a branch yields several values or a container, not one tensor"),
        ("if x.any():\n    return None\nreturn x", "a branch yields `None`, not a tensor"),
        ("if x.any():\n    return x\ny = x", "the function doesn't end with a `return`"),
        ("if x.any():\n    return x\nself.seen = y\nreturn y", "the rest of the function stores into an object"),
        ("if x.any():\n    return x\nself.seen.append(y)\nreturn y", "calls something for its side effect"),
        ("if x.any():\n    return x\nz = self.seen.pop()\nreturn z", "the rest of the function changes an object"),
        ("if x.any():\n    return x\ny = y.add_(1)\nreturn y", "changes a tensor in place"),
        ("if x.any():\n    return x\nassert y\nreturn y", "the rest of the function may raise"),
        ("if x.any():\n    return x\nif y:\n    return\nreturn y", "a later `return` returns nothing"),
        ("assert x.any()\nreturn y", "no `return` depends on the condition"),
    ],
)
def test_declined(text: str, reason: str) -> None:
    assert reason in reason_of(lambda: body(text))
