"""A set of tensors, or an iterator, that the compiled function loops over: create it as a list."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import SourceFile

_MAKERS = {"set", "frozenset", "iter", "enumerate", "zip", "map", "filter", "reversed"}


class IterableToList(Recipe):
    """``parts = {a, b}`` becomes ``parts = [a, b]``, ``steps = iter(x)`` becomes ``steps = list(x)``.

    Only if the file creates it once and does nothing but loop over it. Unsafe: a list has an order and keeps
    duplicates, and a loop over a list starts over at each call, while one over an iterator continues.
    """

    name: ClassVar = "iterable-to-list"
    codes: ClassVar = frozenset({"GD121", "GD122"})

    def edit(self, place: Place) -> Edit:
        """A list in place of the set or the iterator.

        Raises:
            DeclinedError: It is created elsewhere, or used for more than loops.
        """
        loop = place.statement
        if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Name | cst.Attribute):
            raise DeclinedError("the line doesn't loop over a variable or an attribute")
        if isinstance(loop.iter, cst.Attribute) and not matchers.matches(loop.iter.value, matchers.Name("self")):
            raise DeclinedError("it's an attribute of another object")
        name = place.source.code(loop.iter)
        made = _made(place.source, loop.iter, name)
        content = place.source.replaced((made, _as_list(made, name)))
        return Edit(title=f"Make `{name}` a list", content=content, is_safe=False)


def _made(source: SourceFile, looped: cst.Name | cst.Attribute, name: str) -> cst.BaseExpression:
    """The only value that the name is set to."""
    found: list[cst.BaseExpression] = []
    last = matchers.Name(name.rpartition(".")[2])
    matcher = last if isinstance(looped, cst.Name) else matchers.Attribute(attr=last)
    for node in matchers.findall(source.tree, matcher):
        parent = next(source.parents(node))
        match parent:
            case cst.AssignTarget():
                assignment = next(source.parents(parent))
                assert isinstance(assignment, cst.Assign)  # whose target it is
                if len(assignment.targets) > 1:
                    raise DeclinedError(f"`{name}` is set together with other names")
                found.append(assignment.value)
            case cst.AnnAssign(target=target, value=value) if target is node and value is not None:
                found.append(value)
            case cst.For(iter=iterated) | cst.CompFor(iter=iterated) if iterated is node:
                pass
            case cst.Attribute(attr=attribute) | cst.Arg(keyword=attribute) if attribute is node:
                pass
            case cst.Param():
                raise DeclinedError(f"`{name}` is an argument, so the caller creates it")
            case _:
                line = source.position(node).start.line
                raise DeclinedError(f"line {line} does more than loop over `{name}`")
    if not found:
        raise DeclinedError(f"the file never sets `{name}`")
    if len(found) > 1:
        raise DeclinedError(f"the file sets `{name}` more than once")
    return found[0]


def _as_list(made: cst.BaseExpression, name: str) -> cst.BaseExpression:
    match made:
        case cst.Set(elements=elements, lbrace=opened, rbrace=closed):
            return cst.List(
                [element.deep_clone() for element in elements],
                lbracket=cst.LeftSquareBracket(opened.whitespace_after.deep_clone()),
                rbracket=cst.RightSquareBracket(closed.whitespace_before.deep_clone()),
            )
        case cst.SetComp(elt=element, for_in=loops) | cst.GeneratorExp(elt=element, for_in=loops):
            return cst.ListComp(element.deep_clone(), loops.deep_clone())
        case cst.Call(func=cst.Name(value="set" | "frozenset" | "iter"), args=[argument]):
            return cst.Call(cst.Name("list"), [argument.deep_clone()])
        case cst.Call(func=cst.Name(value=function)) if function in _MAKERS:
            return cst.Call(cst.Name("list"), [cst.Arg(made.deep_clone())])
    raise DeclinedError(f"`{name}` isn't created by a set or a built-in iterator")
