"""Code that Dynamo can't compile, or compile well, beside code that it can: move one of them into
its own function.
"""

from __future__ import annotations

import ast
import re

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.extraction import Run, call_of, not_traced, shell
from graphdoctor.fixes.source.nodes import expression
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    Statement,
    decline_if,
    known,
    need,
    parsed,
    walk,
)

_Block = cst.For | cst.While | cst.Try | cst.TryStar | cst.With

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
    decline_if(not moved, reason or f"there is nothing to compile in or around the `{keyword}`")
    return Edit(_title(keyword, line, moved), source.content, is_safe=True)


def _title(keyword: str, line: int, moved: set[str]) -> str:
    if len(moved) == 2:
        return f"Move the `{keyword}` at line {line} and its body into their own functions"
    return f"Move {'the body of ' if 'its body' in moved else ''}the `{keyword}` at line {line} into its own function"


def _start(place: Place) -> tuple[Statement, _Block]:
    statement = place.statement
    if isinstance(statement, _Block) and not _is_resumed(place.source, statement):
        return statement, statement
    block = _block_around(place.source, statement)
    if block is not None:
        return statement, block
    # The break is in a function that the block calls: the rule names the block's line.
    for location in place.finding.related:
        related = (
            place.source.statement_at(location.line)
            if location.file == place.finding.location.file
            else None
        )
        if isinstance(related, _Block):
            return related, related
    raise DeclinedError("no loop, `try` or `with` is around the line")


def _block_around(source: SourceFile, statement: cst.CSTNode) -> _Block | None:
    for node in source.parents(statement):
        if isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            return None
        if isinstance(node, _Block) and not _is_resumed(source, node):
            return node
    return None


def _is_resumed(source: SourceFile, block: _Block) -> bool:
    return isinstance(block, cst.With) and all(
        _RESUMED.match(source.code(item.item)) for item in block.items
    )


def _keyword(block: _Block) -> str:
    return type(block).__name__.lower().removesuffix("star")


def _suite_around(source: SourceFile, statement: Statement, block: _Block) -> cst.BaseSuite:
    """The body of the block that contains the statement; its first one for the block itself."""
    around = list(source.parents(statement))
    inside = around[: around.index(block)] if block in around else []
    return next((node for node in reversed(inside) if isinstance(node, cst.BaseSuite)), block.body)


def _is_worth_compiling(suite: cst.BaseSuite) -> bool:
    """Whether the body contains more than what breaks.

    With a counter on an object, torch would recompile the new function at every call.
    """
    if any(
        isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Attribute)
        for node in walk(suite)
    ):
        return False
    match suite.body:
        case [cst.SimpleStatementLine(body=[node])] | [cst.BaseSmallStatement() as node]:
            return not isinstance(node, cst.Pass | cst.Expr | cst.Raise) and not _is_plain_call(
                node
            )
    return True


def _is_plain_call(node: cst.CSTNode) -> bool:
    """``x = f(a, b)``: if the block isn't compiled, torch compiles ``f`` anyway."""
    plain = cst.Name | cst.Attribute | cst.BaseNumber | cst.SimpleString
    value = node.value if isinstance(node, cst.Assign | cst.Return) else None
    return isinstance(value, cst.Call) and all(
        isinstance(argument.value, plain) for argument in value.args
    )


def _has_company(source: SourceFile, block: Statement) -> bool:
    suite = source.parent(block)
    others = (
        [node for node in suite.body if node is not block]
        if isinstance(suite, cst.IndentedBlock)
        else []
    )
    return not all(map(_is_empty, others))


def _is_empty(node: cst.CSTNode) -> bool:
    """A docstring, ``pass``, or ``return x``."""
    empty = matchers.Pass() | matchers.Expr(matchers.SimpleString())
    returned = matchers.Return(value=None) | matchers.Return(
        value=matchers.Name() | matchers.Tuple()
    )
    return isinstance(node, cst.SimpleStatementLine) and all(
        matchers.matches(small, empty | returned) for small in node.body
    )


def _moved(source: SourceFile, run: Run, part: str) -> tuple[SourceFile, Statement]:
    name = source.free_name(f"_{run.function.name.value.strip('_')}_{part}")
    changed = run.moved(name)
    return changed, call_of(changed, name)


_KINDS = r"(?:Lock|RLock|Condition|Semaphore|BoundedSemaphore)"
_IN_CONTEXT = re.compile(rf"UserDefinedObjectVariable\((?:lock|{_KINDS})\)")
_LIBRARIES = {"torch", "nn", "F"}
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Tuple)


