"""Functions and the lines of their own statements."""

from __future__ import annotations

import dis
from itertools import chain
from pathlib import Path
from types import CodeType

from syrupy.assertion import SnapshotAssertion

from graphdoctor.views.html import statements
from graphdoctor.views.html.statements import parsed
from tests.conftest import REPOSITORY
from tests.each import for_each

TEXT = '''\
import functools


class Net:
    @functools.cache
    def forward(
        self,
        x,
    ):
        """Two
        lines."""
        y = x.sin()

        # a comment
        if y:
            y = y + 1
            print("a")
            y = (
                # another
                y

                - 1
            )
        elif x:
            y = y * 2
        else:
            y = y * 3
        for i in range(3):
            y = y + i
            print("b")
            y = y - i
        else:
            y = -y
        try:
            print("c")
            y = y + 5
        except ValueError:
            print("d")
            y = y + 6
        except KeyError:
            y = y + 7
        else:
            y = y + 8
        finally:
            y = y + 9

        @functools.cache
        def inner(z):
            return z + 1

        with open(x) as file:
            print("e")
        match y:
            case 1 if (
                x
            ):
                print("f")
                y = 1
            case _:
                y = 2
        return [
            inner(part) for part in y
        ]

    halve = staticmethod(lambda x: x / 2)
'''
LINES = TEXT.split("\n")


def line_of(text: str) -> int:
    (number,) = (number for number, line in enumerate(LINES, start=1) if text in line)
    return number


def test_a_functions_own_lines_and_those_behind_each_of_them(snapshot: SnapshotAssertion):
    source = parsed(TEXT)
    forward = source.functions[0]
    own = source.own_lines(forward)
    places = sorted({*own, line_of("except KeyError"), line_of("return z + 1")})
    behind = {number: sorted(source.lines_after(forward, number)) for number in places}
    told = [
        f"{number:2} {LINES[number - 1]}  # own {number in own}, then {ranges(behind[number])}"
        for number in places
    ]
    assert told == snapshot


def ranges(numbers: list[int]) -> str:
    """Numbers that follow each other as first-last."""
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    return ", ".join(f"{first}-{last}" for first, last in zip(starts, ends, strict=True))


def test_functions_are_found_by_line_and_name_with_their_surroundings():
    source = parsed(TEXT)
    forward, inner, halve = source.functions
    assert (forward.name, forward.first_line, forward.line) == ("forward", 5, 6)
    assert inner.surroundings == {4, *range(5, forward.end_line + 1)}
    assert (halve.name, halve.line) == ("<lambda>", line_of("halve ="))
    assert source.function_at(line_of("return z + 1")) == inner
    assert source.function_at(line_of("return z + 1"), "forward") == forward
    assert source.function_at(1) is None
    assert source.function_at(6, "backward") is None


def test_a_deep_tree_is_refused_rather_than_fatal():
    assert parsed("x = " + " + ".join(["y"] * 5000)) is None


def _codes(code: CodeType):
    yield code
    yield from chain.from_iterable(
        _codes(item) for item in code.co_consts if isinstance(item, CodeType)
    )


@for_each("path", [Path(statements.__file__), REPOSITORY / "graphdoctor" / "trace" / "intake.py"])
def test_own_lines_match_those_of_pythons_compiler(path):
    text = path.read_text()
    source = parsed(text)
    codes = {
        (code.co_name, code.co_firstlineno): code
        for code in _codes(compile(text, str(path), "exec"))
    }
    checked = 0
    for function in source.functions:
        code = codes[function.name, function.first_line]
        if function.body:
            lines = {
                line
                for _, line in dis.findlinestarts(code)
                if line is not None and line != code.co_firstlineno
            }
            assert lines <= source.own_lines(function), function.name
            checked += 1
    assert checked > 10
