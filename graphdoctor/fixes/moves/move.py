"""Moves what isn't for a compiled program to where it runs once, or out of it: output and clocks,
disabled functions, graph breaks.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace

from libcst import (
    Assert,
    Attribute,
    Await,
    BaseExpression,
    BaseSmallStatement,
    BaseStatement,
    Call,
    ClassDef,
    CSTNode,
    Decorator,
    EmptyLine,
    Expr,
    FunctionDef,
    If,
    IfExp,
    Import,
    ImportFrom,
    IndentedBlock,
    Lambda,
    Name,
    NamedExpr,
    Pass,
    SimpleStatementLine,
    SimpleStatementSuite,
    SimpleString,
    matchers,
)

from graphdoctor.fixes.moves.report import in_operator
from graphdoctor.fixes.recipe import Edit, Place, Recipe, edit_without, recipe
from graphdoctor.fixes.source.effects import refuse_lost_warning, reports_apart
from graphdoctor.fixes.source.nodes import (
    after_lines,
    alone,
    assigned,
    below_new,
    called,
    calls_in,
    enclosed,
    expression,
    has_comment,
    in_place_of,
    is_elif,
    is_in_place,
    keyword_of,
    lines_of,
    name_set,
    refuse_comment,
    skipped_while_compiling,
)
from graphdoctor.fixes.source.torch_names import words
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    holds,
    known,
    need,
    only,
    walk,
)

_QUERY = re.compile(r"(is|has|get|set|add|remove)")
"""Methods of a logger that return something or configure it: skipping them changes what the program
does."""

_NAMES = "the condition assigns a name"
_ELIF = "the condition belongs to an `elif`"


@recipe("GD101", "GD105")
def guard_output(place: Place) -> Edit:
    """``print(x)`` becomes ``if not torch.compiler.is_compiling(): print(x)``.

    Unsafe: the compiled program prints or does less.
    """
    source, statement, more = place.source, place.statement, "the line contains more than the call"
    if isinstance(statement, If) and isinstance(statement.body, SimpleStatementSuite):
        # `if verbose: print(x)` on one line.
        decline_if(statement.orelse is not None, more)
        call = _bare_call(place, only(statement.body.body, more))
        changes: list[Change] = [(statement.test, skipped_while_compiling([], statement.test).test)]
    else:
        call = _bare_call(place, place.small_statement)
        line = need(statement, SimpleStatementLine)
        # Of several calls of one function, torch names the first.
        same = matchers.Expr(matchers.Call(matchers.MatchIfTrue(call.func.deep_equals)))
        lines = [alone(small) for small in line.body]
        lines[-1] = lines[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
        new = [
            skipped_while_compiling([part]) if matchers.matches(part.body[0], same) else part
            for part in lines
        ]
        changes = [(line, in_place_of(line, new))]
    name = source.code(call.func)
    is_log = place.finding.code == "GD101"
    decline_if(not is_log, f"what `{name}` does would be lost while compiling")
    refuse_lost_warning(source, call)
    decline_if(_QUERY.match(name.rpartition(".")[2]), f"`{name}` may do more than log")
    return place.edit(f"Skip `{name}(…)` while compiling", *changes, drops_output=True)


def _bare_call(place: Place, small: CSTNode) -> Call:
    call = need(small.value if isinstance(small, Expr) else None, Call, "its result is used")
    # The break may be in an argument, such as a hook that is registered: then the call itself is
    # needed.
    decline_if(place.expression not in (None, call), "the break is inside the call's arguments")
    decline_if(holds(call, NamedExpr), "an argument of the call assigns a name")
    return call


def report_apart(recipes: Sequence[Recipe], name: str = "report-apart") -> Recipe:
    """``if t.any(): print(…); return 0 * x`` becomes what other recipes write for ``if t.any():
    return 0 * x``.

    The report goes into an operator before it, which reads the condition. The rest is as safe as
    the other recipe.
    """

    def edit(place: Place) -> Edit:
        source = place.source
        single = "it isn't an `if` with a single branch"
        choice = need(place.tested, If, single)
        decline_if(choice.orelse is not None, single)
        decline_if(is_elif(source, choice), _ELIF)
        own_lines = "the branch has no lines of its own"
        body = need(choice.body, IndentedBlock, own_lines)
        decline_if(has_comment(body.header), own_lines)
        reports, lines = reports_apart(source, choice)
        decline_if(not reports or not lines, "the branch doesn't begin with a report")
        decline_if(holds(choice.test, NamedExpr), _NAMES)
        rest = choice.with_changes(leading_lines=(), body=body.with_changes(body=lines))
        after = len(_equal_tests(source, choice)) - _equal_tests(source, choice).index(choice)
        report = choice.with_changes(body=body.with_changes(body=reports))
        changed = source.changed((choice, [report, rest]))
        reported = _equal_tests(changed, choice)[-after - 1]
        changed = changed.changed(in_operator(changed, reported))
        line = changed.start(_equal_tests(changed, choice)[-after])[0]
        whole = edit_without("the report", recipes, place.moved(changed, line))
        # The lines to reach are those of the file before the report moved.
        return replace(
            whole,
            title=f"{whole.title}, and report it from an operator in the graph",
            reached=(source.start(lines[0])[0],) if whole.reached else (),
            skipped=None if whole.skipped is None else source.start(choice)[0],
            raised=None if whole.raised is None else source.start(lines[-1])[0],
        )

    return Recipe(name, frozenset({"GD102"}), edit)


def _equal_tests(source: SourceFile, choice: If) -> list[If]:
    return [node for node in find(source.tree, If) if node.test.deep_equals(choice.test)]


def condition_without_read(
    recipes: Sequence[Recipe], name: str = "condition-without-read"
) -> Recipe:
    """``if x.max().item() > 1:`` becomes what other recipes write for ``if x.max() > 1:``.

    Also for a name that is only set to such a number, and for an ``assert``, which torch keeps in
    the graph if it is of a tensor. Without the ``if``, nothing needs the number.
    Unsafe: a number is a double, and a tensor may have fewer digits.
    """

    def edit(place: Place) -> Edit:
        source, choice = place.source, _choice(place)
        decline_if(source.function_of(choice) is None, "the line isn't in a function")
        reads = _reads(source, choice.test)
        if isinstance(choice, Assert) and isinstance(choice.msg, SimpleString | None):
            title = f"Assert in the graph, without reading `{source.shortened(reads[0][0])}`"
            line = source.start(choice)[0]
            return place.edit(title, *reads, raised=line, drops_output=True)
        moved = place.moved(source.changed(*reads), source.start(choice)[0])
        without = edit_without("reading the number", recipes, moved)
        title = f"{without.title}, without reading `{source.shortened(reads[0][0])}`"
        return replace(without, title=title, is_safe=False)

    return Recipe(name, frozenset({"GD103", "GD119"}), edit)


def _choice(place: Place) -> If | Assert:
    child: CSTNode | None = place.expression
    for parent in place.source.parents(child) if child is not None else ():
        if isinstance(parent, If | Assert) and parent.test is child:
            return parent
        if isinstance(parent, BaseStatement | Lambda | IfExp):
            break
        child = parent
    line = need(place.statement, If, "the number isn't part of an `if`")
    is_whole = place.expression in (None, line.test)
    decline_if(not is_whole, "the number isn't part of an `if`")
    return line


_CASTS = words("float bool", "builtins.")


def _reads(source: SourceFile, test: BaseExpression) -> list[Change]:
    reads: list[Change] = []
    waiting: list[CSTNode] = [test]
    while waiting:
        node = waiting.pop(0)
        values = source.set_values(node) if isinstance(node, Name) else []
        tensor = inner = source.read_of(values[0] if len(values) == 1 else node, _CASTS)
        while inner is not None:
            tensor, inner = inner, source.read_of(inner, _CASTS)
        if tensor is None:
            waiting += node.children
            continue
        has_effect = holds(tensor, NamedExpr, Await) or any(map(is_in_place, walk(tensor)))
        decline_if(has_effect, "reading the number has a side effect")
        copy = tensor.deep_clone()
        reads.append((node, copy if node is test else enclosed(copy)))
    decline_if(not reads, "the condition reads no tensor")
    return reads


_FACTS = (
    words("getpid cpu_count getcwd getlogin uname", "os.")
    | words("exists isfile isdir getsize", "os.path.")
    | words("socket.gethostname torch.get_num_threads torch.initial_seed")
)
"""Values that a process doesn't expect to change while it runs."""


