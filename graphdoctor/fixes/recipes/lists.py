"""Python containers and iterators of tensors: lists, and sorting in the graph."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.names import called, parameter
from graphdoctor.fixes.source.place import Place
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, decline_if, walk

_MAKERS = {"set", "frozenset", "iter", "enumerate", "zip", "map", "filter", "reversed"}


@recipe("GD121", "GD122")
def iterable_to_list(place: Place) -> Edit:
    """``parts = {a, b}`` becomes ``parts = [a, b]``, ``steps = iter(x)`` becomes ``steps = list(x)``.

    Only if the file creates it once and does nothing but loop over it. Unsafe: a list has an order and keeps
    duplicates, and a loop over a list starts over at each call, while one over an iterator continues.
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
    found: list[cst.BaseExpression] = []
    last = matchers.Name(name.rpartition(".")[2])
    matcher = last if isinstance(looped, cst.Name) else matchers.Attribute(attr=last)
    for node in matchers.findall(source.tree, matcher):
        parent = next(source.parents(node))
        match parent:
            case cst.AssignTarget():
                assignment = next(source.parents(parent))
                assert isinstance(assignment, cst.Assign)  # whose target it is
                decline_if(len(assignment.targets) > 1, f"`{name}` is set together with other names")
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
    decline_if(not found, f"the file never sets `{name}`")
    decline_if(len(found) > 1, f"the file sets `{name}` more than once")
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


_METHODS = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children"}
)
"""Methods of a module that return a new iterator."""

_BUILT_IN = frozenset({"iter", "enumerate", "zip", "map", "filter", "reversed"})


@recipe("GD121")
def list_argument(place: Place) -> Edit:
    """``clip(model.parameters())`` becomes ``clip(list(model.parameters()))``.

    torch doesn't trace through an iterator that was created outside of the compiled code. The function gets the same
    elements in the same order. Unsafe: a list may be looped over again where the iterator would be used up.
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
    decline_if(not iterators, f"no call in this file passes an iterator as `{name.value}`")
    return Edit(
        title=f"Pass a list as `{name.value}` of `{function.name.value}`",
        content=source.replaced(*((value, _argument_as_list(value)) for value in iterators)),
        is_safe=False,
    )


def _looped(place: Place) -> cst.Name:
    statement = place.statement
    loops: list[cst.For | cst.CompFor] = (
        [statement]
        if isinstance(statement, cst.For)
        else [node for node in walk(statement) if isinstance(node, cst.CompFor)]
        if isinstance(statement, cst.SimpleStatementLine)
        else []
    )
    names = [loop.iter for loop in loops if isinstance(loop.iter, cst.Name)]
    decline_if(len(names) != 1, "the line doesn't loop over one variable")
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


def _argument_as_list(value: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(value, cst.GeneratorExp):
        return cst.ListComp(value.elt.deep_clone(), value.for_in.deep_clone())
    return cst.Call(cst.Name("list"), [cst.Arg(value.deep_clone())])


_EVERYTHING = [cst.SubscriptElement(cst.Slice(lower=None, upper=None))]
_LISTS = (cst.List, cst.Tuple, cst.ListComp, cst.Name)


@recipe("GD123")
def sort_in_graph(place: Place) -> Edit:
    """``sorted([a, b])`` becomes ``list(torch.stack([a, b]).sort().values)``.

    Unsafe: the tensors must be zero-dim and have one dtype and device, NaN sorts to the end, and equal values share
    gradients differently.
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
