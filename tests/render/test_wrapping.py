"""Text in lines that fit a terminal."""

from __future__ import annotations

import ast
import io
import re
import shlex
import textwrap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from graphdoctor.views.terminal_lines import Prose, code, code_lines, command, labeled_rows, prose_breaks, write
from tests.each import for_each

STATEMENTS = """\
if not torch.compiler.is_compiling():
    logger.info("hidden state %s and mean %s", tuple(hidden_state.shape), hidden_state.mean(), extra={"step": step})
    total_of_everything = first_long_name_of_a_value + second_long_name_of_a_value * third_long_name_of_a_value
torch._dynamo.config.ignore_logging_functions.add(logging.getLogger("my.module.name").info)
print(f"{hidden_state.shape} and {hidden_state.mean():.3f}", x[1:2, ...], lambda value: value + 1)  # a comment
"""


@for_each("width", (50, 65, 80, 99, 128))
def test_wrapped_code_means_the_same(width: int) -> None:
    lines = code_lines(STATEMENTS, width)
    shown = [line for line in lines if "# a comment" not in line]
    assert max(map(len, shown)) <= width
    if not any("…" in line for line in lines):
        assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(STATEMENTS))


@for_each("width", (8, 20, 33, 50, 80, 128))
def test_no_name_is_broken_over_two_lines(width: int) -> None:
    names = set(re.findall(r"\w+", STATEMENTS))
    for line in code_lines(STATEMENTS, width):
        whole = line.rpartition("…")[0].rpartition(" ")[0] if line.endswith("…") else line
        text_free = re.sub(r'f?"[^"]*"?', "", whole)
        assert set(re.findall(r"\w+", text_free)) <= names


def test_code_that_fits_stays_as_it_is() -> None:
    assert code_lines("x = 1\n\n  # odd", 80) == ["x = 1", "", "  # odd"]


def test_a_long_text_becomes_several_that_python_joins() -> None:
    code = 'log.info("a message that is much longer than the line that it has to fit on: %s", tuple(x.shape))'
    lines = code_lines(code, 44)
    assert lines[1] == '    "a message that is much longer than "'
    assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(code))
    assert max(map(len, lines)) <= 44


def test_what_no_break_makes_fit_is_cut_visibly() -> None:
    assert code_lines('print("' + "a" * 60 + '")', 30) == ["print(", '    "aaaaaaaaaaaaaaaaaaaaaaaa…', "    )"]
    assert code_lines("not python (((" + "x" * 40, 20)[-1].endswith("…")


@pytest.mark.filterwarnings("error")
@given(
    st.text(st.sampled_from("([{'\"\\\n\r\v\f\x1c\x85\u2028\x00\ud800\té# ") | st.characters(), max_size=40),
    st.integers(1, 30),
)
@example("(\r'" + "a " * 20 + "'", 30)
@example("f(\x0b\x1c'" + "a " * 20 + "')\\\n}\ud800", 30)
def test_any_text_has_lines_that_fit(text: str, width: int) -> None:
    lines = code_lines(f"x = f('{text}', {text})", width)
    assert all(cell_len(line) <= width for line in lines)


def test_prose_is_broken_between_words_and_beside_names() -> None:
    text = "Set torch._dynamo.config.reorderable_logging_functions to a set"
    starts = [0, *prose_breaks(text, 32)]
    parts = [text[start:end].rstrip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
    assert parts == ["Set", "torch._dynamo.config.", "reorderable_logging_functions to", "a set"]


@for_each("width", [24, 40, 60, 80])
def test_a_card_s_rows_never_break_a_name(width: int) -> None:
    words = "Let torch drop `logging.getLogger('module_of_mine').debug` while compiling"
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(labeled_rows([("try", Text(words)), ("or", code("some_function(argument_one, argument_two)"))]))
    console.print(Prose(Text(words)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    known = set(re.findall(r"\w+", words)) | {"try", "or", "some_function", "argument_one", "argument_two"}
    whole = [name for line in shown.splitlines() if "…" not in line for name in re.findall(r"\w+", line)]
    assert set(whole) <= known
    assert max(map(len, shown.splitlines())) <= width


def test_lines_end_without_spaces_so_that_they_can_be_pasted() -> None:
    console = Console(file=io.StringIO(), width=60, color_system=None)
    text = "total = first_long_name_of_a_value + second_long_name_of_a_value + third_long_name_of_a_value"
    asked = "graphdoctor fix 'my model.py:Net' --input 'f32[4,8]' --input scale=float:0.5 --backend inductor --apply"
    write(console, labeled_rows([("try", code(text))]))
    write(console, Padding(command(asked), (0, 0, 0, 2)))
    write(console, Text("words"))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.endswith("words\n")
    assert all(line == line.rstrip() for line in shown.splitlines())
    above, _, below = shown.partition("  graphdoctor")
    assert ast.dump(ast.parse(textwrap.dedent(above.replace("try", "   ")))) == ast.dump(ast.parse(text))
    joined = "graphdoctor" + below.removesuffix("words\n").replace("\\\n", "")
    assert shlex.split(joined) == shlex.split(asked)


def test_no_comma_stands_alone() -> None:
    text = "models/bigbird_pegasus/modeling_bigbird.py:114, models/t5.py:788"
    first, *_ = prose_breaks(text, text.index(","))
    assert text[:first] == "models/bigbird_pegasus/modeling_bigbird.py:"
    assert text[first:].startswith("114, models")
