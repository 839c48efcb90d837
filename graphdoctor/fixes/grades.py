"""Grades a fix by what it adds to the source: a second code path, a setting, or a shell that torch
doesn't compile.

Comes in: each edited file before and after. Goes out: a grade. Titles aren't read.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from graphdoctor.facts.fixes import Grade
from graphdoctor.facts.stack import parsed

MAX_PASSED = 3
"""Values that a helper may take, or return, so that its function still reads as one."""

_UNCOMPILED = {
    "torch.compiler.disable",
    "torch.compiler.set_stance",
    "torch._disable_dynamo",
    "torch._dynamo.disable",
    "torch._dynamo.disallow_in_graph",
    "torch._dynamo.graph_break",
    "torch._dynamo.decorators.skip",
    "torch._dynamo.decorators.disable",
    "torch._dynamo.eval_frame.disable",
}
"""Names with which torch leaves code out of its graphs."""

_MODE_NAMES = {"is_compiling", "is_dynamo_compiling", "is_torchdynamo_compiling", "is_exporting"}
"""Names with which a program asks if it is compiled."""

_SETTINGS = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    "torch.compiler.config",
    "torch.fx.experimental._config",
)


def grade_of(
    texts: Iterable[tuple[bytes, bytes]], *, is_code: bool = True, contains: bool = False
) -> Grade:
    """Grade a change.

    Args:
        texts: Each edited file before and after.
        is_code: False for a setting, or a change of how the target is compiled and called.
        contains: Whether it is meant to leave the break where it is.
    """
    added = Counter[Grade]()
    for before, after in texts:
        trees = parsed(before), parsed(after)
        old, new = (Counter(_marks(tree)) if tree else Counter() for tree in trees)
        added.update(grade for _, grade in new - old)
        known = {function.name for function in _functions(trees[0])}
        helpers = (function for function in _functions(trees[1]) if function.name not in known)
        added["contained"] += sum(max(_passed(helper)) > MAX_PASSED for helper in helpers)
    if contains or added["contained"]:
        return "contained"
    return "guarded" if added["guarded"] or not is_code else "merged"


def _marks(tree: ast.Module) -> Iterator[tuple[str, Grade]]:
    """Find what makes a program one of several code paths or leaves some of it uncompiled."""
    origins = dict(_imported_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := _dotted_name(node)):
            first, dot, rest = name.partition(".")
            full = f"{origins.get(first, first)}{dot}{rest}"
            if full in _UNCOMPILED:
                yield full, "contained"
            elif full.rpartition(".")[2] in _MODE_NAMES or full in _SETTINGS:
                yield full, "guarded"


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that imports bind to something of another name, and its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                if alias.asname or package:
                    yield alias.asname or alias.name, f"{package}{alias.name}"


def _dotted_name(node: ast.expr) -> str | None:
    """Write a name with its attributes; None for any other expression."""
    if isinstance(node, ast.Attribute):
        owner = _dotted_name(node.value)
        return owner and f"{owner}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


def _functions(tree: ast.Module | None) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _passed(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """Count the values that a function takes, but for its object, and the most that it returns."""
    given = function.args
    parameters = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    values = (node.value for node in ast.walk(function) if isinstance(node, ast.Return))
    tuples = [len(value.elts) for value in values if isinstance(value, ast.Tuple)]
    return len(parameters) - (parameters[:1] in (["self"], ["cls"])), max(tuples, default=1)
