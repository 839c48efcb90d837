"""A branch that reports and then does something else: report apart from it, and fix the rest as a branch of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe, first_edit
from graphdoctor.fixes.syntax.bindings import has_comment
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place, tested_at
from graphdoctor.fixes.syntax.records import is_report, skipped_while_compiling
from graphdoctor.fixes.syntax.source import SourceFile, UnreadableError, walk


class ReportApart(Recipe):
    """``if t.any(): print(…); return 0 * x`` becomes what other recipes write for ``if t.any(): return 0 * x``.

    The report goes before it, under ``if not torch.compiler.is_compiling() and t.any():``. Unsafe: the compiled program
    no longer reports it, and the rest is as safe as the other recipe.

    Args:
        recipes: What can be written for a branch on a tensor, best first.
    """

    name: ClassVar = "report-apart"
    codes: ClassVar = frozenset({"GD102"})

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._recipes = tuple(recipes)

    def edit(self, place: Place) -> Edit:
        """The report under a guard, and the rest in the graph.

        Raises:
            DeclinedError: The branch doesn't begin with a report, or no recipe knows what to write for the rest.
        """
        choice = tested_at(place)
        if not isinstance(choice, cst.If) or choice.orelse is not None:
            raise DeclinedError("it isn't an `if` with a single branch")
        parent = next(place.source.parents(choice))
        if isinstance(parent, cst.If) and parent.orelse is choice:
            raise DeclinedError("the condition belongs to an `elif`")
        without = _apart(place, choice)
        edit = first_edit(self._recipes, without)
        if isinstance(edit, Edit):
            title = f"{edit.title}, and skip the report while compiling"
            return replace(edit, title=title, is_safe=False, drops_output=True)
        raise DeclinedError(f"without the report, {edit[-1]}" if edit else "nothing can be written for the rest")


def _apart(place: Place, choice: cst.If) -> Place:
    """The finding at the ``if`` without its report, in the file that has the report before it."""
    source, body = place.source, choice.body
    if not isinstance(body, cst.IndentedBlock) or has_comment(body.header):
        raise DeclinedError("the branch has no lines of its own")
    lines = [line for line in body.body if isinstance(line, cst.BaseStatement)]
    count = next((number for number, line in enumerate(lines) if not is_report(source, line)), len(lines))
    if count in (0, len(lines)):
        raise DeclinedError("the branch doesn't begin with a report")
    if any(isinstance(node, cst.NamedExpr) for node in walk(choice.test)):
        raise DeclinedError("the condition assigns a name")
    report = skipped_while_compiling(choice.test.deep_clone(), [line.deep_clone() for line in lines[:count]])
    report = report.with_changes(leading_lines=[line.deep_clone() for line in choice.leading_lines])
    rest = choice.with_changes(leading_lines=(), body=body.with_changes(body=lines[count:]))
    try:
        changed = SourceFile.parse(
            source.path, source.replaced((choice, cst.FlattenSentinel([report, rest])), imports=("torch",))
        )
    except UnreadableError as error:
        raise DeclinedError(error.reason) from error
    number = _tests(source, source.code(choice.test)).index(choice)
    line = changed.position(_tests(changed, source.code(choice.test))[number]).start.line
    location = place.finding.location.model_copy(update={"line": line, "column": None, "end_column": None})
    return replace(place, source=changed, finding=place.finding.model_copy(update={"location": location}))


def _tests(source: SourceFile, text: str) -> list[cst.If]:
    """All ``if`` with a condition, in file order."""
    return [node for node in walk(source.tree) if isinstance(node, cst.If) and source.code(node.test) == text]
