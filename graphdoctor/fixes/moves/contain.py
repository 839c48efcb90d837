"""Leaves a break where it is, and compiles what is around it: the last resort, and only if the call
is faster for it.

A block that Dynamo can't resume in, or its body, moves into a function of its own.
``trace_backward`` alone is a setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from libcst import (
    Assign,
    Attribute,
    AugAssign,
    BaseNumber,
    BaseSmallStatement,
    BaseSuite,
    Call,
    ClassDef,
    CSTNode,
    Expr,
    For,
    FunctionDef,
    IndentedBlock,
    Lambda,
    Name,
    Pass,
    Raise,
    Return,
    SimpleStatementLine,
    SimpleString,
    Try,
    TryStar,
    While,
    With,
    matchers,
)

from graphdoctor.fixes.entry_file import with_settings
from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.extraction import Run, call_of
from graphdoctor.fixes.source.nodes import assigned, called, calls_in, expression
from graphdoctor.fixes.source.torch_names import INTEGER_METHODS
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    Statement,
    decline_if,
    find,
    known,
    need,
)

_Block = For | While | Try | TryStar | With

_RESUMED = re.compile(
    r"torch\.(no_grad|enable_grad|set_grad_enabled|inference_mode|autocast|(amp|cuda\.amp|cpu\.amp)\.autocast)\b"
)
"""Context managers in which Dynamo can resume after a break
(``torch/_dynamo/variables/ctx_manager.py``, 2.13)."""

_PARTS = {
    "for": ("loop", "step"),
    "while": ("loop", "step"),
    "try": ("try", "attempt"),
    "with": ("with", "body"),
}


@recipe("GD110", "GD111", removes=False)
def own_function(place: Place) -> Edit:
    """Moves the body of a loop, ``try`` or ``with`` that contains a break, and the block itself,
    into functions.

    Dynamo skips a function if it can't resume after a break in it; the functions that call it break
    there and resume. In its own function, the body is compiled before and after the break; without
    the block, so is the code around it. The break stays, in the smallest possible function. Safe:
    the same statements run in the same order.
    """
    statement, block = _start(place)
    keyword, line = _keyword(block), place.source.start(block)[0]
    source, moved, reason = place.source, set[str](), ""
    around: _Block | None = block
    while around is not None:
        whole, part = _PARTS[_keyword(around)]
        # The body of the block that contains the statement; its first one for the block itself.
        parents = list(source.parents(statement))
        inside = parents[: parents.index(around)] if around in parents else []
        suites = (node for node in reversed(inside) if isinstance(node, BaseSuite))
        suite = next(suites, around.body)
        statement = around
        try:
            if _is_worth_compiling(suite):
                source, call = _moved(source, Run.of_suite(source, suite), part)
                statement = _block_around(source, call) or call
                moved.add("body")
        except DeclinedError as error:
            reason = reason or error.reason
        try:
            if _has_company(source, statement):
                source, statement = _moved(source, Run.of_statement(source, statement), whole)
                moved.add("block")
        except DeclinedError as error:
            reason = reason or error.reason
        around = _block_around(source, statement)
    decline_if(not moved, reason or f"there is nothing to compile in or around the `{keyword}`")
    shown = f"the `{keyword}` at line {line}"
    title = f"Move {'the body of ' if 'body' in moved else ''}{shown} into its own function"
    if len(moved) == 2:
        title = f"Move {shown} and its body into their own functions"
    return Edit(title, source.content, is_safe=True)


def _start(place: Place) -> tuple[Statement, _Block]:
    source, statement = place.source, place.statement
    if isinstance(statement, _Block) and not _is_resumed(source, statement):
        return statement, statement
    block = _block_around(source, statement)
    if block is not None:
        return statement, block
    # The break is in a function that the block calls: the rule names the block's line.
    file = place.finding.location.file
    lines = [location.line for location in place.finding.related if location.file == file]
    for related in map(source.statement_at, lines):
        if isinstance(related, _Block):
            return related, related
    raise DeclinedError("no loop, `try` or `with` is around the line")


def _block_around(source: SourceFile, statement: CSTNode) -> _Block | None:
    for node in source.parents(statement):
        if isinstance(node, FunctionDef | Lambda | ClassDef):
            return None
        if isinstance(node, _Block) and not _is_resumed(source, node):
            return node
    return None


def _is_resumed(source: SourceFile, block: _Block) -> bool:
    items = block.items if isinstance(block, With) else ()
    return bool(items) and all(_RESUMED.match(source.code(item.item)) for item in items)


def _keyword(block: _Block) -> str:
    return type(block).__name__.lower().removesuffix("star")


def _is_worth_compiling(suite: BaseSuite) -> bool:
    """Check whether the body contains more than what breaks.

    With a counter on an object, torch would recompile the new function at every call.
    """
    if any(isinstance(node.target, Attribute) for node in find(suite, AugAssign)):
        return False
    match suite.body:
        case [SimpleStatementLine(body=[node])] | [BaseSmallStatement() as node]:
            return not isinstance(node, Pass | Expr | Raise) and not _is_plain_call(node)
    return True


def _is_plain_call(node: CSTNode) -> bool:
    """``x = f(a, b)``: if the block isn't compiled, torch compiles ``f`` anyway."""
    plain = Name | Attribute | BaseNumber | SimpleString
    match node:
        case Assign(value=Call(args=args)) | Return(value=Call(args=args)):
            return all(isinstance(argument.value, plain) for argument in args)
    return False