@recipe("GD110", "GD111", removes=False)
def narrow_lock(place: Place) -> Edit:
    """Moves statements that compute only with local variables out of ``with self.lock:``.

    Dynamo can't enter a lock. With the ``with`` in its own function, everything around it can be
    compiled, and the statements that need no lock are around it. Unsafe: another thread may write
    into a tensor that the variables hold.
    """
    source = place.source
    block = need(place.statement, cst.With, "the line doesn't begin a `with`", "another_line")
    body = need(block.body, cst.IndentedBlock, "the line doesn't begin a `with`", "another_line")
    name = source.free_name(f"_{place.function.name.value.strip('_')}_with")
    lock = _lock(place, block)
    narrowed = _narrowed(source, block, body)
    # What moved out contains no `with`, so the narrowed one has the same number among them.
    number = matchers.findall(source.tree, matchers.With()).index(block)
    found = need(matchers.findall(narrowed.tree, matchers.With())[number], cst.With, "")
    return Edit(
        f"Hold `{lock}` only around shared state",
        Run.of_statement(narrowed, found).moved(name).content,
    )


def _lock(place: Place, block: cst.With) -> str:
    if len(block.items) != 1 or block.items[0].asname is not None:
        raise DeclinedError("the `with` enters more than a lock")
    lock = place.source.code(block.items[0].item)
    made = re.compile(rf"\b{re.escape(lock)}\s*(?::[^=\n]+)?=\s*(?:threading\.)?{_KINDS}\(")
    if not _IN_CONTEXT.search(place.context) and not made.search(place.source.tree.code):
        raise DeclinedError(f"nothing shows that `{lock}` is a lock")
    return lock


def _narrowed(source: SourceFile, block: cst.With, suite: cst.IndentedBlock) -> SourceFile:
    is_free = [_is_computation(statement) for statement in suite.body]
    decline_if(all(is_free), "the code under the lock only computes")
    start, stop = is_free.index(False), len(is_free) - is_free[::-1].index(False)
    if stop - start == len(suite.body):
        raise DeclinedError(
            "the code under the lock neither begins nor ends with a computation on local variables"
        )
    kept = block.with_changes(body=suite.with_changes(body=suite.body[start:stop]))
    return source.changed((block, [*suite.body[:start], kept, *suite.body[stop:]]))


def _is_computation(statement: cst.BaseStatement | cst.BaseSmallStatement) -> bool:
    """``y = torch.relu(x) * 2``, or a ``return`` of it: local variables, torch's functions and
    tensor methods only.
    """
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    return all(
        isinstance(small, ast.Return | ast.Assign)
        and small.value is not None
        and all(
            isinstance(target, ast.Name)
            for target in (small.targets if isinstance(small, ast.Assign) else ())
        )
        and _is_pure(small.value)
        for small in parsed([statement])
    )


