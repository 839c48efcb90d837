"""What a guard around output is sure of."""

from __future__ import annotations

from graphdoctor.fixes.recipes import guard_output
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of


def program(line: str) -> str:
    return f"import torch\n\ndef forward(x, it, log):\n    {line}\n    return x\n"


@for_each(
    "line, is_safe",
    [
        ("print(tuple(x.shape), len(it))", True),
        ("print(it['a'](x), it()())", True),
        ("print(next(it))", False),
        ("print(f'{it.pop()}')", False),
        ("log.info('%s', [item for item in it.read()])", False),
    ],
)
def test_output_whose_arguments_change_something_is_unsafe(line: str, is_safe: bool) -> None:
    assert guard_output.edit(place_in(program(line), "GD101", 4)).is_safe == is_safe


def test_another_function_s_call_is_unsafe() -> None:
    assert not guard_output.edit(place_in(program("it.save(x)"), "GD105", 4)).is_safe


@for_each(
    "line, reason",
    [
        ("y = print(x)", "its result is used"),
        ("print(y := x)", "an argument of the call assigns a name"),
        ("log.setLevel(10)", "`log.setLevel` may do more than log"),
        ("if x: print(x); x = x + 1", "the line contains more than the call"),
    ],
)
def test_what_does_more_than_speak_is_declined(line: str, reason: str) -> None:
    assert reason_of(lambda: guard_output.edit(place_in(program(line), "GD101", 4))) == reason
