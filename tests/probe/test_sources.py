"""What surrounds a line of source."""

import ast
import linecache
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.probe.record.sources import SourceReader
from tests.each import for_each
from tests.sections import texts_beside

(SOURCE,) = texts_beside(__file__)


@pytest.fixture
def context(tmp_path):
    file = tmp_path / "source.py"
    file.write_text(SOURCE, encoding="utf-8")
    reader = SourceReader()
    return lambda line, function=None: reader.context(str(file), line, function)


def line_of(text):
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


@for_each(
    "text, qualname, function, enclosing",
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
def test_a_line_knows_its_function_and_its_blocks(context, text, qualname, function, enclosing):
    source = context(line_of(text))

    assert source.qualname == qualname
    assert source.function_line == (line_of(function) if function else None)
    assert [block.kind for block in source.enclosing] == enclosing


def test_the_codes_name_selects_one_of_a_lines_functions(context):
    assert context(line_of("halve ="), "<lambda>").qualname == "Net.<lambda>"
    assert context(line_of("second=lambda"), "<lambda>").qualname == "decorated.<lambda>"
    assert context(line_of("second=lambda"), "decorated").qualname == "decorated"
    blocks = context(line_of("x = [part"), "<listcomp>").enclosing
    assert [block.kind for block in blocks] == ["comprehension", "while"]
    # There is none of the kind: the line is as good as it gets.
    assert context(line_of("limit = 3"), "<genexpr>").qualname == "Net"


def test_statement_is_whole_dedented_and_alone_in_its_case(context, tmp_path):
    assert context(line_of('"größe"')).statement == 'file.write(\n    "größe"\n)'
    assert context(line_of("x = 2")).statement == "x = 2"
    innermost = context(line_of('"größe"')).enclosing[0]
    assert vars(innermost) == {"kind": "if", "line": line_of("if index:"), "text": "if index:"}
    # A long one is cut, and after the last line there is none.
    file = tmp_path / "long.py"
    file.write_text("x = [\n" + "    1,\n" * 40 + "]\n")
    assert SourceReader().context(str(file), 5).statement.count("\n") == 11
    assert SourceReader().context(str(file), 99).statement == ""


def test_what_cannot_be_read_is_none(tmp_path):
    assert SourceReader().context(str(tmp_path / "absent.py"), 1) is None
    file = tmp_path / "odd.py"
    for content in ("def broken(:\n", "", "\x00", "x = 1\n"):
        file.write_text(content)
        linecache.checkcache()
        reader = SourceReader()
        assert reader.context(str(file), 0) is None
        assert (reader.context(str(file), 1) is None) is ("x" not in content)
        # A place is read once.
        assert reader.context(str(file), 1) is reader.context(str(file), 1)


@given(st.integers(1, SOURCE.count("\n") + 2))
def test_every_line_of_a_cell_has_a_context_that_parses(line):
    name = "<ipython-input-1-abc>"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)
    source = SourceReader().context(name, line)
    assert source is not None
    for block in source.enclosing:
        assert block.line <= line
    if source.statement.startswith("x ="):
        ast.parse(textwrap.dedent(source.statement))


# Names of the module.


def around(tmp_path, code):
    """The source around the line that ends in ``# here``."""
    file = tmp_path / "module.py"
    file.write_text(textwrap.dedent(code))
    linecache.checkcache(str(file))
    line = next(
        number
        for number, text in enumerate(file.read_text().splitlines(), 1)
        if text.endswith("# here")
    )
    source = SourceReader().context(str(file), line)
    assert source is not None
    return source


def test_names_of_the_module_are_those_that_no_function_binds(tmp_path):
    code = """
        import torch
        LIMIT = SCALE = 3
        def outer(a):
            def inner(x, SCALE=2):
                global LIMIT
                print(torch, LIMIT, SCALE, a, x, outer, len(x))  # here
                LIMIT = 4
        """
    assert around(tmp_path, code).module_names == ("torch", "LIMIT", "outer")


def test_a_statement_has_its_line_and_a_lambda_has_none(tmp_path):
    source = around(tmp_path, "def f(x):\n    print(\n        x,  # here\n    )\n")
    assert source.statement_line == 2
    source = around(tmp_path, "f = (\n    lambda x:\n    x + 1  # here\n)\n")
    assert source.statement_line is None
