"""Output in compiled code, and conditions on it: skip both while torch compiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.fixes.recipe import Edit, Recipe, first_edit, recipe
from graphdoctor.fixes.source.branches import refuse_lost_comments
from graphdoctor.fixes.source.effects import is_report, skipped_while_compiling
from graphdoctor.fixes.source.expressions import enclosed
from graphdoctor.fixes.source.names import Names, called, dotted_name, has_comment, is_in_place, shortened
from graphdoctor.fixes.source.place import Place, tested_at
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, walk

_QUERY = re.compile(r"(is|has|get|set|add|remove)")
"""Methods of a logger that return something or configure it: skipping them changes what the program does."""

_CHANGES = re.compile(r"next|pop\w*|append\w*|extend|insert|add_?|update|setdefault|send|read\w*|write|get_nowait|step")
"""Calls in an argument that change something: skipping them changes what the program does."""

_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Comparison, cst.UnaryOperation)
"""Tests that need no parentheses beside ``and``."""


@recipe("GD101", "GD105")
def guard_output(place: Place) -> Edit:
    """``print(x)`` becomes ``if not torch.compiler.is_compiling(): print(x)``.

    Safe for output, because no result depends on it. Unsafe for other calls, which may do work that the program needs.
    Either way, the compiled program prints or does less.
    """
    statement = place.statement
    if isinstance(statement, cst.If) and isinstance(statement.body, cst.SimpleStatementSuite):
        call, content = _guard_suite(place, statement)
    else:
        call, content = _guard_line(place)
    name = place.source.code(call.func)
    if place.finding.code == "GD101" and _QUERY.match(name.rpartition(".")[2]):
        raise DeclinedError(f"`{name}` may do more than log")
    return Edit(
        title=f"Skip `{name}(…)` while compiling",
        content=content,
        is_safe=place.finding.code == "GD101" and not any(_CHANGES.fullmatch(name) for name in _called(call)),
        drops_output=True,
    )


def _guard_line(place: Place) -> tuple[cst.Call, bytes]:
    small, line = place.small_statement, place.statement
    assert isinstance(line, cst.SimpleStatementLine)  # small_statement says so
    call = _bare_call(place, small)
    first, last = _neighbours(place, line, small, call)
    before, guarded, after = line.body[:first], line.body[first:last], line.body[last:]
    inner = [*guarded[:-1], _without_semicolon(guarded[-1])]
    lines: list[cst.BaseStatement] = [
        cst.If(
            test=_guard(),
            body=cst.IndentedBlock([cst.SimpleStatementLine(inner, trailing_whitespace=line.trailing_whitespace)]),
            leading_lines=() if before else line.leading_lines,
        )
    ]
    if before:
        kept = [*before[:-1], _without_semicolon(before[-1])]
        lines.insert(0, cst.SimpleStatementLine(kept, leading_lines=line.leading_lines))
    if after:
        lines.append(cst.SimpleStatementLine(after))
    return call, place.source.replaced((line, cst.FlattenSentinel(lines)), imports=("torch",))


def _neighbours(
    place: Place, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement, call: cst.Call
) -> tuple[int, int]:
    """The range of adjacent calls to the same function on the line: torch names each line once."""
    name = place.source.code(call.func)

    def is_same(other: cst.BaseSmallStatement) -> bool:
        value = other.value if isinstance(other, cst.Expr) else None
        return isinstance(value, cst.Call) and place.source.code(value.func) == name

    first = last = list(line.body).index(small)
    while first > 0 and is_same(line.body[first - 1]):
        first -= 1
    while last + 1 < len(line.body) and is_same(line.body[last + 1]):
        last += 1
    return first, last + 1


def _guard_suite(place: Place, statement: cst.If) -> tuple[cst.Call, bytes]:
    """``if verbose: print(x)`` on one line."""
    body = statement.body.body
    if statement.orelse is not None or len(body) != 1 or not isinstance(body[0], cst.BaseSmallStatement):
        raise DeclinedError("the line contains more than the call")
    call = _bare_call(place, body[0])
    test: cst.BaseExpression = statement.test.deep_clone()
    if not isinstance(test, _ATOMS) and not test.lpar:
        test = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return call, place.source.replaced(
        (statement.test, cst.BooleanOperation(test, cst.And(), _guard())), imports=("torch",)
    )


def _bare_call(place: Place, small: cst.CSTNode) -> cst.Call:
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        raise DeclinedError("its result is used")
    # The break may be in an argument, such as a hook that is registered: then the call itself is needed.
    if place.expression is not None and place.expression is not small.value:
        raise DeclinedError("the break is inside the call's arguments")
    if any(isinstance(node, cst.NamedExpr) for node in walk(small.value)):
        raise DeclinedError("an argument of the call assigns a name")
    return small.value


def _called(call: cst.Call) -> Iterator[str]:
    for argument in call.args:
        yield from (called(node) for node in walk(argument.value) if isinstance(node, cst.Call))


def _guard() -> cst.BaseExpression:
    return cst.parse_expression("not torch.compiler.is_compiling()")


def _without_semicolon(small: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
    return small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)


@recipe("GD102")
def guard_report(place: Place) -> Edit:
    """``if t.isnan().any(): warnings.warn(…)`` becomes ``if not torch.compiler.is_compiling() and t.isnan().any(): …``.

    Only if nothing but output depends on the condition. Unsafe: the compiled program no longer reports it.
    """
    statement = tested_at(place)
    if not isinstance(statement, cst.If) or not isinstance(statement.body, cst.IndentedBlock):
        raise DeclinedError("no block of lines depends on the condition")
    if statement.orelse is not None or not is_report(place.source, statement):
        raise DeclinedError("more than a report depends on the condition")
    parent = next(place.source.parents(statement))
    if isinstance(parent, cst.If) and parent.orelse is statement:
        raise DeclinedError("the condition belongs to an `elif`")
    if any(isinstance(node, cst.NamedExpr) for node in walk(statement.test)):
        raise DeclinedError("the condition assigns a name")
    lines = [line for line in statement.body.body if isinstance(line, cst.BaseStatement)]
    guarded = skipped_while_compiling(statement.test, lines)
    new = statement.with_changes(test=guarded.test)
    refuse_lost_comments([statement], [new])
    return Edit(
        title="Skip the report and its condition while compiling",
        content=place.source.replaced((statement.test, guarded.test), imports=("torch",)),
        is_safe=False,
        drops_output=True,
    )


def report_apart(recipes: Sequence[Recipe]) -> Recipe:
    """``if t.any(): print(…); return 0 * x`` becomes what other recipes write for ``if t.any(): return 0 * x``.

    The report goes before it, under ``if not torch.compiler.is_compiling() and t.any():``. Unsafe: the compiled program
    no longer reports it, and the rest is as safe as the other recipe.

    Args:
        recipes: What can be written for a branch on a tensor, best first.
    """

    def edit(place: Place) -> Edit:
        choice = tested_at(place)
        if not isinstance(choice, cst.If) or choice.orelse is not None:
            raise DeclinedError("it isn't an `if` with a single branch")
        parent = next(place.source.parents(choice))
        if isinstance(parent, cst.If) and parent.orelse is choice:
            raise DeclinedError("the condition belongs to an `elif`")
        without = _apart(place, choice)
        found = first_edit(recipes, without)
        if isinstance(found, Edit):
            title = f"{found.title}, and skip the report while compiling"
            return replace(found, title=title, is_safe=False, drops_output=True)
        raise DeclinedError(f"without the report, {found[-1]}" if found else "nothing can be written for the rest")

    return Recipe("report-apart", frozenset({"GD102"}), edit)


def _apart(place: Place, choice: cst.If) -> Place:
    """The finding at the ``if`` without its report, in the file that has the report before it."""
    source, body = place.source, choice.body
    if not isinstance(body, cst.IndentedBlock) or has_comment(body.header):
        raise DeclinedError("the branch has no lines of its own")
    lines = [line for line in body.body if isinstance(line, cst.BaseStatement)]
    count = next((number for number, line in enumerate(lines) if not is_report(source, line)), len(lines))
    decline_if(count in (0, len(lines)), "the branch doesn't begin with a report")
    if any(isinstance(node, cst.NamedExpr) for node in walk(choice.test)):
        raise DeclinedError("the condition assigns a name")
    report = skipped_while_compiling(choice.test.deep_clone(), [line.deep_clone() for line in lines[:count]])
    report = report.with_changes(leading_lines=[line.deep_clone() for line in choice.leading_lines])
    rest = choice.with_changes(leading_lines=(), body=body.with_changes(body=lines[count:]))
    changed = SourceFile.parse(
        source.path, source.replaced((choice, cst.FlattenSentinel([report, rest])), imports=("torch",))
    )
    number = _tests(source, source.code(choice.test)).index(choice)
    line = changed.position(_tests(changed, source.code(choice.test))[number]).start.line
    location = place.finding.location.model_copy(update={"line": line, "column": None, "end_column": None})
    return replace(place, source=changed, finding=place.finding.model_copy(update={"location": location}))


def _tests(source: SourceFile, text: str) -> list[cst.If]:
    """All ``if`` with a condition, in file order."""
    return [node for node in walk(source.tree) if isinstance(node, cst.If) and source.code(node.test) == text]


_CASTS = frozenset({"builtins.float", "builtins.bool"})


def condition_without_read(recipes: Sequence[Recipe]) -> Recipe:
    """``if x.max().item() > 1:`` becomes what other recipes write for ``if x.max() > 1:``.

    Also for a name that is only set to such a number. Without the ``if``, nothing needs the number. Unsafe: a number
    is a double, and a tensor may have fewer digits.

    Args:
        recipes: What can be written for a branch on a tensor, best first.
    """

    def edit(place: Place) -> Edit:
        test = _test(place)
        function = place.source.function_of(test)
        if function is None:
            raise DeclinedError("the condition isn't in a function")
        reads = _reads(place.source, test, Names(place.source, function))
        without = Place(_edited(place.source, reads), _on_line_alone(place, test))
        found = first_edit(recipes, without)
        if isinstance(found, Edit):
            words = f"without reading `{shortened(place.source, reads[0][0])}`"
            return replace(found, title=f"{found.title}, {words}", is_safe=False)
        raise DeclinedError(f"without reading the number, {found[0]}" if found else "nothing can be written for it")

    return Recipe("condition-without-read", frozenset({"GD103", "GD119"}), edit)


def _test(place: Place) -> cst.BaseExpression:
    """The condition of an ``if`` that the place is in."""
    statement = place.statement
    child: cst.CSTNode | None = place.expression
    for parent in place.source.parents(child) if child is not None else ():
        match parent:
            case cst.If(test=test) if test is child:
                return test
            case cst.BaseStatement() | cst.Lambda() | cst.IfExp():
                break
        child = parent
    if isinstance(statement, cst.If) and place.expression in (None, statement.test):
        return statement.test
    raise DeclinedError("the number isn't part of an `if`")


def _reads(source: SourceFile, test: cst.BaseExpression, names: Names) -> list[Change]:
    """What a condition reads, each with the tensor to write in its place."""
    found: list[Change] = []
    waiting: list[cst.CSTNode] = [test]
    while waiting:
        node = waiting.pop(0)
        tensor = _tensor_of(source, node)
        if tensor is None and isinstance(node, cst.Name):
            values = names.values(node.value)
            tensor = _tensor_of(source, values[0]) if len(values) == 1 else None
        if tensor is None:
            waiting += node.children
            continue
        if any(isinstance(part, cst.NamedExpr | cst.Await) or is_in_place(part) for part in walk(tensor)):
            raise DeclinedError("reading the number has a side effect")
        found.append((node, tensor.deep_clone() if node is test else enclosed(tensor.deep_clone())))
    decline_if(not found, "the condition reads no tensor")
    return found


def _tensor_of(source: SourceFile, node: cst.CSTNode) -> cst.BaseExpression | None:
    """``x.max()`` for ``x.max().item()`` and ``float(x.max())``."""
    match node:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("item")), args=[]):
            return tensor
        case cst.Call(args=[cst.Arg(value=tensor, keyword=None, star="")]) if dotted_name(source, node.func) in _CASTS:
            return _tensor_of(source, tensor) or tensor
    return None


def _edited(source: SourceFile, changes: Sequence[Change]) -> SourceFile:
    return SourceFile.parse(source.path, source.replaced(*changes))


def _on_line_alone(place: Place, test: cst.BaseExpression) -> Finding:
    """The finding at the beginning of the ``if``; its columns are those of the file before."""
    line = place.source.position(next(place.source.parents(test))).start.line
    location = place.finding.location.model_copy(update={"line": line, "column": None, "end_column": None})
    return place.finding.model_copy(update={"location": location})
