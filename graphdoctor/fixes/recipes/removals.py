"""What somebody wrote that keeps torch from compiling: inference mode, a disabled function, a graph
break.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.nodes import (
    after_lines,
    called,
    calls_in,
    enclosed,
    lines_of,
    name_set,
    with_parentheses_of,
)
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    need,
    only,
    walk,
)

_MODES = frozenset({"torch.inference_mode", "torch.autograd.inference_mode", "inference_mode"})
_CHECKS = frozenset({"is_inference", "is_inference_mode_enabled"})


@recipe("GD118", "GD212")
def no_grad_for_inference_mode(place: Place) -> Edit:
    """``torch.inference_mode()`` becomes ``torch.no_grad()`` in the whole file.

    Checks for inference mode go too, with the code that depends on them: Dynamo breaks at
    ``is_inference()`` and at ``is_inference_mode_enabled()`` in any mode (seen on 2.13). Unsafe:
    tensors created in inference mode differ in more than gradients, and some may come from another
    file.
    """
    changes = list(_modes(place.source))
    if place.finding.code == "GD118":
        check, title = _without_check(place)
        if any(old is node for node in walk(check[0]) for old, _ in changes):
            raise DeclinedError("inference mode is entered inside the check")
        return place.edit(
            f"{title} and use `torch.no_grad()`" if changes else title, check, *changes
        )
    is_about_it = any(change.kind == "inference_mode" for change in place.finding.changes)
    decline_if(not is_about_it, "inference mode isn't what changed", "another_line")
    decline_if(not changes, "inference mode is entered in another file")
    return place.edit("Use `torch.no_grad()` in place of `torch.inference_mode()`", *changes)


def _modes(source: SourceFile) -> Iterator[Change]:
    for node in walk(source.tree):
        parent = source.parent(node) if dotted(node) in _MODES else None
        no_grad = cst.Attribute(cst.Name("torch"), cst.Name("no_grad"))
        match parent:
            case None | cst.ImportAlias():
                continue
            case cst.Attribute() if parent.attr is node:
                continue
            case cst.Call() if parent.func is node:
                is_on = (
                    all(source.code(given.value) == "True" for given in parent.args)
                    and len(parent.args) < 2
                )
                decline_if(not is_on, "a value switches inference mode")
                yield parent, with_parentheses_of(parent, cst.Call(no_grad))
            case cst.Decorator():
                yield node, no_grad
            case _:
                raise DeclinedError("inference mode is passed around")


def _without_check(place: Place) -> tuple[Change, str]:
    """The edit that removes a check for inference mode, whose result is False without the mode; and
    a title.
    """
    source, unclear = place.source, "torch doesn't point to a check for inference mode"
    if place.expression is not None:
        asked = need(place.expression, cst.Call, unclear, "elsewhere")
    else:
        asked = only(
            [call for call in calls_in(place.statement) if called(call) in _CHECKS],
            unclear,
            "elsewhere",
        )
    decline_if(called(asked) not in _CHECKS, unclear, "elsewhere")
    title = f"Remove the check `{source.code(asked)}`"
    node: cst.BaseExpression = asked
    is_no = True
    for parent in source.parents(asked):
        match parent:
            case cst.UnaryOperation(operator=cst.Not()):
                node, is_no = parent, not is_no
                continue
            case cst.IfExp(test=test, body=body, orelse=orelse) if test is node:
                return (
                    parent,
                    with_parentheses_of(parent, (orelse if is_no else body).deep_clone()),
                ), title
            case cst.If(test=test) if (
                test is node and (lines := _lines_left(source, parent, is_no=is_no)) is not None
            ):
                return (parent, lines), title
        break
    return (node, cst.Name("False" if is_no else "True", node.lpar, node.rpar)), title


def _lines_left(
    source: SourceFile, statement: cst.If, *, is_no: bool
) -> list[cst.BaseStatement] | None:
    """What remains of an ``if``; None if it is part of an ``elif`` chain."""
    parent, other = source.parent(statement), statement.orelse
    if isinstance(parent, cst.If) or isinstance(other, cst.If):
        return None
    if is_no and other is None:
        is_only = isinstance(parent, cst.IndentedBlock) and len(parent.body) == 1
        return [cst.SimpleStatementLine([cst.Pass()])] if is_only else []
    first, *rest = lines_of(other.body if is_no and other is not None else statement.body)
    return [after_lines(first, statement.leading_lines), *rest]


_DISABLE = frozenset(
    {
        "torch.compiler.disable",
        "torch._dynamo.disable",
        "compiler.disable",
        "_dynamo.disable",
        "disable",
    }
)


@recipe("GD106")
def remove_disable(place: Place) -> Edit:
    """Removes ``@torch.compiler.disable`` from the function that is called.

    Also ``torch.compiler.disable(f)(x)`` and ``g = torch.compiler.disable(f)``. Only if the called
    name leads to one definition in the same file. Unsafe: somebody disabled it for a reason.
    """
    if place.expression is not None:
        change, name = _enabled(
            place.source,
            need(place.expression, cst.Call, "torch doesn't point to a call", "elsewhere"),
        )
    else:
        found = [
            one for call in calls_in(place.statement) for one in _if_enabled(place.source, call)
        ]
        change, name = only(found, "the line doesn't say which call is meant")
    return place.edit(f"Remove `torch.compiler.disable` from `{name}`", change)


def _if_enabled(source: SourceFile, call: cst.Call) -> list[tuple[Change, str]]:
    try:
        return [_enabled(source, call)]
    except DeclinedError:
        return []


def _enabled(source: SourceFile, call: cst.Call) -> tuple[Change, str]:
    if isinstance(call.func, cst.Call):
        inner = _disabled(call.func)
        return (call.func, inner), source.code(inner)
    name = dotted(call.func)
    owner = source.class_of(call)
    match (name or "").split("."):
        case [""]:
            raise DeclinedError("the source doesn't say which function is called")
        case [plain]:
            found = _definitions(source, call, plain)
        case ["self", attribute] if owner is not None:
            stored = [node for node in walk(owner.body) if isinstance(node, cst.Assign)]
            found = [
                n.value
                for n in stored
                if f"self.{attribute}" in [dotted(target.target) for target in n.targets]
            ]
            found = [*_in_scope(owner.body, attribute), *found]
        case _:
            found = []
    decline_if(not found, f"`{name}` isn't defined in this file")
    match only(found, f"`{name}` is defined more than once"):
        case cst.FunctionDef() as function:
            return (function, _undecorated(function)), str(name)
        case cst.Call() as definition:
            return (definition, _disabled(definition)), str(name)
    raise DeclinedError(f"`{name}` isn't disabled where it is defined")


def _definitions(source: SourceFile, call: cst.Call, name: str) -> list[cst.CSTNode]:
    for scope in source.parents(call):
        if isinstance(scope, cst.FunctionDef | cst.Module):
            found = list(_in_scope(scope, name))
            if isinstance(scope, cst.FunctionDef):
                parameters = [
                    node.name.value for node in walk(scope.params) if isinstance(node, cst.Param)
                ]
                found += [scope.params] if name in parameters else []
            if found:
                return found
    return []


def _in_scope(scope: cst.CSTNode, name: str) -> Iterator[cst.CSTNode]:
    for child in scope.children:
        match child:
            case cst.FunctionDef() | cst.ClassDef():
                if child.name.value == name:
                    yield child
            case cst.Lambda():
                continue
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=target))], value=value):
                if target == name:
                    yield value
            case (
                cst.AssignTarget() | cst.AugAssign() | cst.AnnAssign() | cst.NamedExpr() | cst.For()
            ):
                if name in name_set(child.target):
                    yield child
                if isinstance(child, cst.For):
                    yield from _in_scope(child, name)
            case cst.ImportAlias():
                if dotted(child.asname.name if child.asname is not None else child.name) == name:
                    yield child
            case _:
                yield from _in_scope(child, name)


def _undecorated(function: cst.FunctionDef) -> cst.FunctionDef:
    kept: list[cst.Decorator] = []
    above: list[cst.EmptyLine] = []
    for decorator in function.decorators:
        target = decorator.decorator
        above.extend(decorator.leading_lines)
        if dotted(target.func if isinstance(target, cst.Call) else target) not in _DISABLE:
            kept.append(decorator.with_changes(leading_lines=above))
            above = []
    decline_if(
        len(kept) == len(function.decorators),
        f"`{function.name.value}` isn't disabled where it is defined",
    )
    return function.with_changes(
        decorators=kept, lines_after_decorators=[*above, *function.lines_after_decorators]
    )


def _disabled(call: cst.Call) -> cst.BaseExpression:
    decline_if(dotted(call.func) not in _DISABLE, "the source doesn't say which function is called")
    for arg in call.args:
        if not arg.star and (arg.keyword is None or arg.keyword.value == "fn"):
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
    smalls = suite.body if isinstance(suite, cst.SimpleStatementSuite) else ()
    found = place.around_expression(smalls) or (
        smalls if place.expression is None and len(smalls) == 1 else ()
    )
    small = found[0] if found else place.small_statement
    decline_if(
        not matchers.matches(small, _BREAKS),
        "the line isn't a call that only breaks the graph",
        "another_line",
    )
    decline_if(place.source.function_of(small) is None, "the call isn't in a function")
    name = place.source.code(small.value.func)  # type: ignore[attr-defined]
    return place.edit(f"Remove `{name}()`", *_without(place.source, small))


def _without(source: SourceFile, small: cst.BaseSmallStatement) -> list[Change]:
    line = source.parent(small)
    assert isinstance(
        line, cst.SimpleStatementLine | cst.SimpleStatementSuite
    )  # nothing else holds small statements
    if len(line.body) > 1:
        before = line.body[-2]
        is_last = line.body[-1] is small
        return [
            *([(before, before.with_changes(semicolon=small.semicolon))] if is_last else []),
            (small, []),
        ]
    block = source.parent(line)
    if (
        isinstance(line, cst.SimpleStatementSuite)
        or not isinstance(block, cst.IndentedBlock)
        or len(block.body) == 1
    ):
        return [(small, cst.Pass(semicolon=small.semicolon))]
    at = block.body.index(line)
    if line is not block.body[-1]:
        following = lines_of(block)[at + 1]
        return [(line, []), (following, after_lines(following, line.leading_lines))]
    # After the last line, only the footer can hold the comments that were above it.
    footer = [empty.deep_clone() for empty in line.leading_lines if empty.comment is not None]
    return [(block, block.with_changes(body=block.body[:at], footer=[*footer, *block.footer]))]
