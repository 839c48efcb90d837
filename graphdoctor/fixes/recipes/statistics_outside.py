"""A ``with torch.no_grad():`` block at the end of the compiled ``forward``: run it after the compiled part."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.bindings import dotted_name
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.extraction import Run
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import SourceFile, walk

_OFF = frozenset({"torch.no_grad", "torch.inference_mode"})


class StatisticsOutside(Recipe):
    """Moves what comes before a closing ``with torch.no_grad():`` block into a method, the part that torch compiles.

    Nothing that is returned depends on gradients there, so the block usually collects metrics, with shapes and numbers
    that depend on values. Only for the method that torch.compile is given, because Dynamo breaks before a function that
    it may not trace. Safe: the same statements run in the same order.
    """

    name: ClassVar = "statistics-outside"
    codes: ClassVar = frozenset({"GD102", "GD103", "GD104", "GD105", "GD109"})

    def edit(self, place: Place) -> Edit:
        """``forward`` outside the compiled part, and the method that is in it.

        Raises:
            DeclinedError: The line isn't in such a block.
        """
        source, function = place.source, place.source.function_of(place.statement)
        if not isinstance(function, cst.FunctionDef) or function.name.value != "forward" or function.decorators:
            raise DeclinedError("it isn't in the `forward` of a module")
        if not place.is_outermost:
            raise DeclinedError("it isn't in the function that torch.compile was given")
        block = _block(source, place.statement, function)
        body = list(function.body.body)
        at = next(number for number, line in enumerate(body) if line is block)
        if not all(_is_return_of_names(line) for line in body[at + 1 :]):
            raise DeclinedError("more than a `return` of names comes after the `with torch.no_grad()`")
        start = int(_is_docstring(body[0]))
        if start == at:
            raise DeclinedError("nothing comes before the `with torch.no_grad()`")
        moved = Run(source, function, function.body, start, at).moved(source.free_name("_compute"))
        line = source.position(block).start.line
        return Edit(
            title=f"Run the `with torch.no_grad()` at line {line} after the compiled part of `forward`",
            content=_eager(moved, _functions(source).index(function)),
            is_safe=True,
        )


def _functions(source: SourceFile) -> list[cst.CSTNode]:
    return [node for node in walk(source.tree) if isinstance(node, cst.FunctionDef)]


def _block(source: SourceFile, statement: cst.CSTNode, function: cst.FunctionDef) -> cst.With:
    """The outermost block around a statement, if gradients are off in it."""
    around = [statement, *source.parents(statement)]
    top = around[next(number for number, node in enumerate(around) if node is function.body) - 1]
    if not isinstance(top, cst.With) or top.asynchronous is not None or not all(_is_off(source, i) for i in top.items):
        raise DeclinedError("the line isn't inside a `with torch.no_grad()` of the function")
    return top


def _is_off(source: SourceFile, item: cst.WithItem) -> bool:
    return isinstance(item.item, cst.Call) and dotted_name(source, item.item.func) in _OFF


def _is_return_of_names(line: cst.CSTNode) -> bool:
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    small = line.body[0]
    value = small.value if isinstance(small, cst.Return) else None
    values = [element.value for element in value.elements] if isinstance(value, cst.Tuple) else [value]
    return len(line.body) == 1 and all(isinstance(part, cst.Name) for part in values)


def _is_docstring(line: cst.CSTNode) -> bool:
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString | cst.ConcatenatedString)


def _eager(source: SourceFile, number: int) -> bytes:
    """The file with a function that Dynamo doesn't trace, while it compiles what the function calls."""
    function = _functions(source)[number]
    assert isinstance(function, cst.FunctionDef)  # _functions() says so
    decorator = cst.Decorator(cst.parse_expression("torch.compiler.disable(recursive=False)"))
    return source.replaced((function, function.with_changes(decorators=[decorator])), imports=("torch",))
