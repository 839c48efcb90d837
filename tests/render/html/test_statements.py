"""Functions and the lines of their own statements."""

from __future__ import annotations

import dis
import warnings
from itertools import chain
from pathlib import Path
from types import CodeType

import pytest

from graphdoctor.views.html import statements
from graphdoctor.views.html.statements import SourceFile
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


def texts(numbers: set[int]) -> list[str]:
    return [LINES[number - 1].strip() for number in sorted(numbers)]


def behind(text: str) -> list[str]:
    source = SourceFile(TEXT)
    return texts(source.lines_after(source.functions[0], line_of(text)))


AFTER_TRY = [
    "@functools.cache",
    "def inner(z):",
    "with open(x) as file:",
    'print("e")',
    "match y:",
    "case 1 if (",
    "x",
    'print("f")',
    "y = 1",
    "case _:",
    "y = 2",
    "return [",
    "inner(part) for part in y",
    "]",
]
FROM_TRY = [
    "try:",
    'print("c")',
    "y = y + 5",
    "except ValueError:",
    'print("d")',
    "y = y + 6",
    "except KeyError:",
    "y = y + 7",
    "y = y + 8",
    "y = y + 9",
    *AFTER_TRY,
]
LOOP = ["for i in range(3):", "y = y + i", 'print("b")', "y = y - i", "y = -y"]


def test_own_lines_are_those_with_code_that_runs_in_the_frame():
    source = SourceFile(TEXT)
    first = ["y = x.sin()", "if y:", "y = y + 1", 'print("a")', "y = (", "y", "- 1", ")"]
    branches = ["elif x:", "y = y * 2", "y = y * 3"]
    assert texts(source.own_lines(source.functions[0])) == [*first, *branches, *LOOP, *FROM_TRY]


@for_each(
    "text, expected",
    [
        ('print("a")', ["y = (", "y", "- 1", ")", *LOOP, *FROM_TRY]),
        ("y = y * 2", [*LOOP, *FROM_TRY]),
        ('print("b")', ["y = y - i", "y = -y", *FROM_TRY]),
        ("y = -y", FROM_TRY),
        ("for i in range(3)", [*LOOP[1:], *FROM_TRY]),
        ('print("c")', FROM_TRY[2:]),
        ('print("d")', ["y = y + 6", "y = y + 9", *AFTER_TRY]),
        ("except KeyError", ["y = y + 7", "y = y + 9", *AFTER_TRY]),
        ("y = y + 8", ["y = y + 9", *AFTER_TRY]),
        ("y = y + 9", AFTER_TRY),
        ("return z + 1", AFTER_TRY[2:]),
        ('print("e")', AFTER_TRY[4:]),
        ('print("f")', ["y = 1", *AFTER_TRY[-3:]]),
        ("y = 2", AFTER_TRY[-3:]),
        ("return [", []),
    ],
)
def test_lines_behind_a_line(text, expected):
    assert behind(text) == expected


def test_a_function_begins_at_its_decorators_and_knows_what_is_around_it():
    forward, inner, halve = SourceFile(TEXT).functions
    assert (forward.name, forward.first_line, forward.line) == ("forward", 5, 6)
    assert (inner.outermost, inner.class_lines) == (5, (4,))
    assert (halve.name, halve.line) == ("<lambda>", line_of("halve ="))


def test_functions_are_found_by_line_and_by_name():
    source = SourceFile(TEXT)
    forward, inner, _ = source.functions
    assert source.around(line_of("return z + 1")) == inner
    assert source.named("forward", line_of("return z + 1")) == forward
    assert source.around(1) is None
    assert source.named("backward", 6) is None


@for_each("text", ["%matplotlib inline\n", "x = '\0'\n", "(" * 5000 + ")" * 5000])
def test_what_is_not_python_is_a_syntax_error(text):
    with pytest.raises(SyntaxError):
        SourceFile(text)


def test_a_deep_tree_is_refused_rather_than_fatal():
    with pytest.raises(SyntaxError):
        SourceFile("x = " + " + ".join(["y"] * 5000))


def test_pythons_warnings_about_a_file_are_not_ours_to_give():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SourceFile("x = '\\d' is 3\n")
    assert caught == []


def _codes(code: CodeType):
    yield code
    yield from chain.from_iterable(_codes(item) for item in code.co_consts if isinstance(item, CodeType))


@for_each("path", [Path(statements.__file__), REPOSITORY / "graphdoctor" / "trace" / "intake.py"])
def test_own_lines_hold_every_line_that_pythons_own_compiler_gives_code(path):
    text = path.read_text()
    source = SourceFile(text)
    codes = {(code.co_name, code.co_firstlineno): code for code in _codes(compile(text, str(path), "exec"))}
    checked = 0
    for function in source.functions:
        code = codes[function.name, function.first_line]
        if function.body:
            lines = {line for _, line in dis.findlinestarts(code) if line is not None and line != code.co_firstlineno}
            assert lines <= source.own_lines(function), function.name
            checked += 1
    assert checked > 10
