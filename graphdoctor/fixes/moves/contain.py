"""Leaves a break where it is, and compiles what is around it: the last resort, and only if the call
is faster for it.

A block that Dynamo can't resume in, or a line that Python has to run, stays in a function that runs
eagerly; the rest moves into functions of its own. ``trace_backward`` alone is a setting.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterator, Sequence

from libcst import (
    Arg,
    Assert,
    Assign,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseNumber,
    BaseSmallStatement,
    BaseStatement,
    BaseSuite,
    Call,
    ClassDef,
    Comparison,
    ComparisonTarget,
    CSTNode,
    Else,
    Expr,
    For,
    FunctionDef,
    If,
    IndentedBlock,
    Lambda,
    Name,
    Not,
    Pass,
    Raise,
    Return,
    SimpleStatementLine,
    SimpleString,
    Try,
    TryStar,
    Tuple,
    UnaryOperation,
    While,
    With,
    WithItem,
    matchers,
)

from graphdoctor.fixes.entry_file import with_settings
from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.effects import is_read, is_record, reads_tensor
from graphdoctor.fixes.source.extraction import (
    Run,
    call_of,
    computes,
    flow_in,
    functions_in,
    leaves,
    operations_in,
    owner_of,
    shell,
)
from graphdoctor.fixes.source.nodes import (
    ORDERS,
    Names,
    above,
    assigned,
    called,
    calls_in,
    expression,
    in_place_of,
    name_set,
)
from graphdoctor.fixes.source.torch_names import INTEGER_METHODS, words
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    Statement,
    decline_if,
    find,
    known,
    need,
    with_replaced,
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


_TRAINING = ("zero_grad", "backward", "step", "update", "train", "eval")
"""Methods of optimizers, schedulers, gradient scalers, losses and models that a training step
calls."""


def _call_to(*methods: str) -> matchers.Call:
    names = matchers.OneOf(*map(matchers.Name, methods))
    return matchers.Call(func=matchers.Attribute(attr=names))


_IS_TRAINING = _call_to(*_TRAINING)


def _with_eager_steps(function: FunctionDef) -> FunctionDef:
    """Keep Dynamo from compiling an optimizer's step by itself: its frame has an explicit break."""
    changed: CSTNode = function
    for step in matchers.findall(function, matchers.Expr(_call_to("step"))):
        func = need(need(step, Expr).value, Call).func
        new = expression("torch.compiler.disable({func})", func=func)
        changed = need(changed.deep_replace(func, new), FunctionDef)
    return need(changed, FunctionDef)


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


_Loop = For | While
_Open = _Loop | With | If
_CASTS = words("float int", "builtins.")
_ONE_LINE = "the function's body is on one line"
_NOTHING = "there is nothing to compile around it"


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
    need(function.body, IndentedBlock, _ONE_LINE)
    around = source.path_to(function, place.statement)
    loops = [node for node in around if isinstance(node, _Loop)]
    decline_if(not loops, "no loop is around the line", "another_line")
    loop = loops[0]
    blocks = [node for node in around[around.index(loop) :] if not isinstance(node, BaseSuite)]
    is_open = all(isinstance(block, _Open) for block in blocks)
    decline_if(not is_open, "the loop is in a `try`, `match` or `else`")
    has_else = any(getattr(block, "orelse", None) is not None for block in blocks)
    decline_if(has_else, "there is an `else`")
    changed, decided = _without_appends(source, function, loop, around)
    parts = _Parts(source, changed, function)
    path = [_index(source, block) for block in reversed(blocks)]
    for depth, at in enumerate(path):
        parts.move(path[:depth], at + 1, None, "after_loop")
    has_step = parts.move(path, 0, None, "step", decided)
    decline_if(not has_step, parts.reason or "there is nothing to compile in the loop")
    parts.move_before(path, "before_loop")
    keyword, line = type(loop).__name__.lower(), source.start(loop)[0]
    title = f"Run the `{keyword}` at line {line} in Python, and compile what is in it"
    return Edit(title, parts.content(is_method=owner is not None), is_safe=True)


