"""``bincount`` with ``minlength``, whose size still depends on the largest value: count with ``scatter_add``."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst
from libcst.helpers import parse_template_expression

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.bindings import dotted_name, has_comment, method_name, receiver, shortened
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import Names
from graphdoctor.fixes.syntax.place import Place, pointed
from graphdoctor.fixes.syntax.source import SourceFile


class BincountToScatter(Recipe):
    """``torch.bincount(x, minlength=n)`` becomes ``x.new_zeros(n).scatter_add(0, x, torch.ones_like(x))``.

    With weights, their zeros and themselves take the place of the counts and ones. Unsafe: a value of ``minlength`` or
    more makes ``bincount`` return more counts, and ``scatter_add`` fail.
    """

    name: ClassVar = "bincount-to-scatter"
    codes: ClassVar = frozenset({"GD104"})

    def edit(self, place: Place) -> Edit:
        """As many counts as ``minlength`` says.

        Raises:
            DeclinedError: The call has no ``minlength``, or no statement of its own.
        """
        source = place.source
        call = pointed(place, lambda node: method_name(source, node) == "bincount", "a call to `bincount`")
        assert isinstance(call, cst.Call)  # method_name() says so
        if has_comment(call):
            raise DeclinedError("a comment inside it would be lost")
        counted, weights, length = _arguments(source, call)
        before: list[cst.SimpleStatementLine] = []
        if not isinstance(counted, cst.Name):
            function = source.function_of(call)
            if function is None:
                raise DeclinedError("the call isn't in a function")
            name = cst.Name(Names(source, function).fresh("index"))
            value = counted.with_changes(lpar=(), rpar=()).deep_clone()
            before = [cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(name)], value)])]
            counted = name
        if weights is None:
            new = _filled(
                "{index}.new_zeros({length}).scatter_add(0, {index}, torch.ones_like({index}))", counted, length
            )
        elif isinstance(weights, cst.Name):
            new = _filled(
                f"{weights.value}.new_zeros({{length}}).scatter_add(0, {{index}}, {weights.value})", counted, length
            )
        else:
            raise DeclinedError("the weights aren't a name")
        return Edit(
            title=f"Count into `{shortened(source, length)}` places with `scatter_add` in place of `bincount`",
            content=_replaced(source, call, new, before),
            is_safe=False,
        )


def _filled(template: str, index: cst.Name, length: cst.BaseExpression) -> cst.BaseExpression:
    return parse_template_expression(template, index=index, length=length).deep_clone()


def _arguments(
    source: SourceFile, call: cst.Call
) -> tuple[cst.BaseExpression, cst.BaseExpression | None, cst.BaseExpression]:
    """What is counted, the weights if there are any, and how many places there are."""
    counted = receiver(source, call)
    given = call.args[1:] if dotted_name(source, call.func) else call.args
    found: dict[str, cst.BaseExpression] = {}
    for name, argument in zip(("weights", "minlength", ""), given, strict=False):
        if argument.star:
            raise DeclinedError("its arguments aren't supported")
        found[argument.keyword.value if argument.keyword is not None else name] = argument.value
    length, weights = found.pop("minlength", None), found.pop("weights", None)
    if counted is None or found:
        raise DeclinedError("its arguments aren't supported")
    if length is None:
        raise DeclinedError("`bincount` has no `minlength`, so nothing shows how many counts there are")
    is_weighted = weights is not None and not (isinstance(weights, cst.Name) and weights.value == "None")
    return counted, weights if is_weighted else None, length


def _replaced(
    source: SourceFile, call: cst.Call, new: cst.BaseExpression, before: list[cst.SimpleStatementLine]
) -> bytes:
    if not before:
        return source.replaced((call, new), imports=("torch",))
    line = next(node for node in source.parents(call) if isinstance(node, cst.BaseStatement))
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise DeclinedError("the call has no statement of its own")
    first = before[0].with_changes(leading_lines=[empty.deep_clone() for empty in line.leading_lines])
    changed = line.with_changes(leading_lines=()).deep_replace(call, new)
    assert isinstance(changed, cst.SimpleStatementLine)
    return source.replaced((line, cst.FlattenSentinel([first, changed])), imports=("torch",))
