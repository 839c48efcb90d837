"""A report that depends on a tensor's value: skip it, and the look at the tensor, while torch compiles."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.branches import refuse_lost_comments
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place, tested_at
from graphdoctor.fixes.syntax.records import is_report, skipped_while_compiling
from graphdoctor.fixes.syntax.source import walk


class GuardReport(Recipe):
    """``if t.isnan().any(): warnings.warn(…)`` becomes ``if not torch.compiler.is_compiling() and t.isnan().any(): …``.

    Only if nothing but output depends on the condition. Unsafe: the compiled program no longer reports it.
    """

    name: ClassVar = "guard-report"
    codes: ClassVar = frozenset({"GD102"})

    def edit(self, place: Place) -> Edit:
        """The report under a guard.

        Raises:
            DeclinedError: More than output depends on the condition.
        """
        statement = tested_at(place)
        if not isinstance(statement, cst.If) or not isinstance(statement.body, cst.IndentedBlock):
            raise DeclinedError("no block of lines depends on the condition")
        if statement.orelse is not None or not is_report(place.source, statement):
            raise DeclinedError("more than a report depends on the condition")
        parent = next(place.source.parents(statement))
        if isinstance(parent, cst.If) and parent.orelse is statement:
            raise DeclinedError("the condition belongs to an `elif`")
        if any(isinstance(node, cst.NamedExpr) for node in walk(statement.test)):
            raise DeclinedError("the condition assigns a name")
        lines = [line for line in statement.body.body if isinstance(line, cst.BaseStatement)]
        guarded = skipped_while_compiling(statement.test, lines)
        new = statement.with_changes(test=guarded.test)
        refuse_lost_comments([statement], [new])
        return Edit(
            title="Skip the report and its condition while compiling",
            content=place.source.replaced((statement.test, guarded.test), imports=("torch",)),
            is_safe=False,
            drops_output=True,
        )
