"""Lists that only some turns of a loop append to: every turn appends, and a mask says which count
where the list is reduced. The loop stays, since torch unrolls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from libcst import (
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseStatement,
    BinaryOperation,
    Call,
    Continue,
    CSTNode,
    Expr,
    For,
    FunctionDef,
    If,
    Name,
    SimpleStatementLine,
    Tuple,
    parse_expression,
    parse_statement,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import condition_of, guarded, negated
from graphdoctor.fixes.source.nodes import (
    Names,
    above,
    after_lines,
    as_operand,
    called,
    calls_in,
    in_place_of,
    lines_of,
    refuse_comment,
    set_names,
    without_parentheses,
)
from graphdoctor.fixes.source.torch_names import draws_random
from graphdoctor.fixes.source.tree import Change, SourceFile, decline_if, find, need, with_replaced

_USED = "the list is used for more than a sum or a mean of its values"
_NONE = "no list has values of some turns only"
_REDUCED = {
    "torch.stack({0}).mean()": "{kept}.sum() / {counts}.sum()",
    "torch.stack({0}).sum()": "{kept}.sum()",
    "sum({0})": "{kept}.sum()",
    "not {0}": "not {counts}.any()",
    "len({0}) == 0": "not {counts}.any()",
    "len({0}) > 0": "{counts}.any()",
    "max(len({0}), 1)": "{counts}.sum().clamp(min=1)",
    "max(1, len({0}))": "{counts}.sum().clamp(min=1)",
    "len({0})": "{counts}.sum()",
}
"""What a list is used for after the loop, and the same of the values that count."""


@recipe("GD102", "GD103", "GD119")
def count_some_turns(place: Place) -> Edit:
    """``if not present: continue`` above ``losses.append(loss)`` becomes
    ``counts.append(present)``, and ``torch.stack(losses).mean()`` the mean of those that count.

    Unsafe: what the loop skipped is computed, and a mean of no values is NaN, an error before.
    """
    source, function = place.source, place.function
    around = [place.statement, *source.path_to(function, place.statement)]
    loop = next((node for node in reversed(around) if isinstance(node, For)), None)
    loop = need(loop, For, "no loop is around the line", "another_line")
    lines = lines_of(loop.body)
    choice = need(next((line for line in lines if line in around), None), If, _NONE)
    decline_if(choice.orelse is not None, "the `if` has another branch")
    refuse_comment(choice.with_changes(leading_lines=()))
    run = lines_of(choice.body)
    is_skipping = any(isinstance(_small(line), Continue) for line in run[:1])
    test = negated(choice.test, source) if is_skipping else condition_of(choice.test, source)
    if is_skipping:
        run = lines[lines.index(choice) + 1 :]
    appends = {line: append for line in run if (append := _append(line)) is not None}
    decline_if(not appends or (len(appends) != len(run) and not is_skipping), _NONE)
    names = Names(source, function)
    is_apart = all(names.is_only_in(name, [loop]) for name in set_names(*run))
    is_apart &= not any(find(line, AugAssign) for line in run)
    is_apart &= not any(draws_random(called(call)) for call in calls_in(*run))
    decline_if(not is_apart, "the turns that count do more than append to lists")
    counts = names.fresh("counts")
    code = source.code(without_parentheses(test))
    line = need(parse_statement(f"{counts}.append({code})"), SimpleStatementLine)
    counted = after_lines(line, above(choice))
    guards = [(value, guarded(value, test, is_if=True)) for _, value in appends.values()]
    kept = [with_replaced(line, guards) for line in run]
    changes: list[Change] = [(choice, counted if is_skipping else [counted, *kept])]
    for name in {name: None for name, _ in appends.values()}:
        changes += _reduced(source, function, loop, name, counts)
    changed = source.changed(*changes)
    again = find(changed.tree, For)[find(source.tree, For).index(loop)]
    bare = again.with_changes(leading_lines=())
    before, after = f"{counts} = []", f"{counts} = torch.stack({counts})"
    new = [parse_statement(before), bare, parse_statement(after)]
    statements = [need(line, BaseStatement) for line in new]
    title = f"Count some turns of the `for` at line {source.start(loop)[0]} by a mask"
    return Edit(title, changed.replaced((again, in_place_of(again, statements))))


def _small(line: BaseStatement) -> CSTNode | None:
    match line:
        case SimpleStatementLine(body=[small]):
            return small
    return None


def _append(line: BaseStatement) -> tuple[str, BaseExpression] | None:
    match _small(line):
        case Expr(
            value=Call(
                func=Attribute(value=Name(value=name), attr=Name("append")), args=[Arg(value=value)]
            )
        ):
            return name, value
    return None


def _reduced(
    source: SourceFile, function: FunctionDef, loop: For, name: str, counts: str
) -> Iterator[Change]:
    """Write what a list is used for after the loop by the turns that count."""
    uses = [part for part in find(function, Name) if part.value == name]
    end = source.position(loop).end.line
    later = [use for use in uses if source.start(use)[0] > end]
    made = []
    match source.around(uses[0], Assign):
        case Assign(
            targets=[AssignTarget(target=Tuple(elements=names))], value=Tuple(elements=values)
        ):
            pairs = zip(names, values, strict=False)
            made = [value.value for target, value in pairs if target.value is uses[0]]
        case Assign(targets=[_], value=value):
            made = [value]
    # Beside those after the loop, one makes it and one appends to it.
    is_made = [source.code(value) for value in made] == ["[]"]
    decline_if(not is_made or len(uses) != len(later) + 2, _USED)
    yield from reduced(source, later, f"torch.where({counts}, torch.stack({name}), 0)", counts)


def reduced(source: SourceFile, uses: Sequence[Name], kept: str, counts: str) -> Iterator[Change]:
    """Write the uses of a list by the values that are kept, and which of them count.

    Raises:
        DeclinedError: One isn't a sum, a mean or a question whether there are any.
    """
    name = uses[0].value if uses else ""
    forms = {key.format(name): form for key, form in _REDUCED.items()}
    seen = set[CSTNode]()
    for use in uses:
        nodes = [node for node in source.parents(use) if isinstance(node, BaseExpression)]
        outer = [node for node in nodes if source.code(node) in forms]
        decline_if(not outer, _USED)
        node = outer[-1]
        if node not in seen:
            seen.add(node)
            new = parse_expression(forms[source.code(node)].format(kept=kept, counts=counts))
            is_operand = isinstance(source.parent(node), BinaryOperation)
            yield node, as_operand(new) if is_operand else new