def _is_pure(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr.endswith("_"):
            return False
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        return (_is_library(function.value) or _is_pure(function.value)) and all(
            map(_is_pure, arguments)
        )
    if isinstance(node, ast.Name):
        return node.id not in ("self", "cls")
    return isinstance(node, _OPERATIONS) and all(
        _is_pure(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
    )


def _is_library(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _LIBRARIES


@recipe("GD102", "GD103", "GD104", "GD105", "GD109")
def statistics_outside(place: Place) -> Edit:
    """Moves what comes before a closing ``with torch.no_grad():`` block into a method, the part
    that torch compiles.

    Nothing that is returned depends on gradients there, so the block usually collects metrics, with
    shapes and numbers that depend on values. Only for the method that torch.compile is given,
    because Dynamo breaks before a function that it may not trace. Safe: the same statements run in
    the same order.
    """
    source, function = place.source, place.function
    if function.name.value != "forward" or function.decorators:
        raise DeclinedError("it isn't in the `forward` of a module")
    decline_if(not place.is_outermost, "it isn't in the function that torch.compile was given")
    block = _no_grad_block(source, place.statement, function)
    body = list(function.body.body)
    at = body.index(block)
    names = matchers.Name() | matchers.Tuple(
        elements=[matchers.ZeroOrMore(matchers.Element(matchers.Name()))]
    )
    returned = matchers.SimpleStatementLine([matchers.Return(value=names)])
    if not all(matchers.matches(line, returned) for line in body[at + 1 :]):
        raise DeclinedError("more than a `return` of names comes after the `with torch.no_grad()`")
    start = int(function.get_docstring() is not None)
    decline_if(start == at, "nothing comes before the `with torch.no_grad()`")
    run = Run(source, function, function.body, start, at)
    content = run.moved_and(source.free_name("_compute"), lambda _, caller: not_traced(caller))
    title = f"Run the `with torch.no_grad()` at line {source.start(block)[0]} after the compiled part of `forward`"
    return Edit(title, content, is_safe=True)


def _no_grad_block(
    source: SourceFile, statement: cst.CSTNode, function: cst.FunctionDef
) -> cst.With:
    around = [statement, *source.parents(statement)]
    outside = "the line isn't inside a `with torch.no_grad()` of the function"
    block = need(around[around.index(function.body) - 1], cst.With, outside)
    is_off = all(
        isinstance(item.item, cst.Call) and source.is_without_grad(item.item)
        for item in block.items
    )
    decline_if(block.asynchronous is not None or not is_off, outside)
    return block


_TRAINING = ("zero_grad", "backward", "step", "update", "train", "eval")
"""Methods of optimizers, schedulers, gradient scalers, losses and models that a training step
calls."""

_IS_TRAINING = matchers.Call(
    func=matchers.Attribute(attr=matchers.OneOf(*map(matchers.Name, _TRAINING)))
)
_IS_STEP = matchers.Expr(matchers.Call(func=matchers.Attribute(attr=matchers.Name("step"))))
_IS_BACKWARD = matchers.Expr(matchers.Call(func=matchers.Attribute(attr=matchers.Name("backward"))))


@recipe("GD112")
def backward_out_of_region(place: Place) -> Edit:
    """Moves the code before ``loss.backward()`` into its own function and lets Dynamo skip the
    rest.

    Dynamo then compiles the new function, and AOTAutograd its backward pass; ``backward()`` and the
    optimizer's step run eagerly, without a break. Unsafe: the optimizer's step is no longer
    compiled, which the user has to decide.
    """
    source, function = place.source, place.function
    if any("disable" in source.code(decorator) for decorator in function.decorators):
        raise DeclinedError("Dynamo is already disabled for the function")
    name = source.free_name(f"_{function.name.value.strip('_')}_loss")
    content = _forward(source, function).moved_and(name, _skipped)
    return Edit(f"Compile only the forward pass and the loss of `{function.name.value}`", content)


def _forward(source: SourceFile, function: cst.FunctionDef) -> Run:
    body = function.body.body
    ends = (at for at, statement in enumerate(body) if _is_line_of(statement, _IS_BACKWARD))
    stop = known(next(ends, None), "the function's body has no `backward()` on its own line")
    while stop and _is_between(body[stop - 1]):
        stop -= 1
    start = stop
    while start and not _is_between(body[start - 1]):
        start -= 1
    decline_if(
        start == stop, "there is no forward pass and loss before `backward()` on their own lines"
    )
    run = Run(source, function, function.body, start, stop)
    if any(matchers.findall(statement, _IS_TRAINING) for statement in run.statements):
        raise DeclinedError(
            "there are calls of the training step between the forward pass and the loss"
        )
    return run


def _is_line_of(statement: cst.CSTNode, matcher: matchers.Expr) -> bool:
    smalls = statement.body if isinstance(statement, cst.SimpleStatementLine) else []
    return bool(smalls) and all(matchers.matches(small, matcher) for small in smalls)


def _is_between(statement: cst.CSTNode) -> bool:
    return _is_line_of(statement, matchers.Expr(_IS_TRAINING | matchers.SimpleString()))


def _skipped(source: SourceFile, function: cst.FunctionDef) -> cst.FunctionDef:
    changed: cst.CSTNode = function
    for step in matchers.findall(function, _IS_STEP):
        # Otherwise Dynamo would compile the step's own frame, which contains an explicit graph
        # break.
        func = need(need(step, cst.Expr, "").value, cst.Call, "").func
        changed = changed.deep_replace(
            func, expression("torch.compiler.disable({func})", func=func)
        )
    is_method = isinstance(next(source.parents(source.parent(function)), None), cst.ClassDef)
    # `@torch.compile` on a method gets a function that isn't bound to an object yet.
    return shell(
        need(changed, cst.FunctionDef, ""), is_method=is_method and not function.decorators
    )