_IN_PYTHON = ("copy.", "torch.autograd.grad", "time.", "random.", "numpy.random.", "datetime.")
"""What Python has to do, by the beginning of its name."""


@recipe(*(f"GD1{number:02}" for number in (1, 2, 3, 4, 5, 8, 9, 10, 12, 19)))
def line_outside(place: Place) -> Edit:
    """Compiles what is around lines that Python has to run, and the branches of an ``if``.

    That is a line with an effect (``print``, ``loss.backward()``, a record), one that reads a
    tensor's value, a clock or a random number, ``copy.deepcopy(…)``, ``torch.autograd.grad(…)``, a
    ``with`` without gradients, or a ``return`` with a number that is read. Only in the function
    that torch.compile is given, because Dynamo breaks before a function that it may not trace. The
    same statements run in the same order, but the graphs are as many as with the break: unsafe.
    """
    place = place.in_outermost
    source, function, line = place.source, place.function, place.statement
    # Dynamo would trace the wrapper that ``torch.no_grad`` makes, and break before the function
    # itself.
    decline_if(function.decorators, "the function has a decorator")
    owner = owner_of(source, function)
    need(function.body, IndentedBlock, _ONE_LINE)
    around = source.path_to(function, line)[1:]
    for node in around:
        if isinstance(node, With) and all(_is_without_grad(source, item) for item in node.items):
            line = node
    around = source.path_to(function, line)[1:]
    suite = need(source.parent(line), IndentedBlock, "the line shares a line with others")
    blocks = [node for node in around if not isinstance(node, BaseSuite)]
    is_plain = all(isinstance(block, With | If) for block in blocks)
    decline_if(not is_plain, "it is inside a loop, a `try`, a `match` or an `else`")
    is_alone = isinstance(line, If) and operations_in([function.body]) <= operations_in([line.test])
    decline_if(is_alone, _NOTHING)
    before, kept = _in_python(place, line)
    at = suite.body.index(line)
    path = [_index(source, block) for block in reversed(blocks)]
    lines = [*suite.body[:at], *before, kept, *suite.body[at + 1 :]]
    changed = source.changed((suite, suite.with_changes(body=lines))) if before else source
    stay = {
        number
        for number, other in enumerate(lines)
        if other is kept or (other in suite.body and _stays(source, other))
    }
    parts = _Parts(source, changed, function)
    moved, branch, hops = list[bool](), kept if isinstance(kept, If) else None, 0
    while isinstance(branch, If | Else):
        name = "else" if hops else "then"
        moved.append(parts.move([*path, at + len(before)], 0, None, name, hops=hops))
        branch, hops = getattr(branch, "orelse", None), hops + 1
    doc = 0 if path else int(function.get_docstring() is not None)
    moved.append(parts.move(path, doc, None, "part", stay))
    for depth, index in enumerate(path):
        moved.append(parts.move(path[:depth], index + 1, None, "rest"))
    moved.append(parts.move_before(path, "first"))
    decline_if(not any(moved), parts.reason or _NOTHING)
    number = source.start(line)[0]
    keyword = type(line).__name__.lower()
    what = f"line {number}"
    if isinstance(line, If | With):
        what = f"the `{keyword}` at {what}"
    title = f"Run {what} in Python, and compile what is around it"
    operations = operations_in([kept.test if isinstance(kept, If) else kept])
    return Edit(title, parts.content(is_method=owner is not None), moved_out=operations)


def _stays(source: SourceFile, line: CSTNode) -> bool:
    """Check for a line that Python has to run wherever another one already is."""
    if _is_line_of(line, _IS_TRAINING | _call_to("append", "write")):
        return True
    match line:
        case SimpleStatementLine(body=[Assign(value=value) | AugAssign(value=value)]):
            return _needs_python(source, value)
    return isinstance(line, SimpleStatementLine | If) and is_record(source, line)


