"""An iterator that a caller in the same file passes on, such as ``model.parameters()``: pass a list."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.bindings import parameter
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import called
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import SourceFile, walk

_METHODS = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children"}
)
"""Methods of a module that return a new iterator."""

_BUILT_IN = frozenset({"iter", "enumerate", "zip", "map", "filter", "reversed"})


class ListArgument(Recipe):
    """``clip(model.parameters())`` becomes ``clip(list(model.parameters()))``.

    torch doesn't trace through an iterator that was created outside of the compiled code. The function gets the same
    elements in the same order. Unsafe: a list may be looped over again where the iterator would be used up.
    """

    name: ClassVar = "list-argument"
    codes: ClassVar = frozenset({"GD121"})

    def edit(self, place: Place) -> Edit:
        """Lists at every call in the file that passes an iterator.

        Raises:
            DeclinedError: The iterator is no argument, or no call in this file passes one.
        """
        source = place.source
        name = _looped(place)
        function = source.function_of(name)
        given = parameter(source, name)
        if given is None or not isinstance(function, cst.FunctionDef):
            raise DeclinedError(f"`{name.value}` isn't an argument")
        iterators = [
            value
            for call in walk(source.tree)
            if isinstance(call, cst.Call) and called(call) == function.name.value
            for value in _passed(source, call, function, name.value)
            if _is_iterator(value)
        ]
        if not iterators:
            raise DeclinedError(f"no call in this file passes an iterator as `{name.value}`")
        return Edit(
            title=f"Pass a list as `{name.value}` of `{function.name.value}`",
            content=source.replaced(*((value, _as_list(value)) for value in iterators)),
            is_safe=False,
        )


def _looped(place: Place) -> cst.Name:
    """The only name that the line loops over."""
    statement = place.statement
    loops: list[cst.For | cst.CompFor] = (
        [statement]
        if isinstance(statement, cst.For)
        else [node for node in walk(statement) if isinstance(node, cst.CompFor)]
        if isinstance(statement, cst.SimpleStatementLine)
        else []
    )
    names = [loop.iter for loop in loops if isinstance(loop.iter, cst.Name)]
    if len(names) != 1:
        raise DeclinedError("the line doesn't loop over one variable")
    return names[0]


def _passed(source: SourceFile, call: cst.Call, function: cst.FunctionDef, name: str) -> list[cst.BaseExpression]:
    """What a call passes as the parameter: one value, or none."""
    parameters = [given.name.value for given in (*function.params.posonly_params, *function.params.params)]
    if isinstance(call.func, cst.Attribute) and source.class_of(function) is not None:
        parameters = parameters[1:]
    for at, argument in enumerate(call.args):
        if argument.star:
            break
        is_it = at < len(parameters) and parameters[at] == name if argument.keyword is None else False
        if is_it or (argument.keyword is not None and argument.keyword.value == name):
            return [argument.value]
    return []


def _is_iterator(value: cst.BaseExpression) -> bool:
    match value:
        case cst.GeneratorExp():
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in _METHODS
        case cst.Call(func=cst.Name(value=name)):
            return name in _BUILT_IN
    return False


def _as_list(value: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(value, cst.GeneratorExp):
        return cst.ListComp(value.elt.deep_clone(), value.for_in.deep_clone())
    return cst.Call(cst.Name("list"), [cst.Arg(value.deep_clone())])
