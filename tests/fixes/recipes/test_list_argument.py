"""Iterators that list-argument leaves alone, and what it writes for the others."""

from __future__ import annotations

from graphdoctor.fixes.recipes import list_argument
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of

CLIP = "def clip(parts, limit=1):\n    found = [part for part in parts]\n    return found\n\n\n"


def edited(text: str) -> str:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "for part in" in line)
    return list_argument.edit(place_in(text, "GD121", line)).content.decode()


@for_each(
    "call, listed",
    [
        ("clip(model.parameters())", "clip(list(model.parameters()))"),
        ("clip(limit=2, parts=zip(a, b))", "clip(limit=2, parts=list(zip(a, b)))"),
        ("clip((p.grad for p in ps), 2)", "clip([p.grad for p in ps], 2)"),
        ("clip(ps, 2) + clip(iter(ps))", "clip(ps, 2) + clip(list(iter(ps)))"),
    ],
)
def test_a_call_passes_a_list(call: str, listed: str) -> None:
    assert edited(CLIP + call + "\n") == CLIP + listed + "\n"


def test_a_method_has_its_object_first() -> None:
    text = "class A:\n    def f(self, parts):\n        for part in parts:\n            pass\n\n"
    text += "    def g(self):\n        self.f(CALL)\n"
    assert edited(text.replace("CALL", "self.children()")) == text.replace("CALL", "list(self.children())")


@for_each(
    "text, reason",
    [
        (CLIP + "clip(ps)\n", "no call in this file passes an iterator as `parts`"),
        (CLIP + "clip(*model.parameters())\n", "no call in this file passes an iterator as `parts`"),
        (CLIP + "other(model.parameters())\n", "no call in this file passes an iterator as `parts`"),
        (CLIP + "clip(ps, model.parameters())\n", "no call in this file passes an iterator as `parts`"),
        (CLIP.replace("in parts", "in parts.all()"), "the line doesn't loop over one variable"),
        (CLIP.replace("    found", "    parts = parts or ()\n    found"), "`parts` isn't an argument"),
        (CLIP.replace("for part in parts", "for part in limit for part in parts"), "the line doesn't loop over one"),
    ],
)
def test_it_declines(text: str, reason: str) -> None:
    assert reason_of(lambda: edited(text)).startswith(reason)