def _needs_python(source: SourceFile, value: CSTNode) -> bool:
    return any(
        is_read(source, call) or source.dotted_name(call).startswith(_IN_PYTHON)
        for call in calls_in(value)
    )


def _is_without_grad(source: SourceFile, item: WithItem) -> bool:
    return isinstance(item.item, Call) and source.is_without_grad(item.item)


def _is_line_of(statement: CSTNode, matcher: matchers.BaseMatcherNode) -> bool:
    smalls = statement.body if isinstance(statement, SimpleStatementLine) else []
    return bool(smalls) and all(
        isinstance(small, Expr) and matchers.matches(small.value, matcher) for small in smalls
    )


def _in_python(place: Place, line: BaseStatement) -> tuple[list[BaseStatement], BaseStatement]:
    """Compute what Python needs under a name where that can be compiled, and return the line as it
    is left.
    """
    source, names = place.source, Names(place.source, place.function)
    values: list[BaseExpression] = []
    match line:
        case If(test=test) | SimpleStatementLine(body=[Assert(test=test)]):
            while isinstance(test, UnaryOperation) and isinstance(test.operator, Not):
                test = test.expression
            values += [test] if _is_tensor(source, test) else []
        case SimpleStatementLine(body=[Return(value=BaseExpression() as value)]):
            elements = (
                [element.value for element in value.elements]
                if isinstance(value, Tuple)
                else [value]
            )
            is_reading = any(is_read(source, element) for element in elements)
            decline_if(not is_reading, "what is returned isn't a number that is read")
            values += [source.read_of(element, _CASTS) or element for element in elements]
        case SimpleStatementLine(body=[Assign(value=value) | AugAssign(value=value)]):
            decline_if(not _needs_python(source, value), "the line computes")
        case SimpleStatementLine(body=[Expr(value=Call())]) | With():
            pass
        case _:
            raise DeclinedError("the line computes")
    base_name = "condition" if len(values) == 1 else "value"
    changes = [(value, Name(names.fresh(base_name))) for value in values if computes(value)]
    if not changes:
        return [], line
    before = [assigned(name.value, value.deep_clone()) for value, name in changes]
    return in_place_of(line, before), with_replaced(line, changes).with_changes(leading_lines=())


def _is_tensor(source: SourceFile, value: BaseExpression) -> bool:
    """Check whether a condition is a tensor, so that naming it doesn't read it."""
    match value:
        case Comparison(comparisons=[ComparisonTarget(operator=operator)]):
            return isinstance(operator, ORDERS) and not reads_tensor(source, value)
    is_bool = any(source.dotted_name(call) == "builtins.bool" for call in calls_in(value))
    return isinstance(value, Call) and not is_bool and not reads_tensor(source, value)


def _index(source: SourceFile, block: CSTNode) -> int:
    return need(source.parent(block), IndentedBlock, "the loop shares a line").body.index(block)


def _without_appends(
    source: SourceFile, function: FunctionDef, loop: _Loop, around: Sequence[CSTNode]
) -> tuple[SourceFile, set[int]]:
    """Put ``xs.append(x)`` at the end of what is compiled, with a name for what is computed in it.

    A list that grows would let torch compile the step for each of its lengths. Beside the file,
    return the numbers of the loop's lines that a tensor decides.
    """
    names = Names(source, function)
    lines: list[CSTNode] = []
    late: list[SimpleStatementLine] = []
    for line in loop.body.body:
        is_decided = leaves(line) or any(line is outer for outer in around)
        used, set_here = (
            (set(), set()) if is_decided else (name_set(line), flow_in([line]).assigned)
        )
        if is_decided or any(
            name_set(append) & set_here or known(_append(append))[0] in used for append in late
        ):
            lines += late
            late = []
        append = None if is_decided else _append(line)
        if append is None or not isinstance(line, SimpleStatementLine):
            lines.append(line)
            continue
        value = append[1]
        if computes(value):
            name = names.fresh("value")
            lines.append(assigned(name, value).with_changes(leading_lines=above(line)))
            line = with_replaced(line, [(value, Name(name))])  # noqa: PLW2901
            line = line.with_changes(leading_lines=())  # noqa: PLW2901
        late.append(line)
    lines += late
    decided = {
        number for number, line in enumerate(lines) if any(line is outer for outer in around)
    }
    if len(lines) == len(loop.body.body) and all(map(operator.is_, lines, loop.body.body)):
        return source, decided
    return source.changed((loop.body, loop.body.with_changes(body=lines))), decided


