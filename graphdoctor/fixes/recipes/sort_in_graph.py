"""Python's ``sorted`` over tensors: sort them in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import SourceFile

_EVERYTHING = [cst.SubscriptElement(cst.Slice(lower=None, upper=None))]
_LISTS = (cst.List, cst.Tuple, cst.ListComp, cst.Name)


class SortInGraph(Recipe):
    """``sorted([a, b])`` becomes ``list(torch.stack([a, b]).sort().values)``.

    Unsafe: the tensors must be zero-dim and have one dtype and device, NaN sorts to the end, and equal values share
    gradients differently.
    """

    name: ClassVar = "sort-in-graph"
    codes: ClassVar = frozenset({"GD123"})

    def edit(self, place: Place) -> Edit:
        """The tensors stacked and sorted.

        Raises:
            DeclinedError: It sorts by a key, or something other than a list.
        """
        call = _call(place)
        source = place.source
        new: cst.BaseExpression
        if isinstance(call.func, cst.Attribute):
            listed, options = call.func.value, call.args
            line = next(source.parents(call))
            if not isinstance(listed, cst.Name) or not isinstance(line, cst.Expr):
                raise DeclinedError("what it sorts isn't a variable")
            whole = cst.Assign(
                [cst.AssignTarget(cst.Subscript(cst.Name(listed.value), _EVERYTHING))],
                _listed(_sorted(source, listed, options)),
                semicolon=line.semicolon,
            )
            content = source.replaced((line, whole), imports=("torch",))
        else:
            if not call.args or call.args[0].keyword is not None or call.args[0].star:
                raise DeclinedError("it doesn't say what it sorts")
            new = _sorted(source, call.args[0].value, call.args[1:])
            is_taken_apart = _is_taken_apart(source, call)
            content = source.replaced((call, new if is_taken_apart else _listed(new)), imports=("torch",))
        return Edit(title="Sort the tensors in the graph", content=content, is_safe=False)


def _call(place: Place) -> cst.Call:
    found = [place.expression] if place.expression is not None else []
    if not found:
        calls = matchers.findall(place.small_statement, matchers.Call())
        found = [call for call in calls if isinstance(call, cst.Call) and _is_sort(call)]
    if len(found) != 1 or not isinstance(found[0], cst.Call) or not _is_sort(found[0]):
        raise DeclinedError("the line doesn't call `sorted` or `sort` exactly once")
    return found[0]


def _is_sort(call: cst.Call) -> bool:
    return matchers.matches(
        call.func, matchers.Name("sorted") | matchers.Attribute(attr=matchers.Name("sort"), value=matchers.Name())
    )


def _sorted(source: SourceFile, listed: cst.BaseExpression, options: Sequence[cst.Arg]) -> cst.Attribute:
    """``torch.stack([a, b]).sort().values``."""
    if not isinstance(listed, _LISTS):
        raise DeclinedError("what it sorts isn't a list")
    if isinstance(listed, cst.List | cst.Tuple) and not listed.elements:
        raise DeclinedError("what it sorts is empty")
    descending = ""
    for option in options:
        if option.keyword is None or option.keyword.value != "reverse":
            raise DeclinedError("it sorts by a key")
        descending = f"descending={source.code(option.value)}"
    stacked = cst.parse_expression(f"torch.stack(_).sort({descending}).values")
    assert isinstance(stacked, cst.Attribute)  # it is written so
    new = stacked.deep_replace(matchers.findall(stacked, matchers.Name("_"))[0], listed.deep_clone())
    assert isinstance(new, cst.Attribute)  # only something in it was replaced
    return new


def _listed(values: cst.BaseExpression) -> cst.Call:
    return cst.Call(cst.Name("list"), [cst.Arg(values)])


def _is_taken_apart(source: SourceFile, call: cst.Call) -> bool:
    """``low, high = sorted(x)`` or ``sorted(x)[0]``: the type of the container doesn't matter."""
    parent = next(source.parents(call))
    if isinstance(parent, cst.Subscript):
        return matchers.matches(parent, matchers.Subscript(slice=[matchers.SubscriptElement(slice=matchers.Index())]))
    return isinstance(parent, cst.Assign) and all(
        isinstance(target.target, cst.Tuple | cst.List) for target in parent.targets
    )
