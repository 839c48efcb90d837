"""What Python has to do in between, such as steer a loop: compile what is before, in and after
it.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from functools import partial

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.effects import is_read, reads_tensor
from graphdoctor.fixes.source.extraction import (
    Run,
    computes,
    functions_in,
    leaves,
    operations_in,
    owner_of,
    shell,
)
from graphdoctor.fixes.source.flow import flow
from graphdoctor.fixes.source.names import Names
from graphdoctor.fixes.source.nodes import after_lines, assigned, calls_in, name_set
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    decline_if,
    known,
    need,
    parsed,
    with_replaced,
)

_Loop = cst.For | cst.While
_Block = _Loop | cst.With | cst.If

_CASTS = frozenset({"builtins.float", "builtins.int"})

_APPEND = matchers.SimpleStatementLine(
    [
        matchers.Expr(
            matchers.Call(
                matchers.Attribute(matchers.Name(), matchers.Name("append")), [matchers.Arg()]
            )
        )
    ]
)


@recipe("GD102", "GD103", "GD111", "GD119")
def loop_outside(place: Place) -> Edit:
    """Compiles the step, not the loop: ``while not done.all():`` runs in Python and calls what is
    compiled.

    What a tensor decides in the loop stays there. Only in the function that torch.compile is given,
    because Dynamo breaks before a function that it may not trace. Safe: the same statements run in
    the same order.
    """
    place = place.in_outermost
    source, function = place.source, place.function
    owner = owner_of(source, function)
    need(function.body, cst.IndentedBlock, "the function's body is on one line")
    around = [place.statement, *source.parents(place.statement)]
    around = around[: around.index(function)]
    loop = next((node for node in around if isinstance(node, _Loop)), None)
    if loop is None:
        raise DeclinedError("no loop is around the line", "another_line")
    blocks = [node for node in around[around.index(loop) :] if not isinstance(node, cst.BaseSuite)]
    if not all(isinstance(block, _Block) for block in blocks):
        raise DeclinedError("the loop is in a `try`, `match` or `else`")
    decline_if(
        any(getattr(block, "orelse", None) is not None for block in blocks), "there is an `else`"
    )
    source, decided = _without_appends(source, function, loop, around)
    parts = _Parts(source, functions_in(place.source).index(function))
    path = [_index(place.source, block) for block in reversed(blocks)]
    for depth, at in enumerate(path):
        parts.move(path[:depth], at + 1, None, "after_loop")
    has_step = parts.move(path, 0, None, "step", decided)
    decline_if(not has_step, parts.reason or "there is nothing to compile in the loop")
    doc = int(function.get_docstring() is not None)
    for depth, at in reversed(list(enumerate(path))):
        parts.move(path[:depth], doc if depth == 0 else 0, at, "before_loop")
    content = parts.content(is_method=owner is not None)
    keyword, line = type(loop).__name__.lower(), place.source.position(loop).start.line
    return Edit(
        f"Run the `{keyword}` at line {line} in Python, and compile what is in it",
        content,
        is_safe=True,
    )


@recipe("GD112")
def grad_outside(place: Place) -> Edit:
    """Compiles what comes before and after ``torch.autograd.grad(…)``, and calls that in between.

    AOTAutograd makes the backward pass of the part before. Only in the function that torch.compile
    is given, because Dynamo breaks before a function that it may not trace. Safe: the same
    statements run in the same order.
    """
    place = place.in_outermost
    source, function = place.source, place.function
    owner = owner_of(source, function)
    calls = [
        call
        for call in calls_in(place.statement)
        if source.dotted_name(call) == "torch.autograd.grad"
    ]
    decline_if(not calls, "the line doesn't call `torch.autograd.grad`", "another_line")
    body = need(function.body, cst.IndentedBlock, "the function's body is on one line").body
    decline_if(
        all(line is not place.statement for line in body), "the line isn't in the function's body"
    )
    at = list(body).index(place.statement)
    parts = _Parts(source, functions_in(source).index(function))
    parts.move([], at + 1, None, "update")
    has_loss = parts.move([], int(function.get_docstring() is not None), at, "loss")
    decline_if(not has_loss, parts.reason or "there is nothing to compile before it")
    content = parts.content(is_method=owner is not None)
    line = source.position(place.statement).start.line
    return Edit(
        f"Run `torch.autograd.grad` at line {line} between what is compiled", content, is_safe=True
    )


_COPIES = ("copy.copy", "copy.deepcopy")
_COMPARING = (
    cst.LessThan
    | cst.LessThanEqual
    | cst.GreaterThan
    | cst.GreaterThanEqual
    | cst.Equal
    | cst.NotEqual
)


@recipe("GD102", "GD103", "GD108", "GD119")
def line_outside(place: Place) -> Edit:
    """Compiles what is before and after a line that Python has to run, and the branches of an
    ``if``.

    That is an ``if`` or ``assert`` on a tensor, ``copy.deepcopy(…)``, or a ``return`` with a number
    that is read. Only in the function that torch.compile is given, because Dynamo breaks before a
    function that it may not trace. The same statements run in the same order, but the graphs are as
    many as with the break, so somebody has to decide whether that is worth the functions: unsafe.
    """
    decline_if(
        place.in_outermost is not place, "it isn't in the function that torch.compile was given"
    )
    source, function, line = place.source, place.function, place.statement
    owner = owner_of(source, function)
    # Dynamo would trace the wrapper that ``torch.no_grad`` makes, and break before the function
    # itself.
    decline_if(function.decorators, "the function has a decorator")
    need(function.body, cst.IndentedBlock, "the function's body is on one line")
    suite = need(source.parent(line), cst.IndentedBlock, "the line shares a line with others")
    around = list(source.parents(line))
    blocks = [
        node for node in around[: around.index(function)] if not isinstance(node, cst.BaseSuite)
    ]
    is_plain = all(isinstance(block, cst.With | cst.If) for block in blocks)
    decline_if(not is_plain, "it is inside a loop, a `try`, a `match` or an `else`")
    read = line.test if isinstance(line, cst.If) else line
    is_alone = isinstance(line, cst.If) and operations_in([function.body]) <= operations_in([read])
    decline_if(is_alone, "there is nothing to compile around it")
    before, kept = _in_python(place, line)
    at = suite.body.index(line)
    path = [_index(source, block) for block in reversed(blocks)]
    lines = [*suite.body[:at], *before, kept, *suite.body[at + 1 :]]
    changed_file = source.changed((suite, suite.with_changes(body=lines))) if before else source
    parts = _Parts(changed_file, functions_in(source).index(function))
    at += len(before)
    moved = [
        parts.move(path[:depth], one + 1, None, "rest") for depth, one in enumerate([*path, at])
    ]
    branch: cst.CSTNode | None = line
    hops = 0
    while isinstance(branch, cst.If | cst.Else):
        moved.append(parts.move([*path, at], 0, None, "else" if hops else "then", hops=hops))
        branch, hops = getattr(branch, "orelse", None), hops + 1
    doc = int(function.get_docstring() is not None)
    for depth, one in reversed(list(enumerate([*path, at]))):
        moved.append(parts.move(path[:depth], doc if depth == 0 else 0, one, "first"))
    decline_if(not any(moved), parts.reason or "there is nothing to compile around it")
    content = parts.content(is_method=owner is not None)
    number = source.position(line).start.line
    what = f"the `if` at line {number}" if isinstance(line, cst.If) else f"line {number}"
    title = f"Run {what} in Python, and compile what is {'around and in' if isinstance(line, cst.If) else 'around'} it"
    return Edit(
        title, content, moved_out=operations_in([kept.test if isinstance(kept, cst.If) else kept])
    )


def _in_python(
    place: Place, line: cst.BaseStatement
) -> tuple[list[cst.BaseStatement], cst.BaseStatement]:
    """What Python needs, computed under a name where that can be compiled, and the line as it is
    left.
    """
    source, names = place.source, Names(place.source, place.function)
    values: list[cst.BaseExpression] = []
    match line:
        case cst.If(test=test) | cst.SimpleStatementLine(body=[cst.Assert(test=test)]):
            tested = test
            while isinstance(tested, cst.UnaryOperation) and isinstance(tested.operator, cst.Not):
                tested = tested.expression
            if _is_tensor(source, tested):
                values.append(tested)
        case cst.SimpleStatementLine(body=[cst.Return(value=cst.BaseExpression() as value)]):
            elements = (
                [one.value for one in value.elements] if isinstance(value, cst.Tuple) else [value]
            )
            is_reading = any(is_read(source, one) for one in elements)
            decline_if(not is_reading, "what is returned isn't a number that is read")
            values += [source.read_of(one, _CASTS) or one for one in elements]
        case cst.SimpleStatementLine(body=[cst.Assign(value=cst.Call() as value)]):
            decline_if(source.dotted_name(value) not in _COPIES, "the line computes")
        case _:
            raise DeclinedError("the line computes")
    changes = [
        (value, cst.Name(names.fresh("condition" if len(values) == 1 else "value")))
        for value in values
        if computes(value)
    ]
    before: list[cst.BaseStatement] = [
        assigned(name.value, value.deep_clone()) for value, name in changes
    ]
    if not before:
        return [], line
    kept = with_replaced(line, changes)
    assert isinstance(kept, cst.If | cst.SimpleStatementLine)  # it is a line as the old one
    before[0] = after_lines(before[0], getattr(line, "leading_lines", ()))
    return before, kept.with_changes(leading_lines=())


def _is_tensor(source: SourceFile, value: cst.BaseExpression) -> bool:
    """Whether a condition is a tensor, so that naming it doesn't read it."""
    match value:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=operator)]):
            return isinstance(operator, _COMPARING) and not reads_tensor(source, value)
    is_python = any(
        is_read(source, call) or source.dotted_name(call) == "builtins.bool"
        for call in calls_in(value)
    )
    return isinstance(value, cst.Call) and not is_python