def _append(line: CSTNode) -> tuple[str, BaseExpression] | None:
    """Return the list and the value of ``xs.append(x)``; None for other lines."""
    match line:
        case SimpleStatementLine(
            body=[
                Expr(
                    value=Call(
                        func=Attribute(value=Name(value=name), attr=Name("append")),
                        args=[Arg(value=value)],
                    )
                )
            ]
        ):
            return name, value
    return None


class _Parts:
    """The file as more and more of a function moves into functions of its own, the last statements
    first.
    """

    def __init__(self, source: SourceFile, changed: SourceFile, function: FunctionDef) -> None:
        self.source = changed
        self.reason = ""
        self._number = functions_in(source).index(function)

    @property
    def function(self) -> FunctionDef:
        """The function, as it is now."""
        return functions_in(self.source)[self._number]

    def content(self, *, is_method: bool) -> bytes:
        """Return what to write: the function itself runs in Python."""
        function = _with_eager_steps(self.function)
        return self.source.replaced((self.function, shell(function, is_method=is_method)))

    def suite(self, path: Sequence[int], hops: int) -> BaseSuite:
        """Return a body; with ``hops``, that of the last block's branch after as many others."""
        suite = self.function.body
        for depth, at in enumerate(path, start=1):
            block: CSTNode = suite.body[at]
            for _ in range(hops if depth == len(path) else 0):
                block = known(need(block, If).orelse)
            assert isinstance(block, _Open | Else)
            suite = block.body
        return suite

    def move_before(self, path: Sequence[int], name: str) -> bool:
        """Move what is before a statement, in its own body and those around; whether any moved."""
        doc = int(self.function.get_docstring() is not None)
        moved = [
            self.move(path[:depth], 0 if depth else doc, at, name)
            for depth, at in reversed(list(enumerate(path)))
        ]
        return any(moved)

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
        body = self.suite(path, hops).body
        last = len(body) if stop is None else stop
        if keeps is None and self._moved(path, hops, (start, last), name):
            return True
        # The last line may return what a part gives.
        stay = [
            at
            for at in range(start, last)
            if at in (keeps or ())
            or (
                leaves(body[at])
                and not (at == last - 1 and isinstance(body[at], SimpleStatementLine))
            )
            or _append(body[at])
        ]
        bounds = itertools.pairwise([start - 1, *stay, last])
        runs = [(start + 1, other) for start, other in bounds]
        runs = [run for run in runs if any(computes(line) for line in body[slice(*run)])]
        moved = [
            self._moved(path, hops, run, f"{name}_{number}" if len(runs) > 1 else name)
            for number, run in reversed(list(enumerate(runs, start=1)))
        ]
        return any(moved)

    def _moved(self, path: Sequence[int], hops: int, bounds: tuple[int, int], name: str) -> bool:
        suite = self.suite(path, hops)
        if not any(computes(line) for line in suite.body[slice(*bounds)]):
            return False
        run = Run(self.source, self.function, suite, *bounds)
        try:
            self.source = run.moved(self.source.part_name(self.function, name))
        except DeclinedError as error:
            self.reason = self.reason or error.reason
            return False
        return True
