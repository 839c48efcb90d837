"""What somebody wrote that keeps torch from compiling: inference mode, a disabled function, a graph break."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.expressions import enclosed
from graphdoctor.fixes.source.names import called, dotted
from graphdoctor.fixes.source.place import Place
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, walk

_MODES = frozenset({"torch.inference_mode", "torch.autograd.inference_mode", "inference_mode"})
_CHECKS = frozenset({"is_inference", "is_inference_mode_enabled"})
_TITLE = "Use `torch.no_grad()` in place of `torch.inference_mode()`"


@recipe("GD118", "GD212")
def no_grad_for_inference_mode(place: Place) -> Edit:
    """``torch.inference_mode()`` becomes ``torch.no_grad()`` in the whole file.

    Checks for inference mode go too, with the code that depends on them: Dynamo breaks at ``is_inference()`` and at
    ``is_inference_mode_enabled()`` in any mode (seen on 2.13). Unsafe: tensors created in inference mode differ in more
    than gradients, and some may come from another file.
    """
    source = place.source
    changes = list(_modes(source))
    if place.finding.code == "GD118":
        change, title = _without_check(place)
        title = f"{title} and use `torch.no_grad()`" if changes else title
        if any(old is node for node in walk(change[0]) for old, _ in changes):
            raise DeclinedError("inference mode is entered inside the check")
        content = source.replaced(change, *changes, imports=("torch",) if changes else ())
        return Edit(title=title, content=content, is_safe=False)
    if not any(change.kind == "inference_mode" for change in place.changes):
        raise DeclinedError("inference mode isn't what changed")
    decline_if(not changes, "inference mode is entered in another file")
    return Edit(title=_TITLE, content=source.replaced(*changes, imports=("torch",)), is_safe=False)


def _modes(source: SourceFile) -> Iterator[Change]:
    """Each use of inference mode, and ``no_grad`` in its place."""
    for node in walk(source.tree):
        if not isinstance(node, cst.Name | cst.Attribute) or dotted(node) not in _MODES:
            continue
        parent = next(source.parents(node))
        if isinstance(parent, cst.ImportAlias) or (isinstance(parent, cst.Attribute) and parent.attr is node):
            continue
        no_grad = cst.Attribute(cst.Name("torch"), cst.Name("no_grad"))
        if isinstance(parent, cst.Call) and parent.func is node:
            if parent.args and not (len(parent.args) == 1 and source.code(parent.args[0].value) == "True"):
                raise DeclinedError("a value switches inference mode")
            yield parent, parent.with_changes(func=no_grad, args=[], whitespace_before_args=cst.SimpleWhitespace(""))
        elif isinstance(parent, cst.Decorator):
            yield node, no_grad
        else:
            raise DeclinedError("inference mode is passed around")


def _without_check(place: Place) -> tuple[Change, str]:
    """The edit that removes a check for inference mode, whose result is False without the mode; and a title."""
    source = place.source
    asked = place.expression if place.expression is not None else _only_check(place)
    if not isinstance(asked, cst.Call) or called(asked) not in _CHECKS:
        raise DeclinedError("torch doesn't point to a check for inference mode")
    title = f"Remove the check `{source.code(asked)}`"
    node: cst.BaseExpression = asked
    is_no = True
    for parent in source.parents(asked):
        if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
            node, is_no = parent, not is_no
            continue
        if isinstance(parent, cst.IfExp) and parent.test is node:
            return (parent, _alone(parent, parent.orelse if is_no else parent.body)), title
        if isinstance(parent, cst.If) and parent.test is node:
            lines = _lines_left(source, parent, is_no=is_no)
            if lines is not None:
                return (parent, cst.FlattenSentinel(lines)), title
        break
    return (node, cst.Name("False" if is_no else "True", node.lpar, node.rpar)), title


def _only_check(place: Place) -> cst.BaseExpression | None:
    found = [node for node in walk(place.statement) if isinstance(node, cst.Call) and called(node) in _CHECKS]
    return found[0] if len(found) == 1 else None


def _alone(choice: cst.IfExp, way: cst.BaseExpression) -> cst.BaseExpression:
    """One side of ``a if c else b`` in place of the whole."""
    if way.lpar or not choice.lpar:
        return way.deep_clone()
    return way.deep_clone().with_changes(
        lpar=[paren.deep_clone() for paren in choice.lpar], rpar=[paren.deep_clone() for paren in choice.rpar]
    )


def _lines_left(source: SourceFile, statement: cst.If, *, is_no: bool) -> list[cst.BaseStatement] | None:
    """What remains of an ``if``; None if it is part of an ``elif`` chain."""
    parent = next(source.parents(statement))
    if isinstance(parent, cst.If) or isinstance(statement.orelse, cst.If):
        return None
    body = statement.body if not is_no else statement.orelse.body if statement.orelse is not None else None
    if body is None:
        is_only = isinstance(parent, cst.IndentedBlock) and len(parent.body) == 1
        return [cst.SimpleStatementLine([cst.Pass()])] if is_only else []
    if isinstance(body, cst.SimpleStatementSuite):
        return [
            cst.SimpleStatementLine(
                body.body, leading_lines=statement.leading_lines, trailing_whitespace=body.trailing_whitespace
            )
        ]
    assert isinstance(body, cst.IndentedBlock)  # libcst knows two kinds of suites
    lines = list(body.body)
    first = lines[0]
    assert isinstance(first, cst.SimpleStatementLine | cst.BaseCompoundStatement)  # a line of a block
    return [first.with_changes(leading_lines=[*statement.leading_lines, *first.leading_lines]), *lines[1:]]


_DISABLE = frozenset(
    {"torch.compiler.disable", "torch._dynamo.disable", "compiler.disable", "_dynamo.disable", "disable"}
)


@recipe("GD106")
def remove_disable(place: Place) -> Edit:
    """Removes ``@torch.compiler.disable`` from the function that is called.

    Also ``torch.compiler.disable(f)(x)`` and ``g = torch.compiler.disable(f)``. Only if the called name leads to one
    definition in the same file. Unsafe: somebody disabled it for a reason.
    """
    source = place.source
    call = _call(place)
    changes, name = _enabled(source, call)
    return Edit(
        title=f"Remove `torch.compiler.disable` from `{name}`",
        content=source.replaced(*changes),
        is_safe=False,
    )


def _call(place: Place) -> cst.Call:
    """The call that torch points to, or the only one of the statement that leads to a disabled function."""
    if isinstance(place.expression, cst.Call):
        return place.expression
    if place.expression is not None:
        raise DeclinedError("torch doesn't point to a call")
    found: list[cst.Call] = []
    for node in walk(place.statement):
        if isinstance(node, cst.Call):
            try:
                _enabled(place.source, node)
            except DeclinedError:
                continue
            found.append(node)
    decline_if(len(found) != 1, "the line doesn't say which call is meant")
    return found[0]


def _enabled(source: SourceFile, call: cst.Call) -> tuple[list[Change], str]:
    function = call.func
    if isinstance(function, cst.Call):
        inner = _disabled(function)
        return [(function, inner)], source.code(inner)
    name = dotted(function)
    if name is None:
        raise DeclinedError("the source doesn't say which function is called")
    match name.split("."):
        case [plain]:
            found = list(_definitions(source, call, plain))
        case ["self", attribute] if (owner := source.class_of(call)) is not None:
            found = list(_members(owner, attribute))
        case _:
            raise DeclinedError(f"`{name}` isn't defined in this file")
    decline_if(not found, f"`{name}` isn't defined in this file")
    decline_if(len(found) > 1, f"`{name}` is defined more than once")
    definition = found[0]
    if isinstance(definition, cst.FunctionDef):
        return [(definition, _undecorated(definition))], name
    if not isinstance(definition, cst.Call):
        raise DeclinedError(f"`{name}` isn't disabled where it is defined")
    return [(definition, _disabled(definition))], name


def _definitions(source: SourceFile, call: cst.Call, name: str) -> Iterator[cst.CSTNode]:
    """The definitions of a name at a call, in the innermost scope that has any."""
    for scope in [*source.parents(call)]:
        if isinstance(scope, cst.FunctionDef | cst.Module):
            found = list(_in_scope(scope, name))
            if isinstance(scope, cst.FunctionDef) and any(
                isinstance(node, cst.Param) and node.name.value == name for node in walk(scope.params)
            ):
                found.append(scope.params)
            if found:
                yield from found
                return


def _in_scope(scope: cst.CSTNode, name: str) -> Iterator[cst.CSTNode]:
    """Functions and values that a name stands for in a scope, without those of inner scopes."""
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
            case cst.AssignTarget() | cst.AugAssign() | cst.AnnAssign() | cst.NamedExpr() | cst.For():
                if any(isinstance(node, cst.Name) and node.value == name for node in walk(child.target)):
                    yield child
                if isinstance(child, cst.For):
                    yield from _in_scope(child, name)
            case cst.ImportAlias():
                bound = child.asname.name if child.asname is not None else child.name
                if dotted(bound) == name:
                    yield child
            case _:
                yield from _in_scope(child, name)


def _members(owner: cst.ClassDef, attribute: str) -> Iterator[cst.CSTNode]:
    """Methods of a class, and what its methods store into ``self``, under one name."""
    yield from _in_scope(owner.body, attribute)
    for node in walk(owner.body):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                if dotted(target.target) == f"self.{attribute}":
                    yield node.value


def _undecorated(function: cst.FunctionDef) -> cst.FunctionDef:
    kept: list[cst.Decorator] = []
    above: list[cst.EmptyLine] = []
    is_found = False
    for decorator in function.decorators:
        target = decorator.decorator
        if _is_disable(target.func if isinstance(target, cst.Call) else target):
            is_found = True
            above.extend(decorator.leading_lines)
        else:
            leading = [*above, *decorator.leading_lines]
            kept.append(decorator.with_changes(leading_lines=leading))
            above = []
    decline_if(not is_found, f"`{function.name.value}` isn't disabled where it is defined")
    return function.with_changes(decorators=kept, lines_after_decorators=[*above, *function.lines_after_decorators])


def _disabled(call: cst.Call) -> cst.BaseExpression:
    """The function ``f`` in ``torch.compiler.disable(f, reason="…")``."""
    decline_if(not _is_disable(call.func), "the source doesn't say which function is called")
    for arg in call.args:
        if not arg.star and (arg.keyword is None or arg.keyword.value == "fn"):
            return enclosed(arg.value.deep_clone())
    raise DeclinedError("`torch.compiler.disable` isn't given a function here")


def _is_disable(node: cst.BaseExpression) -> bool:
    return dotted(node) in _DISABLE


_CALLS = frozenset({"graph_break", "skip_frame", "step_unsupported"})


@recipe("GD107")
def remove_graph_break(place: Place) -> Edit:
    """Removes ``torch._dynamo.graph_break()``.

    Unsafe even though results stay the same, because somebody put it there on purpose. A comment on its line goes with
    it; comments above it stay.
    """
    small = _small_statement(place)
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call) or called(call) not in _CALLS:
        raise DeclinedError("the line isn't a call that only breaks the graph")
    if place.source.function_of(small) is None:
        raise DeclinedError("the call isn't in a function")
    name = place.source.code(call.func)
    return Edit(title=f"Remove `{name}()`", content=_without(place.source, small), is_safe=False)


def _small_statement(place: Place) -> cst.BaseSmallStatement:
    """The statement; in ``if c: graph_break()``, the one after the colon."""
    statement = place.statement
    body = getattr(statement, "body", None)
    if isinstance(body, cst.SimpleStatementSuite):
        around = [place.expression, *place.source.parents(place.expression)] if place.expression is not None else []
        for small in body.body:
            if isinstance(small, cst.BaseSmallStatement) and (
                any(node is small for node in around) or (not around and len(body.body) == 1)
            ):
                return small
    return place.small_statement


def _without(source: SourceFile, small: cst.BaseSmallStatement) -> bytes:
    line = next(source.parents(small))
    assert isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite)  # nothing else holds small statements
    if len(line.body) > 1:
        kept = [other for other in line.body if other is not small]
        if line.body[-1] is small:
            last = kept[-1]
            return source.replaced((last, last.with_changes(semicolon=small.semicolon)), _gone(small))
        return source.replaced(_gone(small))
    block = next(source.parents(line))
    if isinstance(line, cst.SimpleStatementSuite) or not isinstance(block, cst.IndentedBlock) or len(block.body) == 1:
        return source.replaced((small, cst.Pass(semicolon=small.semicolon)))
    at = next(number for number, other in enumerate(block.body) if other is line)
    above = [empty.deep_clone() for empty in line.leading_lines]
    if at + 1 < len(block.body):
        following = block.body[at + 1]
        assert isinstance(following, cst.SimpleStatementLine | cst.BaseCompoundStatement)  # a line of a block
        leading = [*above, *following.leading_lines]
        return source.replaced(_gone(line), (following, following.with_changes(leading_lines=leading)))
    # After the last line, only the footer can hold the comments that were above it.
    footer = [empty for empty in above if empty.comment is not None]
    return source.replaced((block, block.with_changes(body=block.body[:at], footer=[*footer, *block.footer])))


def _gone(node: cst.CSTNode) -> Change:
    return node, cst.FlattenSentinel(())
