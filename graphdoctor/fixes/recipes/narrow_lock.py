"""A lock around computations: hold it only around shared state."""

from __future__ import annotations

import ast
import re
from typing import ClassVar

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.extraction import Run
from graphdoctor.fixes.syntax.local_names import parsed
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import SourceFile, UnreadableError

_KINDS = r"(?:Lock|RLock|Condition|Semaphore|BoundedSemaphore)"
_IN_CONTEXT = re.compile(rf"UserDefinedObjectVariable\((?:lock|{_KINDS})\)")
_LIBRARIES = {"torch", "nn", "F"}
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Tuple)


class NarrowLock(Recipe):
    """Moves statements that compute only with local variables out of ``with self.lock:``.

    Dynamo can't enter a lock. With the ``with`` in its own function, everything around it can be compiled, and the
    statements that need no lock are around it. Unsafe: another thread may write into a tensor that the variables hold.
    """

    name: ClassVar = "narrow-lock"
    codes: ClassVar = frozenset({"GD110", "GD111"})
    removes: ClassVar = False

    def edit(self, place: Place) -> Edit:
        """The computations before and after the ``with``, and the rest of it in its own function.

        Raises:
            DeclinedError: It isn't a lock, or nothing under it only computes.
        """
        block, source = place.statement, place.source
        if not isinstance(block, cst.With) or not isinstance(block.body, cst.IndentedBlock):
            raise DeclinedError("the line doesn't begin a `with`")
        function = source.function_of(block)
        if not isinstance(function, cst.FunctionDef):
            raise DeclinedError("the line isn't in a function")
        lock = _lock(place, block)
        narrowed = _narrowed(source, block, block.body)
        # What moved out contains no `with`, so the narrowed one has the same number among them.
        number = next(at for at, found in enumerate(matchers.findall(source.tree, matchers.With())) if found is block)
        found = matchers.findall(narrowed.tree, matchers.With())[number]
        assert isinstance(found, cst.With)  # the matcher says so
        name = narrowed.free_name(f"_{function.name.value.strip('_')}_with")
        content = Run.of_statement(narrowed, found).moved(name).content
        return Edit(title=f"Hold `{lock}` only around shared state", content=content, is_safe=False)


def _lock(place: Place, block: cst.With) -> str:
    if len(block.items) != 1 or block.items[0].asname is not None:
        raise DeclinedError("the `with` enters more than a lock")
    lock = place.source.code(block.items[0].item)
    made = re.compile(rf"\b{re.escape(lock)}\s*(?::[^=\n]+)?=\s*(?:threading\.)?{_KINDS}\(")
    if not _IN_CONTEXT.search(place.context) and not made.search(place.source.tree.code):
        raise DeclinedError(f"nothing shows that `{lock}` is a lock")
    return lock


def _narrowed(source: SourceFile, block: cst.With, suite: cst.IndentedBlock) -> SourceFile:
    """The file with the computations at both ends of the body moved out of the ``with``."""
    try:
        is_free = [_is_computation(statement) for statement in suite.body]
    except (SyntaxError, RecursionError):
        raise DeclinedError("this version of Python can't parse it") from None
    if all(is_free):
        raise DeclinedError("the code under the lock only computes")
    start, stop = is_free.index(False), len(is_free) - is_free[::-1].index(False)
    if stop - start == len(suite.body):
        raise DeclinedError("the code under the lock neither begins nor ends with a computation on local variables")
    kept = block.with_changes(body=suite.with_changes(body=suite.body[start:stop]))
    lines = [*suite.body[:start], kept, *suite.body[stop:]]
    try:
        return SourceFile.parse(source.path, source.replaced((block, cst.FlattenSentinel(lines))))
    except UnreadableError as error:
        raise DeclinedError(error.reason) from None


def _is_computation(statement: cst.BaseStatement | cst.BaseSmallStatement) -> bool:
    """``y = torch.relu(x) * 2``, or a ``return`` of it: local variables, torch's functions and tensor methods only."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    return all(
        isinstance(small, ast.Return | ast.Assign)
        and small.value is not None
        and all(isinstance(target, ast.Name) for target in (small.targets if isinstance(small, ast.Assign) else ()))
        and _is_pure(small.value)
        for small in parsed([statement])
    )


def _is_pure(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr.endswith("_"):
            return False
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        return (_is_library(function.value) or _is_pure(function.value)) and all(map(_is_pure, arguments))
    if isinstance(node, ast.Name):
        return node.id not in ("self", "cls")
    return isinstance(node, _OPERATIONS) and all(
        _is_pure(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
    )


def _is_library(node: ast.expr) -> bool:
    """``torch``, ``torch.nn.functional``, ``F``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _LIBRARIES
