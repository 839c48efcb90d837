"""What a rule suggests for a line, written into the program."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.fixes import Fix, SnippetPlace, Where
from graphdoctor.fixes.source.tree import SourceFile
from graphdoctor.studies.export.trials import written
from tests.each import for_each

PROGRAM = """import torch
def f(x, n):
    if n > 2:
        x = x + 1
    y = (
        x * 2
    )
    a = 1; b = 2
    return y
"""


def edited(where: Where, line: int, end_line: int, program: str = PROGRAM) -> str | None:
    path = Path("model.py")
    fix = Fix(
        title="Check it",
        kind="code",
        snippet="torch._check(n > 2)",
        place=SnippetPlace(where=where, line=line + 1, end_line=end_line + 1),
    )
    change = written(fix, SourceFile.parse(path, program.encode()))
    return None if change is None else change.after.decode()


def test_a_line_comes_before_a_statement_with_its_indentation():
    assert edited("before", 2, 3) == PROGRAM.replace(
        "    if n", "    torch._check(n > 2)\n    if n"
    )
    assert edited("before", 8, 8) == PROGRAM.replace(
        "    return", "    torch._check(n > 2)\n    return"
    )


def test_a_statement_is_replaced_with_all_of_its_lines():
    after = edited("instead", 4, 6)
    assert after == PROGRAM.replace(
        "    y = (\n        x * 2\n    )\n", "    torch._check(n > 2)\n"
    )


@for_each("line, end_line", [(7, 7), (5, 5), (2, 2), (99, 99)])
def test_what_has_no_lines_of_its_own_is_left_alone(line, end_line):
    assert edited("instead", line, end_line) is None


def test_the_ends_of_lines_stay():
    crlf = PROGRAM.replace("\n", "\r\n")
    assert edited("before", 8, 8, crlf) == crlf.replace(
        "    return", "    torch._check(n > 2)\r\n    return"
    )


def test_a_suggestion_for_another_place_is_no_edit():
    assert edited("start", 2, 3) is None
