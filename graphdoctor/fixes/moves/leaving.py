"""Chooses by a tensor where a branch leaves: what a function returns, and where a loop ends."""

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
    BitInvert,
    Break,
    Call,
    ClassDef,
    Continue,
    CSTNode,
    Element,
    Expr,
    For,
    FunctionDef,
    Global,
    If,
    IndentedBlock,
    Integer,
    Lambda,
    Name,
    Nonlocal,
    Raise,
    Return,
    SimpleStatementLine,
    Subscript,
    Tuple,
    UnaryOperation,
    Yield,
    parse_expression,
    parse_statement,
)

from graphdoctor.fixes.moves.choosing import choose_each, columns_of, refuse_parts
from graphdoctor.fixes.moves.nested import Nested, all_of
from graphdoctor.fixes.moves.steps import RETURNED, Step, branch_of, ends_with_return
from graphdoctor.fixes.recipe import Edit, Place
from graphdoctor.fixes.source.effects import changed_by, is_report
from graphdoctor.fixes.source.expressions import (
    condition_of,
    guarded,
    negated,
    refuse_effects,
    without_python,
)
from graphdoctor.fixes.source.nodes import (
    Names,
    after_lines,
    assigned,
    called,
    calls_in,
    enclosed,
    has_comment,
    in_place_of,
    is_in_place,
    line_of,
    lines_of,
    name_set,
    refuse_lost_comments,
    set_names,
    with_lines,
    without_parentheses,
)
from graphdoctor.fixes.source.torch_names import TENSOR_METHODS
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    known,
    names_in,
    need,
    only,
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


def run_to_the_end(place: Place, statement: If, names: Names) -> Edit:
    """``for …: x = f(x); if done.all(): break`` becomes a loop to the end in which ``x =
    torch.where(is_running, f(x), x)``.
    """
    source, block = place.source, place.source.parent(statement)
    loop = need(source.parent(block), For, "the `break` is inside another block")
    lines, own = lines_of(loop.body), set(walk(statement))
    others = [part for part in find(loop, Break, Continue, Return) if part not in own]
    is_plain = statement.orelse is None and loop.orelse is None and not others
    decline_if(not is_plain, "the loop ends in more than one way")
    at, running = lines.index(statement), Name(names.fresh("is_running"))
    counted = _counted_turns(source, names, loop, running)
    # What no line after the loop reads may be anything in turns that don't count.
    nested = Nested(source, names, [loop])
    before = nested.lines(lines[:at], [running])
    more, stays = lines_of(statement.body)[:-1], negated(statement.test, source)
    last = []
    if more:
        ends = Name(names.fresh("ends"))
        test = enclosed(condition_of(statement.test, source))
        last = [assigned(ends, all_of([running, test])), *nested.lines(more, [ends])]
        stays = UnaryOperation(BitInvert(), ends)
    still = assigned(running, all_of([running, enclosed(stays, (UnaryOperation,))]))
    after = nested.lines(lines[at + 1 :], [running])
    first, *others_changed = [*last, still]
    turn = [*before, after_lines(first, statement.leading_lines), *others_changed, *after]
    turn = [*counted[1:2], *turn]
    tensor = _carried(source, names, loop)
    made = need(parse_expression(f"{tensor}.new_ones((), dtype=torch.bool)"), Call)
    start = after_lines(assigned(running, made), loop.leading_lines)
    new = loop.deep_clone().with_changes(body=with_lines(loop.body, turn), leading_lines=())
    whole = [start, *counted[:1], new, *counted[2:]]
    refuse_lost_comments([loop], whole)
    title = "Run the loop to its end, and change nothing after the turn that it ended with"
    return place.edit(title, (loop, whole))


def _counted_turns(
    source: SourceFile, names: Names, loop: For, running: Name
) -> list[BaseStatement]:
    """Count the turns that run, if the loop's number is read after it: a line before the loop, one
    that begins a turn and one after the loop. Nothing if it isn't.
    """
    read = [name for name in name_set(loop.target) if names.is_read_after(name, [loop])]
    if not read:
        return []
    sure = "what the loop goes over is used after it"
    number = only(read, sure)
    arguments = [arg.value for arg in loop.iter.args] if isinstance(loop.iter, Call) else []
    target: BaseExpression = loop.target
    match source.dotted_name(loop.iter), target:
        case "builtins.enumerate", Tuple(elements=[Element(value=target), _]):
            start = arguments[1:] or [Integer("0")]
        case "builtins.range", Name() if len(arguments) < 3:
            start = [Integer("0"), *arguments][-2:-1]
        case _:
            raise DeclinedError(sure)
    is_counted = dotted(target) == number and isinstance(start[0], Integer)
    is_new = is_counted and not names.is_bound_before(number, loop)
    decline_if(not is_new, sure)
    turns, first = names.fresh("turns"), int(need(start[0], Integer).value) - 1
    offset = f" {'+' if first > 0 else '-'} {abs(first)}" if first else ""
    texts = ["{0} = 0", "{0} = {0} + {1}", f"{number} = int({{0}}){offset}"]
    lines = [parse_statement(text.format(turns, running.value)) for text in texts]
    return [need(line, SimpleStatementLine) for line in lines]


def _carried(source: SourceFile, names: Names, loop: For) -> str:
    """Return the name of a tensor from before a loop that is used in it."""
    before = source.start(loop)
    for call in calls_in(loop.body):
        is_torch = source.dotted_name(call).startswith("torch.")
        receiver = source.receiver(call) if is_torch or called(call) in TENSOR_METHODS else None
        name = dotted(receiver)
        if isinstance(receiver, Name) and name and names.is_bound_before(name, loop):
            return name
    for used in names_in(loop.body):
        values = [value for value in source.values(used) if value is not None]
        if any(source.start(value) < before and source.is_tensor(value) for value in values):
            return used.value
    raise DeclinedError("no tensor from before the loop is used in it")


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
    is_changing = any("." in path for path in changed_by(line, "self"))
    decline_if(is_changing, "the rest of the function changes an object")
