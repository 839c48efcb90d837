"""What own-function leaves alone, and what it keeps of the text."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.diagnosis import Location
from graphdoctor.fixes.recipes import own_function
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in


def edited(text: str, code: str = "GD111") -> str:
    """The text after the edit for the line with ``print`` or, without one, ``with``."""
    return own_function.edit(place_in(text, code, line_of(text))).content.decode()


def line_of(text: str) -> int:
    lines = text.splitlines()
    return next(number for word in ("print", "with ") for number, line in enumerate(lines, 1) if word in line)


def declined(body: str, head: str = "def forward(x, n):") -> str:
    text = f"{head}\n" + "".join(f"    {line}\n" for line in body.splitlines())
    with pytest.raises(DeclinedError) as caught:
        edited(text)
    return caught.value.reason


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = x.sin()\nprint(y)\nreturn y",
        "with torch.no_grad():\n    y = x.sin()\n    print(y)\nreturn y.cos()",
        "for i in n:\n    x = x + i\n    print(x)\n    if i: return x\nreturn x.cos()",
        "for i in n:\n    print(x)\n    yield x\nx = x.cos()",
        "for i in n:\n    x = x + i\n    print(x)\n    y = x\n    if i: break\nreturn y",
        "for i in n:\n    print(x)\n    if i: continue\n    y = x.cos()\nreturn y",
        "for i in n:\n    x = x.sin()\n    print(locals())\nreturn x.cos()",
        "for i in n:\n    y = x + i\n    del y\n    print(x)\nreturn x.cos()",
        "for i in n:\n    print(i)\n    if i: y = x + i\nreturn y",
        "for i in n:\n    print(i)\n    if i == 0: h = x\n    h = h + 1\nx = x.cos()",
        "global h\nfor i in n:\n    print(i)\n    h = x + i\nreturn x.cos()",
        "f = lambda: x\nfor i in n:\n    x = x + i\n    print(f())\nreturn x.cos()",
        "fs = []\nfor i in n:\n    fs.append(lambda: x + i)\n    print(i)\nx = x.cos()\nreturn fs",
        "try:\n    print(x)\n    x = x.sin()\n    x.check()\nexcept ValueError:\n    x = x + 1",
        "with suppress(ValueError):\n    print(x)\n    x = x.sin()\n    x = x.check()\nreturn x",
        "for i in n: print(i)",
        '"""Doc."""\nfor i in n:\n    x = f(x, i)  # print\nreturn x',
    ]
    assert outcomes(declined, cases) == snapshot


def test_it_declines_outside_of_a_function() -> None:
    with pytest.raises(DeclinedError, match="the line isn't in a function"):
        edited("x = 1\nfor i in range(3):\n    x = x + i\n    print(x)\n")


@for_each("decorator", ["staticmethod", "classmethod"])
def test_it_declines_a_method_without_an_object(decorator: str) -> None:
    text = (
        f"class A:\n    @{decorator}\n    def f(x):\n        for i in x:\n            x = x + i\n            print(x)\n"
    )
    with pytest.raises(DeclinedError, match="a static or class method"):
        edited(text)


def test_it_declines_a_method_that_hides_its_object(snapshot: SnapshotAssertion) -> None:
    def result(line: str) -> object:
        text = f"class A:\n    {line}\n        for i in x:\n            y = i + 1\n            print(y)\n"
        return edited(text)

    cases = ["def f(*args):", "def f(self):\n        self = 1"]
    assert outcomes(result, cases) == snapshot


def test_super_works_in_a_method_and_is_declined_in_a_function() -> None:
    body = "for i in n:\n            y = super().f(i)\n            print(y)"
    assert "super().f(i)" in edited(f"class A:\n    def f(self, n):\n        {body}\n")
    with pytest.raises(DeclinedError, match="it calls `super`"):
        edited(f"class A:\n    def f(self, n):\n      def g():\n        {body}\n")


def test_a_loop_with_a_break_moves_as_a_whole() -> None:
    body = "    for i in n:\n        x = x + i\n        print(x)\n        if i: break\n"
    assert edited(f"def f(x, n):\n{body}    return x.cos()\n") == (
        f"def f(x, n):\n    x = _f_loop(n, x)\n    return x.cos()\n\n\ndef _f_loop(n, x):\n{body}    return x\n"
    )


def test_names_that_only_the_block_uses_stay_in_it() -> None:
    body = "        print(x)\n        y = x + 1\n        z = y + x\n"
    result = edited(f"def f(x):\n    try:\n{body}    finally:\n        g()\n    return z\n")
    assert "z = _f_attempt(x)" in result
    assert "def _f_attempt(x):\n    print(x)\n    y = x + 1\n    z = y + x\n    return z\n" in result


def test_what_the_next_turn_of_the_loop_reads_is_returned() -> None:
    body = "        print(i)\n        x = x + h\n        h = x.sin()\n"
    assert "x, h = _f_step(i, x, h)" in edited(f"def f(x, n):\n    h = x\n    for i in n:\n{body}    return x\n")


def test_a_name_that_is_taken_gets_a_number() -> None:
    text = "def _f_step(): ...\n\n\ndef f(x, n):\n    for i in n:\n        x = x + i\n        print(x)\n    return x\n"
    assert "x = _f_step_2(x, i)" in edited(text)


def test_a_block_in_one_line_moves(snapshot: SnapshotAssertion) -> None:
    text = "def f(x, n):\n    for i in n: x = x + i; print(x)\n    return x\n"
    assert edited(text) == snapshot


def test_a_break_in_a_called_function_is_found_by_the_block_that_the_rule_names() -> None:
    loop = "    for i in n:\n        x = x + i\n        show(x)\n"
    text = f"def show(x):\n    print(x)\n\n\ndef f(x, n):\n{loop}    return x\n"
    place = place_in(text, "GD111", 2)
    block = Location(file="model.py", line=6, function="f", note="the `for` that the break lies in")
    object.__setattr__(place, "finding", place.finding.model_copy(update={"related": (block,)}))
    assert "x = _f_step(x, i)" in own_function.edit(place).content.decode()


def test_moving_is_safe_and_drops_no_output() -> None:
    edit = own_function.edit(
        place_in("def f(x, n):\n    for i in n:\n        x = x + i\n        print(x)\n", "GD111", 4)
    )
    assert (edit.is_safe, edit.drops_output) == (True, False)
    assert edit.title == "Move the body of the `for` at line 2 into its own function"