@recipe("GD105", "GD109", "GD100")
def hoist_read(place: Place) -> Edit:
    """Reads facts, such as ``os.getcwd()``, once, at import.

    ``random.random()`` becomes ``random.uniform(0.0, 1.0)``, which torch traces and which draws the
    same number. Others are unsafe: the program no longer notices a change.
    """
    source = place.source
    call = place.pointed_call(bool, "a call")
    name, shown = source.dotted_name(call), f"`{source.code(call.func)}()`"
    if name == "random.random" and not call.args:
        module = call.func.value if isinstance(call.func, Attribute) else Name("random")
        title = f"Use `random.uniform`, which torch traces, in place of {shown}"
        new = expression("{module}.uniform(0.0, 1.0)", module=module)
        return place.edit(title, (call, new), is_safe=True)
    decline_if(name not in _FACTS, f"{shown} can't be moved")
    title = f"Call {shown} once, when the module is imported"
    return place.edit(title, _at_import(source, call))


def _at_import(source: SourceFile, call: Call) -> Change:
    is_known = all(
        isinstance(argument.value, SimpleString) and not argument.star for argument in call.args
    )
    decline_if(not is_known, "its arguments are only known inside the function")
    refuse_comment(call)
    name = f"_{called(call).removeprefix('get').lstrip('_').upper()}"
    statement = source.path_to(source.tree, call)[-1]
    is_inside = isinstance(statement, FunctionDef | ClassDef)
    decline_if(not is_inside, "it isn't in a function of the module")
    imported = name_set(*find(statement, Import, ImportFrom))
    is_late = name_set(call.func) & imported
    decline_if(is_late, "its module is only imported inside the function")
    decline_if(source.free_name(name) != name, f"the name `{name}` is already used")
    return below_new(source, call, Name(name), assigned(name, call.deep_clone()))


