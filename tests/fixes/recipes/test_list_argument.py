"""Iterators that list-argument leaves alone, and what it writes for the others."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import list_argument
from tests.fixes.recipes.places import outcomes, place_in

CLIP = "def clip(parts, limit=1):\n    found = [part for part in parts]\n    return found\n\n\n"


def edited(text: str) -> str:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "for part in" in line)
    return list_argument.edit(place_in(text, "GD121", line)).content.decode()


def test_a_call_passes_a_list(snapshot: SnapshotAssertion) -> None:
    cases = [
        "clip(model.parameters())",
        "clip(limit=2, parts=zip(a, b))",
        "clip((p.grad for p in ps), 2)",
        "clip(ps, 2) + clip(iter(ps))",
    ]
    assert outcomes(lambda call: edited(CLIP + call + "\n"), cases) == snapshot


def test_a_method_has_its_object_first() -> None:
    text = "class A:\n    def f(self, parts):\n        for part in parts:\n            pass\n\n"
    text += "    def g(self):\n        self.f(CALL)\n"
    assert edited(text.replace("CALL", "self.children()")) == text.replace("CALL", "list(self.children())")


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        CLIP + "clip(ps)\n",
        CLIP + "clip(*model.parameters())\n",
        CLIP + "other(model.parameters())\n",
        CLIP + "clip(ps, model.parameters())\n",
        CLIP.replace("in parts", "in parts.all()"),
        CLIP.replace("    found", "    parts = parts or ()\n    found"),
        CLIP.replace("for part in parts", "for part in limit for part in parts"),
    ]
    assert outcomes(edited, cases) == snapshot
