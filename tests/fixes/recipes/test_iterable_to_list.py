"""Sets and iterators that iterable-to-list leaves alone, and what it writes for the others."""

from __future__ import annotations

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import iterable_to_list
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of

LOOP = "\n\ndef f(x):\n    for part in parts:\n        x = x + part\n    return x\n"


def edit(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "for part in" in line or "next(" in line)
    return iterable_to_list.edit(place_in(text, "GD122", line))


@for_each(
    "text, reason",
    [
        ("parts = {a, b}\nx = next(parts)\n", "the line doesn't loop over a variable or an attribute"),
        ("for part in {a, b}:\n    pass\n", "the line doesn't loop over a variable or an attribute"),
        ("for part in model.parts:\n    pass\n", "it's an attribute of another object"),
        (LOOP, "the file never sets `parts`"),
        ("parts = {a}\nparts = {b}\n" + LOOP, "the file sets `parts` more than once"),
        ("parts = others = {a}\n" + LOOP, "`parts` is set together with other names"),
        ("parts = {a}\nparts.add(b)\n" + LOOP, "line 2 does more than loop over `parts`"),
        ("parts = iter(a)\nfirst = parts.__next__()\n" + LOOP, "line 2 does more than loop over `parts`"),
        ("from other import parts\n" + LOOP, "line 1 does more than loop over `parts`"),
        (LOOP.replace("f(x)", "f(x, parts)"), "`parts` is an argument, so the caller creates it"),
        ("parts = load()\n" + LOOP, "`parts` isn't created by"),
        ("parts = {'a': 1}\n" + LOOP, "`parts` isn't created by"),
    ],
)
def test_it_declines(text: str, reason: str) -> None:
    assert reason_of(lambda: edit(text)).startswith(reason)


@for_each(
    "made, listed",
    [
        ("{a, b}", "[a, b]"),
        ("{*a}", "[*a]"),
        ("{a + i for i in b if i}", "[a + i for i in b if i]"),
        ("(a + i for i in b)", "[a + i for i in b]"),
        ("set(a)", "list(a)"),
        ("iter([1, 2])", "list([1, 2])"),
        ("enumerate(a, 1)", "list(enumerate(a, 1))"),
        ("map(f, a)", "list(map(f, a))"),
    ],
)
def test_it_becomes_a_list(made: str, listed: str) -> None:
    assert edit(f"parts: object = {made}\n{LOOP}").content.decode() == f"parts: object = {listed}\n{LOOP}"


def test_tabs_newlines_and_comments_stay() -> None:
    text = f"parts = {{\n\ta,  # one\n\tb,\n}}\n{LOOP}".replace("\n", "\r\n")
    result = edit(text).content.decode()
    assert result == text.replace("{", "[").replace("}", "]")


def test_other_things_of_the_same_name_do_not_matter() -> None:
    text = f"parts = {{a}}\nother.parts(parts=1)\n{LOOP}"
    assert "parts = [a]\nother.parts(parts=1)\n" in edit(text).content.decode()


def test_it_needs_judgement() -> None:
    found = edit(f"parts = {{a}}\n{LOOP}")
    assert (found.is_safe, found.title) == (False, "Make `parts` a list")