_DISABLE = words("""
    torch.compiler.disable torch._dynamo.disable compiler.disable _dynamo.disable disable
""")


@recipe("GD106")
def remove_disable(place: Place) -> Edit:
    """Removes ``@torch.compiler.disable`` from the function that is called.

    Also ``torch.compiler.disable(f)(x)`` and ``g = torch.compiler.disable(f)``. Only if the called
    name leads to one definition in the same file. Unsafe: somebody disabled it for a reason.
    """
    if place.expression is not None:
        call = need(place.expression, Call, "torch doesn't point to a call", "elsewhere")
        change, name = _enabled(place.source, call)
    else:
        enabled: list[tuple[Change, str]] = []
        for call in calls_in(place.statement):
            with contextlib.suppress(DeclinedError):
                enabled.append(_enabled(place.source, call))
        change, name = only(enabled, "the line doesn't say which call is meant")
    return place.edit(f"Remove `torch.compiler.disable` from `{name}`", change)


def _enabled(source: SourceFile, call: Call) -> tuple[Change, str]:
    func = call.func
    if isinstance(func, Call):
        inner = _disabled(func)
        return (func, inner), source.code(inner)
    name = known(dotted(func), "the source doesn't say which function is called")
    definitions: list[CSTNode | None] = []
    match func:
        case Name():
            nodes = [getattr(binding, "node", None) for binding in source.assignments(func)]
            pairs = zip(nodes, source.values(func), strict=True)
            definitions = [node if value is None else value for node, value in pairs]
        case Attribute(value=Name("self"), attr=Name(value=attribute)):
            owner = source.around(call, ClassDef)
            methods = find(owner.body, FunctionDef) if owner is not None else []
            definitions = [node for node in methods if node.name.value == attribute]
            definitions += source.bound_to(func)
    decline_if(not definitions, f"`{name}` isn't defined in this file")
    match only(definitions, f"`{name}` is defined more than once"):
        case FunctionDef() as function:
            return (function, _undecorated(function)), name
        case Call() as definition:
            return (definition, _disabled(definition)), name
    raise DeclinedError(f"`{name}` isn't disabled where it is defined")