def _index(source: SourceFile, block: cst.CSTNode) -> int:
    return need(source.parent(block), cst.IndentedBlock, "the loop shares a line").body.index(block)


def _without_appends(
    source: SourceFile, function: cst.FunctionDef, loop: _Loop, around: Sequence[cst.CSTNode]
) -> tuple[SourceFile, set[int]]:
    """The file with ``xs.append(x)`` at the end of what is compiled, and with a name for what is
    computed in it.

    A list that grows would let torch compile the step for each of its lengths. Beside it, the
    numbers of the loop's lines that a tensor decides.
    """
    names = Names(source, function)
    lines: list[cst.CSTNode] = []
    late: list[cst.SimpleStatementLine] = []
    for line in loop.body.body:
        if leaves(line) or any(line is one for one in around):
            lines += [*late, line]
            late = []
            continue
        used, set_here = name_set(line), flow(parsed([line])).assigned
        if any(name_set(one) & set_here or _list_of(one) in used for one in late):
            lines += late
            late = []
        if isinstance(line, cst.SimpleStatementLine) and _is_append(line):
            value = need(need(line.body[0], cst.Expr, "").value, cst.Call, "").args[0].value
            append = line
            if computes(value):
                name = names.fresh("value")
                lines.append(assigned(name, value).with_changes(leading_lines=line.leading_lines))
                append = need(
                    with_replaced(line, [(value, cst.Name(name))]), cst.SimpleStatementLine, ""
                )
                append = append.with_changes(leading_lines=())
            late.append(append)
        else:
            lines.append(line)
    lines += late
    decided = {number for number, line in enumerate(lines) if any(line is one for one in around)}
    if len(lines) == len(loop.body.body) and all(map(operator.is_, lines, loop.body.body)):
        return source, decided
    return source.changed((loop.body, loop.body.with_changes(body=lines))), decided


