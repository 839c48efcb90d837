"""What surrounds a line of source."""

from __future__ import annotations

import ast
import linecache
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.probe.record.sources import SourceReader

SOURCE = """\
import functools

TOP = 1


@functools.cache
def decorated(
    first,
    second=lambda y: y + 1,
):
    return first


class Net:
    limit = 3

    def forward(self, x):
        for index in range(3):
            try:
                with open(x) as file:
                    if index:
                        file.write(
                            "größe"
                        )
            except ValueError:
                pass
            else:
                index += 1
        while x:
            x = [part for part in x if part]
        match x:
            case 1:
                x = 2

        async def inner():
            async with x as y:
                async for z in y:
                    yield z
        return x

    halve = staticmethod(lambda x: x / 2)
"""


@pytest.fixture
def context(tmp_path: Path):
    file = tmp_path / "source.py"
    file.write_text(SOURCE, encoding="utf-8")
    reader = SourceReader()
    return lambda line, function=None: reader.context(str(file), line, function)


def line_of(text: str) -> int:
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


@pytest.mark.parametrize(
    ("text", "qualname", "function", "enclosing"),
    [
        ("TOP", "<module>", None, []),
        ("return first", "decorated", "def decorated", []),
        ("@functools.cache", "decorated", "def decorated", []),
        ("second=lambda", "decorated", "def decorated", []),
        ("limit = 3", "Net", None, []),
        ('"größe"', "Net.forward", "def forward", ["if", "with", "try", "for"]),
        ("except ValueError", "Net.forward", "def forward", ["try", "for"]),
        ("index += 1", "Net.forward", "def forward", ["try", "for"]),
        ("x = [part", "Net.forward", "def forward", ["while"]),
        ("x = 2", "Net.forward", "def forward", []),
        ("yield z", "Net.forward.inner", "async def inner", ["for", "with"]),
        ("return x\n", "Net.forward", "def forward", []),
        ("halve =", "Net", None, []),
    ],
)
def test_a_line_knows_its_function_and_its_blocks(
    context, text: str, qualname: str, function: str | None, enclosing: list[str]
) -> None:
    found = context(line_of(text))

    assert found.qualname == qualname
    assert found.function_line == (line_of(function) if function else None)
    assert [block.kind for block in found.enclosing] == enclosing


def test_the_name_of_the_code_tells_which_of_a_lines_functions_is_meant(context) -> None:
    assert context(line_of("halve ="), "<lambda>").qualname == "Net.<lambda>"
    assert context(line_of("second=lambda"), "<lambda>").qualname == "decorated.<lambda>"
    assert context(line_of("second=lambda"), "decorated").qualname == "decorated"
    blocks = context(line_of("x = [part"), "<listcomp>").enclosing
    assert [block.kind for block in blocks] == ["comprehension", "while"]
    # There is none of the kind: the line is as good as it gets.
    assert context(line_of("limit = 3"), "<genexpr>").qualname == "Net"


def test_a_statement_over_several_lines_is_whole_and_dedented(context) -> None:
    assert context(line_of('"größe"')).statement == 'file.write(\n    "größe"\n)'


def test_a_statement_in_a_case_is_the_statement_alone(context) -> None:
    assert context(line_of("x = 2")).statement == "x = 2"


def test_a_block_says_where_it_starts(context) -> None:
    innermost = context(line_of('"größe"')).enclosing[0]

    assert vars(innermost) == {"kind": "if", "line": line_of("if index:"), "text": "if index:"}


def test_a_long_statement_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("x = [\n" + "    1,\n" * 40 + "]\n")

    statement = SourceReader().context(str(file), 5).statement

    assert statement.count("\n") == 11


@pytest.mark.parametrize("content", ["def broken(:\n", "", "\x00", "x = 1\n" * 3])
def test_what_cannot_be_read_is_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "odd.py"
    file.write_text(content)

    assert SourceReader().context(str(file), 0) is None
    assert SourceReader().context(str(tmp_path / "absent.py"), 1) is None
    if "x" not in content:
        assert SourceReader().context(str(file), 1) is None


def test_a_place_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("x = 1\n")
    reader = SourceReader()
    assert reader.context(str(path), 1) is reader.context(str(path), 1)


def test_a_line_behind_the_end_has_no_statement(tmp_path: Path) -> None:
    file = tmp_path / "short.py"
    file.write_text("x = 1\n")

    assert SourceReader().context(str(file), 99).statement == ""


def test_a_notebook_cell_is_read_from_the_line_cache() -> None:
    name = "<ipython-input-1-abc>"
    source = "def f(x):\n    return x\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        assert SourceReader().context(name, 2).qualname == "f"
    finally:
        del linecache.cache[name]


@given(st.integers(1, SOURCE.count("\n") + 2))
def test_every_line_has_a_context_that_parses(line: int) -> None:
    name = "<every line>"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)

    found = SourceReader().context(name, line)

    assert found is not None
    for block in found.enclosing:
        assert block.line <= line
    if found.statement.startswith("x ="):
        ast.parse(textwrap.dedent(found.statement))
