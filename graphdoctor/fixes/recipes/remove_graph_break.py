"""An explicit graph break: remove it."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import called
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import Change, SourceFile

_CALLS = frozenset({"graph_break", "skip_frame", "step_unsupported"})


class RemoveGraphBreak(Recipe):
    """Removes ``torch._dynamo.graph_break()``.

    Unsafe even though results stay the same, because somebody put it there on purpose. A comment on its line goes with
    it; comments above it stay.
    """

    name: ClassVar = "remove-graph-break"
    codes: ClassVar = frozenset({"GD107"})

    def edit(self, place: Place) -> Edit:
        """The file without the call.

        Raises:
            DeclinedError: The line isn't such a call.
        """
        small = _small_statement(place)
        call = small.value if isinstance(small, cst.Expr) else None
        if not isinstance(call, cst.Call) or called(call) not in _CALLS:
            raise DeclinedError("the line isn't a call that only breaks the graph")
        if place.source.function_of(small) is None:
            raise DeclinedError("the call isn't in a function")
        name = place.source.code(call.func)
        return Edit(title=f"Remove `{name}()`", content=_without(place.source, small), is_safe=False)


def _small_statement(place: Place) -> cst.BaseSmallStatement:
    """The statement; in ``if c: graph_break()``, the one after the colon."""
    statement = place.statement
    body = getattr(statement, "body", None)
    if isinstance(body, cst.SimpleStatementSuite):
        around = [place.expression, *place.source.parents(place.expression)] if place.expression is not None else []
        for small in body.body:
            if isinstance(small, cst.BaseSmallStatement) and (
                any(node is small for node in around) or (not around and len(body.body) == 1)
            ):
                return small
    return place.small_statement


def _without(source: SourceFile, small: cst.BaseSmallStatement) -> bytes:
    """The file without one small statement."""
    line = next(source.parents(small))
    assert isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite)  # nothing else holds small statements
    if len(line.body) > 1:
        kept = [other for other in line.body if other is not small]
        if line.body[-1] is small:
            last = kept[-1]
            return source.replaced((last, last.with_changes(semicolon=small.semicolon)), _gone(small))
        return source.replaced(_gone(small))
    block = next(source.parents(line))
    if isinstance(line, cst.SimpleStatementSuite) or not isinstance(block, cst.IndentedBlock) or len(block.body) == 1:
        return source.replaced((small, cst.Pass(semicolon=small.semicolon)))
    at = next(number for number, other in enumerate(block.body) if other is line)
    above = [empty.deep_clone() for empty in line.leading_lines]
    if at + 1 < len(block.body):
        following = block.body[at + 1]
        assert isinstance(following, cst.SimpleStatementLine | cst.BaseCompoundStatement)  # a line of a block
        leading = [*above, *following.leading_lines]
        return source.replaced(_gone(line), (following, following.with_changes(leading_lines=leading)))
    # After the last line, only the footer can hold the comments that were above it.
    footer = [empty for empty in above if empty.comment is not None]
    return source.replaced((block, block.with_changes(body=block.body[:at], footer=[*footer, *block.footer])))


def _gone(node: cst.CSTNode) -> Change:
    return node, cst.FlattenSentinel(())
