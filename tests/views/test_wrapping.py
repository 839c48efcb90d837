"""Text in lines that fit a terminal."""

from __future__ import annotations

import io
import re

from rich.console import Console
from rich.text import Text

from graphdoctor.views.parts import Code, View
from graphdoctor.views.terminal_lines import (
    Indented,
    Prose,
    code,
    labeled_rows,
    prose_breaks,
    write,
)
from tests.each import for_each
from tests.views.outputs import on_terminal


def test_prose_is_broken_between_words_and_beside_names() -> None:
    text = "Set torch._dynamo.config.reorderable_logging_functions to a set"
    starts = [0, *prose_breaks(text, 32)]
    parts = [
        text[start:end].rstrip() for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
    assert parts == ["Set torch._dynamo.config.", "reorderable_logging_functions to", "a set"]


@for_each("width", [24, 40, 60, 80])
def test_a_card_s_rows_never_break_a_name(width: int) -> None:
    words = "Let torch drop `logging.getLogger('my_module').debug` while compiling"
    console = Console(file=io.StringIO(), width=width, color_system=None)
    for row in labeled_rows([("try", Prose(Text(words)))], width):
        write(console, row)
    write(console, Text(words))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert {name for line in lines for name in re.findall(r"\w+", line)} == {
        "try",
        *re.findall(r"\w+", words),
    }
    assert max(map(len, lines)) <= width


def test_too_long_name_continues_on_the_next_line() -> None:
    assert prose_breaks("see " + "x" * 25, 10) == [4, 14, 24]


def test_code_is_never_broken_and_lines_end_without_spaces() -> None:
    console = Console(file=io.StringIO(), width=40, color_system=None)
    text = "total = first_long_name_of_a_value + second_long_name_of_a_value"
    for row in labeled_rows([("try", code(f"{text}  \n\ntotal"))], 40):
        write(console, row)
    write(console, Indented(code(text), Text("  ")))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown == f"        try  {text}\n\n{' ' * 13}total\n  {text}\n"


def test_a_long_command_is_whole() -> None:
    text = f"graphdoctor fix model.py{' --ignore GD101' * 150}"
    assert f"\n  {text}\n" in on_terminal(View(("fix",), "fix", (Code(text, "shell"),)))