def _undecorated(function: FunctionDef) -> FunctionDef:
    kept: list[Decorator] = []
    above: list[EmptyLine] = []
    for decorator in function.decorators:
        target = decorator.decorator
        above.extend(decorator.leading_lines)
        if dotted(target.func if isinstance(target, Call) else target) not in _DISABLE:
            kept.append(decorator.with_changes(leading_lines=above))
            above = []
    is_enabled = len(kept) == len(function.decorators)
    decline_if(is_enabled, f"`{function.name.value}` isn't disabled where it is defined")
    lines = [*above, *function.lines_after_decorators]
    return function.with_changes(decorators=kept, lines_after_decorators=lines)


def _disabled(call: Call) -> BaseExpression:
    decline_if(dotted(call.func) not in _DISABLE, "the source doesn't say which function is called")
    for arg in call.args:
        if not arg.star and keyword_of(arg) in ("", "fn"):
            return enclosed(arg.value.deep_clone())
    raise DeclinedError("`torch.compiler.disable` isn't given a function here")


_BREAK = matchers.OneOf(*map(matchers.Name, ("graph_break", "skip_frame", "step_unsupported")))
_BREAKS = matchers.Expr(matchers.Call(func=_BREAK | matchers.Attribute(attr=_BREAK)))


@recipe("GD107")
def remove_graph_break(place: Place) -> Edit:
    """Removes ``torch._dynamo.graph_break()``.

    Unsafe even though results stay the same, because somebody put it there on purpose. A comment on
    its line goes with it; comments above it stay.
    """
    suite = getattr(place.statement, "body", None)
    # In `if c: graph_break()`, the one after the colon.
    smalls = suite.body if isinstance(suite, SimpleStatementSuite) else ()
    is_one = place.expression is None and len(smalls) == 1
    pointed = place.around_expression(smalls) or (smalls if is_one else ())
    small = pointed[0] if pointed else place.small_statement
    is_break = matchers.matches(small, _BREAKS)
    decline_if(not is_break, "the line isn't a call that only breaks the graph", "another_line")
    decline_if(place.source.function_of(small) is None, "the call isn't in a function")
    name = place.source.code(need(need(small, Expr).value, Call).func)
    return place.edit(f"Remove `{name}()`", *_without(place.source, small))


def _without(source: SourceFile, small: BaseSmallStatement) -> list[Change]:
    line = source.parent(small)
    assert isinstance(line, SimpleStatementLine | SimpleStatementSuite)  # nothing else holds it
    if len(line.body) > 1:
        before = line.body[-2]
        ended: Change = before, before.with_changes(semicolon=small.semicolon)
        return [*([ended] if line.body[-1] is small else []), (small, [])]
    block = source.parent(line)
    if (
        isinstance(line, SimpleStatementSuite)
        or not isinstance(block, IndentedBlock)
        or len(block.body) == 1
    ):
        return [(small, Pass(semicolon=small.semicolon))]
    lines = lines_of(block)
    if line is not lines[-1]:
        following = lines[lines.index(line) + 1]
        return [(line, []), (following, after_lines(following, line.leading_lines))]
    # After the last line, only the footer can hold the comments that were above it.
    comments = [empty.deep_clone() for empty in line.leading_lines if empty.comment is not None]
    return [(block, block.with_changes(body=lines[:-1], footer=[*comments, *block.footer]))]
