"""Reads a case's first line, and builds the finding that it describes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.recording import BreakReason
from graphdoctor.facts.stack import StackEntry
from graphdoctor.fixes.recipe import Place, Recipe
from graphdoctor.fixes.source.tree import SourceFile
from graphdoctor.trials.replays import Equal

CASES = Path(__file__).parent / "cases"
_HEAD = re.compile(
    r'^"""(?P<said>GD\d+) (?P<line>\d+)(?::(?P<column>\d+)-(?P<end>\d*))?(?P<more> .*)?"""$'
)
_EQUAL = re.compile(r" equal: (?P<text>.+) = (?P<name>.+)$")


def cases(recipe: str) -> list[Path]:
    """The programs that a recipe mends."""
    return sorted((CASES / recipe).glob("*.py"))


@cache
def mended(recipe: Recipe, path: Path) -> bytes:
    """A case's program after the recipe's edit; ``test_cases.py`` holds what it is."""
    return recipe.edit(place_of(path)).content


def finding(
    code: str,
    line: int,
    columns: tuple[int, int | None] | None = None,
    *,
    context: str | None = None,
) -> Finding:
    """A finding as far as recipes look at it.

    Args:
        code: The rule's code.
        line: 1-based.
        columns: 1-based start and exclusive end of the expression; the end is None where it ends on
            another line.
        context: torch's developer context.
    """
    return Finding(
        code=code,
        rule="rule",
        severity="warning",
        message="A message.",
        location=StackEntry(
            file="model.py",
            line=line,
            column=columns[0] if columns else None,
            end_column=columns[1] if columns else None,
            function="forward",
        ),
        count=1,
        reasons=(
            BreakReason(gb_type="type", torch_id="GB0000", explanation="Why.", context=context),
        ),
        fingerprint="0" * 16,
        user_stack=(StackEntry(file="model.py", line=line, function="forward", origin="user"),),
    )


def place_of(path: Path) -> Place:
    """The place that a case's first line names: ``GD101 12:9-41 context``."""
    match = _HEAD.match(path.read_text(encoding="utf-8").splitlines()[0])
    assert match, f"{path} begins with no place"
    columns = (
        (int(match["column"]), int(match["end"]) if match["end"] else None)
        if match["column"]
        else None
    )
    return placed(
        match["said"] + (match["more"] or ""), SourceFile.read(path), int(match["line"]), columns
    )


def placed(
    said: str, source: SourceFile, line: int, columns: tuple[int, int | None] | None
) -> Place:
    """The place in a file of what a text describes, which may name what a number equaled: ``GD103
    equal: x = y``."""
    equal = _EQUAL.search(said)
    sizes = {}
    if equal is not None:
        functions = re.findall(r"def (\w+)", source.tree.code)
        equal_size = Equal(tuple(equal["name"].split(", ")), 4)
        sizes = {(str(source.path), name, equal["text"]): equal_size for name in functions}
    return Place(source, described(_EQUAL.sub("", said), line, columns), sizes)


def described(said: str, line: int, columns: tuple[int, int | None] | None) -> Finding:
    """The finding at a place, of which a text has the code and torch's context: ``GD101 context``."""
    code, _, context = said.partition(" ")
    return finding(code, line, columns, context=context.strip() or None)


def place_in(
    text: str, code: str, line: int, columns: tuple[int, int | None] | None = None, **more: Any
) -> Place:
    """A place in a text."""
    return Place(
        SourceFile.parse(Path("model.py"), text.encode()), finding(code, line, columns, **more)
    )