def _list_of(append: cst.SimpleStatementLine) -> str:
    return min(name_set(need(need(append.body[0], cst.Expr, "").value, cst.Call, "").func))


def _is_append(line: cst.CSTNode) -> bool:
    return matchers.matches(line, _APPEND)


class _Parts:
    """The file as more and more of a function moves into functions of its own, the last statements
    first.
    """

    def __init__(self, source: SourceFile, number: int) -> None:
        self.source = source
        self.number = number
        self.reason = ""

    @property
    def function(self) -> cst.FunctionDef:
        """The function, as it is now."""
        return functions_in(self.source)[self.number]

    def content(self, *, is_method: bool) -> bytes:
        """What to write: the function itself runs in Python."""
        return self.source.replaced((self.function, shell(self.function, is_method=is_method)))

    def suite(self, path: Sequence[int], hops: int = 0) -> cst.BaseSuite:
        """A body; with ``hops``, that of the last block's branch after as many others."""
        suite = self.function.body
        for depth, at in enumerate(path, start=1):
            block: cst.CSTNode = suite.body[at]
            for _ in range(hops if depth == len(path) else 0):
                assert isinstance(block, cst.If)
                block = known(block.orelse)
            assert isinstance(block, _Block | cst.Else)
            suite = block.body
        return suite

    def move(
        self,
        path: Sequence[int],
        start: int,
        stop: int | None,
        name: str,
        keeps: set[int] | None = None,
        *,
        hops: int = 0,
    ) -> bool:
        """Move statements of the body at a path that compute; whether any moved.

        Together, or what is between those that stay: those with these numbers, and those that leave
        a loop or return.
        """
        suite = partial(self.suite, path, hops)
        body = suite().body
        last = len(body) if stop is None else stop
        if keeps is None and self._moved(suite(), start, last, name):
            return True
        stay = [
            at
            for at in range(start, last)
            if at in (keeps or ()) or leaves(body[at]) or _is_append(body[at])
        ]
        bounds = [start - 1, *stay, last]
        runs = [(one + 1, other) for one, other in itertools.pairwise(bounds) if one + 1 < other]
        runs = [run for run in runs if any(computes(line) for line in body[slice(*run)])]
        names = (
            [f"{name}_{number}" for number in range(1, len(runs) + 1)] if len(runs) > 1 else [name]
        )
        moved = [
            self._moved(suite(), *run, named)
            for run, named in reversed(list(zip(runs, names, strict=False)))
        ]
        return any(moved)

    def _moved(self, suite: cst.BaseSuite, start: int, stop: int, name: str) -> bool:
        if not any(computes(line) for line in suite.body[start:stop]):
            return False
        run = Run(self.source, self.function, suite, start, stop)
        try:
            self.source = run.moved(
                self.source.free_name(f"_{self.function.name.value.strip('_')}_{name}")
            )
        except DeclinedError as error:
            self.reason = self.reason or error.reason
            return False
        return True
