"""Chooses by a tensor what a function returns where a branch leaves it early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from libcst import (
    Assert,
    AssignTarget,
    Attribute,
    AugAssign,
    Await,
    BaseExpression,
    BaseStatement,
    Call,
    ClassDef,
    CSTNode,
    Expr,
    FunctionDef,
    Global,
    If,
    IndentedBlock,
    Lambda,
    Name,
    Nonlocal,
    Raise,
    Return,
    SimpleStatementLine,
    Subscript,
    Yield,
)

from graphdoctor.fixes.moves.choosing import choose_each, columns_of, refuse_parts
from graphdoctor.fixes.moves.steps import RETURNED, Step, branch_of, ends_with_return
from graphdoctor.fixes.recipe import Edit, Place
from graphdoctor.fixes.source.effects import is_report
from graphdoctor.fixes.source.expressions import (
    condition_of,
    guarded,
    refuse_effects,
    without_python,
)
from graphdoctor.fixes.source.nodes import (
    Names,
    after_lines,
    assigned,
    has_comment,
    in_place_of,
    is_in_place,
    line_of,
    lines_of,
    name_set,
    refuse_lost_comments,
    set_names,
    without_parentheses,
)
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    known,
    need,
    walk,
)


def choose_at_return(place: Place, statement: If, names: Names) -> Edit:
    """``if sure: return early`` and later ``return late`` become ``return torch.where(sure, early,
    late)``.
    """
    source, function = place.source, place.function
    decline_if(statement.orelse is not None, "the `if` has another branch")
    steps = branch_of(statement.body, source, [statement]).steps
    decline_if(len(steps) != 1 or steps[0].target != RETURNED, "the branch does more than return")
    is_inside = source.parent(statement) is not function.body
    decline_if(is_inside, "the early `return` is inside another block")
    body = lines_of(function.body)
    rest = body[body.index(statement) + 1 :]
    is_open = not rest or not ends_with_return(rest[-1])
    decline_if(is_open, "the function doesn't end with a `return`")
    for line in rest:
        _refuse_effects(source, line)
        refuse_effects(line)
    returns, early = list(_returns(rest)), steps[0].value
    outer, test = without_python(statement.test, source)
    condition = condition_of(test, source)
    lines = []
    is_changed = bool(name_set(early, condition, *([outer] if outer else [])) & set_names(*rest))
    title = "Compute the rest in any case, and choose what is returned with `torch.where`"
    if outer is not None:
        decline_if(is_changed or len(returns) > 1, "the rest changes what is returned early")
        return place.edit(
            title, (statement, []), *_chosen_if(names, outer, condition, steps[0], rest)
        )
    if len(returns) > 1 or is_changed or has_comment(statement):
        is_early = Name(names.fresh("is_early"))
        first = line_of(assigned(is_early, condition).body[0], steps[0].comments)
        lines.append(after_lines(first, statement.leading_lines))
        condition = is_early
    if lines and not (isinstance(early, Name) and early.value not in set_names(*rest)):
        safe = without_parentheses(guarded(early, condition, is_if=True))
        early = Name(names.fresh("early_value"))
        lines.append(assigned(early, safe))
    changes = []
    for returned in returns:
        late = known(returned.value, "a later `return` returns nothing")
        changes.append((late, _both(condition, early, late)))
    refuse_lost_comments([statement], lines)
    return place.edit(title, (statement, lines), *changes)


def _both(condition: BaseExpression, early: BaseExpression, late: BaseExpression) -> BaseExpression:
    values = [early, late]
    columns = columns_of(values)
    for column in columns:
        refuse_parts(column)
    return choose_each([condition], values, columns)


def _chosen_if(
    names: Names,
    outer: BaseExpression,
    condition: BaseExpression,
    early: Step,
    rest: Sequence[BaseStatement],
) -> list[Change]:
    """Choose what is returned at the end where Python says so."""
    last = need(rest[-1], SimpleStatementLine)
    late = known(need(last.body[-1], Return).value, "a later `return` returns nothing")
    decline_if(len(last.body) > 1, "the last line has several statements")
    lines: list[BaseStatement] = []
    result = late
    if not isinstance(late, Name):
        result = Name(names.fresh("result"))
        lines.append(assigned(result, late.deep_clone()))
    chosen = _both(condition, early.value, result)
    lines.append(If(outer.deep_clone(), IndentedBlock([assigned(result.deep_clone(), chosen)])))
    lines.append(last.with_changes(body=[Return(result.deep_clone())], leading_lines=()))
    refuse_lost_comments([last], lines)
    return [(last, in_place_of(last, lines))]


def _returns(nodes: Sequence[CSTNode]) -> Iterator[Return]:
    for node in nodes:
        if isinstance(node, Return):
            yield node
        elif not isinstance(node, FunctionDef | Lambda | ClassDef):
            yield from _returns(node.children)


def _refuse_effects(source: SourceFile, line: CSTNode) -> None:
    if is_report(source, line):
        return
    stored = Attribute | Subscript
    for node in walk(line):
        match node:
            case Raise() | Assert():
                reason = "may raise"
            case Yield() | Await() | Global() | Nonlocal():
                reason = "does more than compute"
            case AssignTarget(target=to) | AugAssign(target=to) if isinstance(to, stored):
                reason = "stores into an object"
            case Call() if is_in_place(node):
                reason = "changes a tensor in place"
            case Expr(value=Call()) if not is_report(source, node):
                reason = "calls something for its side effect"
            case _:
                continue
        raise DeclinedError(f"the rest of the function {reason}")
