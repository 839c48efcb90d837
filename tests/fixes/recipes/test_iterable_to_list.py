"""Sets and iterators that iterable-to-list leaves alone, and what it writes for the others."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import iterable_to_list
from tests.fixes.recipes.places import outcomes, place_in

LOOP = "\n\ndef f(x):\n    for part in parts:\n        x = x + part\n    return x\n"


def edit(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "for part in" in line or "next(" in line)
    return iterable_to_list.edit(place_in(text, "GD122", line))


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "parts = {a, b}\nx = next(parts)\n",
        "for part in {a, b}:\n    pass\n",
        "for part in model.parts:\n    pass\n",
        LOOP,
        "parts = {a}\nparts = {b}\n" + LOOP,
        "parts = others = {a}\n" + LOOP,
        "parts = {a}\nparts.add(b)\n" + LOOP,
        "parts = iter(a)\nfirst = parts.__next__()\n" + LOOP,
        "from other import parts\n" + LOOP,
        LOOP.replace("f(x)", "f(x, parts)"),
        "parts = load()\n" + LOOP,
        "parts = {'a': 1}\n" + LOOP,
    ]
    assert outcomes(edit, cases) == snapshot


def test_it_becomes_a_list(snapshot: SnapshotAssertion) -> None:
    cases = [
        "{a, b}",
        "{*a}",
        "{a + i for i in b if i}",
        "(a + i for i in b)",
        "set(a)",
        "iter([1, 2])",
        "enumerate(a, 1)",
        "map(f, a)",
    ]
    assert outcomes(lambda made: edit(f"parts: object = {made}\n{LOOP}").content.decode(), cases) == snapshot


def test_tabs_newlines_and_comments_stay() -> None:
    text = f"parts = {{\n\ta,  # one\n\tb,\n}}\n{LOOP}".replace("\n", "\r\n")
    result = edit(text).content.decode()
    assert result == text.replace("{", "[").replace("}", "]")


def test_other_things_of_the_same_name_do_not_matter() -> None:
    text = f"parts = {{a}}\nother.parts(parts=1)\n{LOOP}"
    assert "parts = [a]\nother.parts(parts=1)\n" in edit(text).content.decode()