_EMPTY = matchers.SimpleStatementLine(
    [
        matchers.ZeroOrMore(
            matchers.Pass()
            | matchers.Expr(matchers.SimpleString())
            | matchers.Return(None)
            | matchers.Return(matchers.Name() | matchers.Tuple())
        )
    ]
)
"""A docstring, ``pass``, or ``return x``."""


def _has_company(source: SourceFile, block: Statement) -> bool:
    suite = source.parent(block)
    lines = suite.body if isinstance(suite, IndentedBlock) else ()
    return any(line is not block and not matchers.matches(line, _EMPTY) for line in lines)


def _moved(source: SourceFile, run: Run, part: str) -> tuple[SourceFile, Statement]:
    name = source.part_name(run.function, part)
    changed = run.moved(name)
    return changed, call_of(changed, name)


@recipe("GD112")
def trace_backward(place: Place) -> Edit:
    """Sets ``trace_autograd_ops``, and detaches the loss, and what it is made of, right after
    ``loss.backward()``.

    torch traces the backward pass then. Where a tensor that was differentiated is returned, or used
    after a later break, it breaks at ``backward()`` all the same: its graph is gone (GB4927, seen
    on 2.13). Without such a use the setting alone does, which is tried by itself. Unsafe: what is
    detached no longer requires a gradient, which whoever gets it may need.
    """
    source = place.source
    line = need(place.statement, SimpleStatementLine, "the line begins a compound statement")
    calls = [call for call in calls_in(line) if called(call) == "backward"]
    decline_if(not calls, "the line doesn't call `backward()`", "another_line")
    is_alone = matchers.matches(
        line, matchers.SimpleStatementLine([matchers.Expr(matchers.Call(args=[]))])
    )
    decline_if(not is_alone, "`backward()` has arguments, or shares its line")
    loss = source.receiver(calls[0])
    loss = need(loss, Name, "`backward()` is called on more than a variable")
    number = source.start(line)[0]
    kept = dict.fromkeys(
        name.value
        for name in (loss, *_made_of(source, loss))
        if source.is_local(name)
        and any(source.start(read)[0] > number for read in source.reads(name))
    )
    decline_if(not kept, "the loss isn't used after it")
    detached = [assigned(name, expression("{name}.detach()", name=Name(name))) for name in kept]
    written = source.replaced((line, [line.deep_clone(), *detached]))
    content = with_settings(written, ["torch._dynamo.config.trace_autograd_ops = True"])
    title = f"Let torch trace the backward pass, and detach `{'`, `'.join(kept)}` after it"
    return Edit(title, known(content, "Python can't parse the file"))


_WITHOUT_GRADIENT = INTEGER_METHODS | {"detach", "one_hot", "randint"}


def _made_of(source: SourceFile, loss: Name) -> Iterator[Name]:
    """Iterate over variables of the function that the loss is computed from, and that a gradient
    goes through.
    """
    for value in filter(None, source.values(loss)):
        for name in find(value, Name):
            if source.is_local(name) and source.parameter(name) is None:
                calls = calls_in(*filter(None, source.values(name)))
                if _WITHOUT_GRADIENT.isdisjoint(map(called, calls)):
                    yield name
