"""What a guard around output is sure of."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import guard_output
from tests.fixes.recipes.places import outcomes, place_in


def program(line: str) -> str:
    return f"import torch\n\ndef forward(x, it, log):\n    {line}\n    return x\n"


def test_output_whose_arguments_change_something_is_unsafe(snapshot: SnapshotAssertion) -> None:
    cases = [
        "print(tuple(x.shape), len(it))",
        "print(it['a'](x), it()())",
        "print(next(it))",
        "print(f'{it.pop()}')",
        "log.info('%s', [item for item in it.read()])",
    ]
    assert outcomes(lambda line: guard_output.edit(place_in(program(line), "GD101", 4)).is_safe, cases) == snapshot


def test_another_function_s_call_is_unsafe() -> None:
    assert not guard_output.edit(place_in(program("it.save(x)"), "GD105", 4)).is_safe


def test_what_does_more_than_speak_is_declined(snapshot: SnapshotAssertion) -> None:
    cases = ["y = print(x)", "print(y := x)", "log.setLevel(10)", "if x: print(x); x = x + 1"]
    assert outcomes(lambda line: guard_output.edit(place_in(program(line), "GD101", 4)), cases) == snapshot
