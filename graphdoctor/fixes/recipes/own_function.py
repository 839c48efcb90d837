"""A break that must stay in a loop, a ``try`` or a ``with``: keep it in its own function."""

from __future__ import annotations

import re
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.extraction import Run, call_of
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import SourceFile, Statement, walk

_Block = cst.For | cst.While | cst.Try | cst.TryStar | cst.With

_RESUMED = re.compile(
    r"torch\.(no_grad|enable_grad|set_grad_enabled|inference_mode|autocast|(amp|cuda\.amp|cpu\.amp)\.autocast)\b"
)
"""Context managers in which Dynamo can resume after a break (``torch/_dynamo/variables/ctx_manager.py``, 2.13)."""

_KEYWORDS: tuple[tuple[type[cst.CSTNode], str], ...] = (
    (cst.For, "for"),
    (cst.While, "while"),
    (cst.Try, "try"),
    (cst.TryStar, "try"),
    (cst.With, "with"),
)
_PARTS = {"for": ("loop", "step"), "while": ("loop", "step"), "try": ("try", "attempt"), "with": ("with", "body")}


class OwnFunction(Recipe):
    """Moves the body of a loop, ``try`` or ``with`` that contains a break, and the block itself, into functions.

    Dynamo skips a function if it can't resume after a break in it; the functions that call it break there and resume.
    In its own function, the body is compiled before and after the break; without the block, so is the code around it.
    The break stays, in the smallest possible function. Safe: the same statements run in the same order.
    """

    name: ClassVar = "own-function"
    codes: ClassVar = frozenset({"GD110", "GD111"})
    removes: ClassVar = False

    def edit(self, place: Place) -> Edit:
        """The body and the block, each in its own function.

        Raises:
            DeclinedError: The line isn't in such a block, or moving it could change what the program does.
        """
        statement, block = _start(place)
        keyword, line = _keyword(block), place.source.position(block).start.line
        source, moved, reason = place.source, set[str](), ""
        around: _Block | None = block
        while around is not None:
            whole, part = _PARTS[_keyword(around)]
            suite = _suite_around(source, statement, around)
            statement = around
            if _is_worth_compiling(suite):
                try:
                    source, call = _moved(source, Run.of_suite(source, suite), part)
                    statement = _block_around(source, call) or call
                    moved.add("its body")
                except DeclinedError as error:
                    reason = reason or error.reason
            if _has_company(source, statement):
                try:
                    source, statement = _moved(source, Run.of_statement(source, statement), whole)
                    moved.add("itself")
                except DeclinedError as error:
                    reason = reason or error.reason
            around = _block_around(source, statement)
        if not moved:
            raise DeclinedError(reason or f"there is nothing to compile in or around the `{keyword}`")
        return Edit(title=_title(keyword, line, moved), content=source.content, is_safe=True)


def _title(keyword: str, line: int, moved: set[str]) -> str:
    if len(moved) == 2:
        return f"Move the `{keyword}` at line {line} and its body into their own functions"
    what = f"the body of the `{keyword}`" if "its body" in moved else f"the `{keyword}`"
    return f"Move {what} at line {line} into its own function"


def _start(place: Place) -> tuple[Statement, _Block]:
    """The statement that breaks, and the block that keeps torch from resuming after it."""
    statement = place.statement
    if isinstance(statement, _Block) and not _is_resumed(place.source, statement):
        return statement, statement
    block = _block_around(place.source, statement)
    if block is not None:
        return statement, block
    # The break is in a function that the block calls: the rule names the block's line.
    for location in place.finding.related:
        related = place.source.statement_at(location.line) if location.file == place.finding.location.file else None
        if isinstance(related, _Block):
            return related, related
    raise DeclinedError("no loop, `try` or `with` is around the line")


def _block_around(source: SourceFile, statement: cst.CSTNode) -> _Block | None:
    """The innermost block around a statement in which Dynamo can't resume."""
    for node in source.parents(statement):
        if isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            return None
        if isinstance(node, _Block) and not _is_resumed(source, node):
            return node
    return None


def _is_resumed(source: SourceFile, block: _Block) -> bool:
    return isinstance(block, cst.With) and all(_RESUMED.match(source.code(item.item)) for item in block.items)


def _keyword(block: _Block) -> str:
    return next(keyword for kind, keyword in _KEYWORDS if isinstance(block, kind))


def _suite_around(source: SourceFile, statement: Statement, block: _Block) -> cst.BaseSuite:
    """The body of the block that contains the statement; its first one for the block itself."""
    suite = block.body
    for node in source.parents(statement):
        if node is block:
            return suite
        if isinstance(node, cst.BaseSuite):
            suite = node
    return block.body


def _is_worth_compiling(suite: cst.BaseSuite) -> bool:
    """Whether the body contains more than what breaks.

    With a counter on an object, torch would recompile the new function at every call.
    """
    if any(isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Attribute) for node in walk(suite)):
        return False
    if len(suite.body) > 1:
        return True
    node = suite.body[0]
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        node = node.body[0]
    return not isinstance(node, cst.Pass | cst.Expr | cst.Raise) and not _is_plain_call(node)


def _is_plain_call(node: cst.CSTNode) -> bool:
    """``x = f(a, b)``: if the block isn't compiled, torch compiles ``f`` anyway."""
    value = node.value if isinstance(node, cst.Assign | cst.Return) else None
    return isinstance(value, cst.Call) and all(
        isinstance(argument.value, cst.Name | cst.Attribute | cst.BaseNumber | cst.SimpleString)
        for argument in value.args
    )


def _has_company(source: SourceFile, block: Statement) -> bool:
    """Whether there is code beside the block that torch could compile."""
    suite = next(source.parents(block))
    return isinstance(suite, cst.IndentedBlock) and any(
        node is not block and not _is_empty(node) for node in suite.body
    )


def _is_empty(node: cst.CSTNode) -> bool:
    """A docstring, ``pass``, or ``return x``."""
    if not isinstance(node, cst.SimpleStatementLine):
        return False
    for small in node.body:
        match small:
            case cst.Pass() | cst.Expr(cst.SimpleString()) | cst.Return(None | cst.Name() | cst.Tuple()):
                continue
            case _:
                return False
    return True


def _moved(source: SourceFile, run: Run, part: str) -> tuple[SourceFile, Statement]:
    """The file with the run in its own function, and the statement that calls it."""
    name = source.free_name(f"_{run.function.name.value.strip('_')}_{part}")
    changed = run.moved(name)
    return changed, call_of(changed, name)
