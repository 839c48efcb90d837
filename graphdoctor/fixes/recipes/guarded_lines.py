"""Lines that a tensor's value guards: changes in place, a check for an empty selection, an
exception, and early outs and shortcuts that only save time.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Sequence

from libcst import (
    AddAssign,
    Arg,
    Assert,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseElement,
    BaseExpression,
    BaseSmallStatement,
    BaseStatement,
    BaseSuite,
    Break,
    Call,
    Comparison,
    ComparisonTarget,
    ConcatenatedString,
    Continue,
    CSTNode,
    DivideAssign,
    Else,
    EmptyLine,
    Equal,
    Expr,
    For,
    GreaterThan,
    GreaterThanEqual,
    If,
    IndentedBlock,
    Index,
    Integer,
    Is,
    IsNot,
    LessThan,
    LessThanEqual,
    List,
    MultiplyAssign,
    Name,
    NamedExpr,
    Not,
    NotEqual,
    Pass,
    Raise,
    SimpleStatementLine,
    SimpleStatementSuite,
    SimpleString,
    Subscript,
    SubscriptElement,
    SubtractAssign,
    Try,
    TryStar,
    Tuple,
    UnaryOperation,
    matchers,
    parse_expression,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import (
    as_tensor,
    condition_of,
    guarded,
    is_one_number,
    negated,
    refuse_unless_tensor,
)
from graphdoctor.fixes.source.nodes import (
    Comments,
    Names,
    above,
    after_lines,
    assigned,
    called,
    calls_in,
    comments_in,
    has_comment,
    in_place_of,
    index_of,
    is_repeatable,
    keyword_of,
    line_of,
    lines_for,
    lines_of,
    method_call,
    name_set,
    refuse_lost_comments,
    set_names,
    targets_of,
    where,
    without_parentheses,
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
)

_NEUTRAL = {"mul_": "1", "div_": "1", "add_": "0", "sub_": "0"}
"""Methods of a tensor, and the argument with which each changes nothing."""

_OPERATORS = {MultiplyAssign: "1", DivideAssign: "1", AddAssign: "0", SubtractAssign: "0"}
_MORE = "the branch does more than change tensors in place"
_BRANCHES = "the `if` has another branch"
_LOST = "a comment would be lost"


@recipe("GD102")
def in_place_where(place: Place) -> Edit:
    """``if norm > limit: grad.mul_(limit / norm)`` becomes ``grad.mul_(torch.where(norm > limit,
    limit / norm, 1))``.

    Also in a loop, for ``div_``, ``add_`` and ``sub_``, their operators, ``zero_`` and ``fill_``,
    beside names that only the branch uses; ``best.copy_(x)`` becomes
    ``best.copy_(torch.where(condition, x, best))``, and so do items and attributes that are set.
    Multiplying by 1 keeps every number, infinity and NaN; adding 0 turns -0.0 into 0.0.
    Unsafe: what is written is always computed, so it may fail or be another dtype than it was.
    """
    choice = place.branch
    changes = _InPlace(choice, Names(place.source, place.scope))
    lines = changes.written()
    refuse_lost_comments([choice], lines)
    what = "what is written" if changes.is_written else "the amount of each in-place change"
    return place.edit(f"Choose {what} with `torch.where`", (choice, lines))


class _InPlace:
    def __init__(self, choice: If, names: Names) -> None:
        self._choice = choice
        self._names = names
        self._test = condition_of(choice.test, names.source)
        self._condition, self._above = names.named(self._test)
        self._hoisted: list[SimpleStatementLine] = []
        self.is_written = False
        """Whether a whole tensor, or a part of one, is written anew, so that the condition's dims
        would count."""
        self._count = 0
        """How many changes in place there are."""

    def written(self) -> list[BaseStatement]:
        lines: list[BaseStatement] = []
        for line in lines_of(self._choice.body):
            changed = self._line(line, ())
            lines += [*self._hoisted, changed]
            self._hoisted = []
        decline_if(not self._count, "the branch changes no tensor in place by an amount")
        if self.is_written and not is_one_number(self._choice.test, self._names.source):
            self._above = [assigned(self._condition, method_call(self._test, "squeeze"))]
        return in_place_of(self._choice, [*self._above, *lines])

    def _line(self, line: BaseStatement, loops: tuple[For, ...]) -> BaseStatement:
        match line:
            case SimpleStatementLine():
                return line.with_changes(body=[self._small(small, loops) for small in line.body])
            case For(orelse=None, asynchronous=None):
                body = self._body(line.body, (*loops, line))
                heads = {"target": line.target.deep_clone(), "iter": line.iter.deep_clone()}
                return line.with_changes(body=body, **heads)
            case If(orelse=None) if _is_about_objects(line.test):
                body = self._body(line.body, loops)
                return line.with_changes(body=body, test=line.test.deep_clone())
        raise DeclinedError(_MORE)

    def _body(self, body: BaseSuite, loops: tuple[For, ...]) -> BaseSuite:
        if isinstance(body, SimpleStatementSuite):
            return body.with_changes(body=[self._small(small, loops) for small in body.body])
        return body.with_changes(body=[self._line(line, loops) for line in lines_of(body)])

    def _small(self, small: BaseSmallStatement, loops: tuple[For, ...]) -> BaseSmallStatement:
        match small:
            case Pass():
                return small.deep_clone()
            case Expr(value=Call(func=Attribute(attr=Name(value=name))) as call):
                return small.with_changes(value=self._call(call, name, loops))
            case AugAssign(operator=operator, value=value) if type(operator) in _OPERATORS:
                amount = self._amount(value, _OPERATORS[type(operator)], loops)
                return small.with_changes(target=small.target.deep_clone(), value=amount)
            case Assign(
                targets=[AssignTarget(target=Subscript() | Attribute() as target)], value=value
            ) if not holds(target, NamedExpr):
                to = AssignTarget(target.deep_clone())
                return small.with_changes(targets=[to], value=self._kept(value, target))
            case Assign(targets=[AssignTarget(target=Name(value=name))], value=value):
                is_used = not self._names.is_only_in(name, [self._choice])
                decline_if(is_used, f"`{name}` is used after the branch")
                refuse_unless_tensor(value)
                return small.deep_clone()
        raise DeclinedError(_MORE)

    def _call(self, call: Call, name: str, loops: tuple[For, ...]) -> Call:
        args = [argument.deep_clone() for argument in call.args]
        is_unclear = any(argument.star for argument in args)
        decline_if(is_unclear, f"`{name}` takes arguments that the line doesn't show")
        keywords = list(map(keyword_of, args))
        func = call.func.deep_clone()
        if name in _NEUTRAL and keywords[:1] == [""] and set(keywords[1:]) <= {"alpha"}:
            amount = self._amount(call.args[0].value, _NEUTRAL[name], loops)
            return call.with_changes(
                func=func, args=[args[0].with_changes(value=amount), *args[1:]]
            )
        if (name == "fill_" and keywords == [""]) or (name == "zero_" and not args):
            self._count += 1
            value = args[0].value if args else Integer("0")
            filled = func.with_changes(attr=Name("masked_fill_"))
            return Call(filled, [Arg(self._condition.deep_clone()), Arg(value)])
        if name == "copy_" and keywords == [""] and isinstance(call.func, Attribute):
            value = self._kept(call.args[0].value, call.func.value)
            return call.with_changes(func=func, args=[Arg(value)])
        raise DeclinedError(f"`{name}` has no argument with which it changes nothing")

    def _kept(self, value: BaseExpression, target: BaseExpression) -> Call:
        """Choose between a value to write and what is there."""
        decline_if(not is_repeatable(target), "what is written can't be read as well")
        if dotted(value) not in ("True", "False"):
            refuse_unless_tensor(value)
        self._count += 1
        self.is_written = True
        return where(self._condition, guarded(value, self._condition, is_if=True), target)

    def _amount(
        self, value: BaseExpression, neutral: str, loops: tuple[For, ...]
    ) -> BaseExpression:
        """Choose between the amount and the neutral one; in a loop, before it if it doesn't depend
        on it.
        """
        refuse_unless_tensor(value)
        self._count += 1
        safe = guarded(value, self._condition, is_if=True)
        chosen = where(self._condition, safe, parse_expression(neutral))
        if not loops or any(_depends_on(value, loop) for loop in loops):
            return chosen
        name = Name(self._names.fresh("amount"))
        self._hoisted.append(assigned(name, chosen))
        return name.deep_clone()


def _depends_on(value: BaseExpression, loop: For) -> bool:
    in_place = [call.func for call in calls_in(loop.body) if called(call).endswith("_")]
    tensors = [func.value for func in in_place if isinstance(func, Attribute)]
    return bool(name_set(value) & (name_set(loop.target, *tensors) | set_names(loop.body)))


def _is_about_objects(test: BaseExpression) -> bool:
    """Check whether a test only asks for presence: ``p.grad is not None``, ``p.requires_grad``."""
    match test:
        case Comparison(comparisons=[ComparisonTarget(operator=Is() | IsNot())]):
            return True
        case UnaryOperation(operator=Not(), expression=inner):
            return _is_about_objects(inner)
        case Attribute(attr=Name(value="requires_grad" | "training" | "is_sparse")):
            return True
    return False


_COUNTS = words("numel nelement sum any count_nonzero")
"""Methods whose result is 0 or False for an empty selection, whether it is a mask or indices."""

_WRITES = words("""
    index_add index_copy index_fill index_put masked_fill masked_scatter scatter scatter_add
""")
"""Methods of a tensor that write only what an argument selects; with ``_`` at the end, in place."""

_UNASKED = "the condition doesn't ask whether a selection is empty"
_Body = Sequence[BaseStatement | BaseSmallStatement]


@recipe("GD102", "GD119")
def drop_empty_check(place: Place) -> Edit:
    """Removes ``if rows.numel() == 0: continue`` and ``if mask.any():`` before code that only
    changes those rows.

    Without rows, ``out[rows] += expert(x[rows])`` changes nothing, so the check only saves time.
    The size itself still depends on values: torch captures it with
    ``capture_dynamic_output_shape_ops``. Unsafe: the code now also runs without rows, which some
    modules refuse, and parameters get a zero gradient where they had none.
    """
    source, choice = place.source, place.branch
    checked, is_for_empty = _checked(source, choice.test, is_empty=False)
    lines: _Body = choice.body.body
    if is_for_empty:
        lines = _skipped(source, choice)
    selectors = _selectors(source, place.scope, checked)
    names = Names(source, place.scope)
    is_flat = all(isinstance(line, BaseSmallStatement | SimpleStatementLine) for line in lines)
    decline_if(not is_flat, "the lines after the check contain more than assignments")
    smalls = [small for line in lines for small in getattr(line, "body", [line])]
    writes = [small for small in smalls if _is_write(source, small, selectors)]
    others = [small for small in smalls if small not in writes]
    is_all = writes and all(_is_of_own_name(small, lines, names) for small in others)
    decline_if(not is_all, "the lines after the check do more than change what it selects")
    title = (
        f"Drop the check `{source.shortened(choice.test)}`: without rows, the lines after it change"
        " nothing"
    )
    return place.edit(title, (choice, [] if is_for_empty else _unguarded(choice)))


def _checked(
    source: SourceFile, test: BaseExpression, *, is_empty: bool
) -> tuple[BaseExpression, bool]:
    match test:
        case UnaryOperation(operator=Not(), expression=inner):
            return _checked(source, inner, is_empty=not is_empty)
        case Comparison(
            left=left, comparisons=[ComparisonTarget(operator=operator, comparator=right)]
        ):
            match operator, source.code(right):
                case (Equal() | LessThanEqual(), "0") | (LessThan(), "1"):
                    return _counted(source, left), not is_empty
                case (NotEqual() | GreaterThan(), "0") | (GreaterThanEqual(), "1"):
                    return _counted(source, left), is_empty
            raise DeclinedError(_UNASKED)
    return _counted(source, test), is_empty


_CASTS = words("bool int", "builtins.")


def _counted(source: SourceFile, count: BaseExpression) -> BaseExpression:
    """Return ``rows`` for ``rows.numel()``, ``len(rows)`` and ``rows.shape[0]``, ``mask`` for
    ``mask.any()``.
    """
    match count:
        case Call(args=[Arg(value=inner)]) if source.dotted_name(count) == "builtins.len":
            return _indices(inner)
        case Call(args=[Arg(value=inner)]) if source.dotted_name(count) in _CASTS:
            return _counted(source, inner)
        case (
            Call(func=Attribute(value=inner, attr=Name("size")), args=[Arg(value=Integer("0"))])
            | Subscript(
                value=Attribute(value=inner, attr=Name("shape")),
                slice=[SubscriptElement(slice=Index(value=Integer("0")))],
            )
        ):
            return _indices(inner)
        case Call() if not source.given_to(count) and (tensor := source.receiver(count)):
            if source.method_name(count) in ("item", "bool"):
                return _counted(source, tensor)
            if source.method_name(count) in _COUNTS:
                return _indices(tensor)
    raise DeclinedError(_UNASKED)


def _indices(node: BaseExpression) -> BaseExpression:
    """Return ``rows`` for ``rows[0]``, the indices of the first dim."""
    is_item = isinstance(index_of(node), Integer)
    return (
        node.value
        if is_item and isinstance(node, Subscript) and isinstance(node.value, Name)
        else node
    )


def _text(source: SourceFile, node: BaseExpression) -> str:
    return source.code(_indices(node).with_changes(lpar=(), rpar=()))


def _skipped(source: SourceFile, choice: If) -> _Body:
    suite = need(source.parent(choice), IndentedBlock, _UNASKED)
    match lines_of(choice.body), source.parent(suite):
        case [SimpleStatementLine(body=[Continue()])], For():
            decline_if(has_comment(choice.body), _LOST)
            return suite.body[suite.body.index(choice) + 1 :]
    raise DeclinedError("without rows, it does more than skip one turn of a loop")


def _selectors(source: SourceFile, function: CSTNode, checked: BaseExpression) -> frozenset[str]:
    """Return texts of expressions that select nothing if the checked one does."""
    texts = {_text(source, checked)}
    if isinstance(checked, Name):
        for assignment in find(function, Assign):
            # `rows, slot = torch.where(mask)`: both are as long as there are places.
            names = _names_of(assignment)
            texts.update(names if checked.value in names else ())
        indices = filter(None, map(index_of, source.set_values(checked)))
        texts.update(_text(source, index) for index in indices)
    return frozenset(texts)


def _names_of(assignment: Assign) -> list[str]:
    parts = [
        part.value if isinstance(part, BaseElement) else part
        for target in targets_of(assignment)
        for part in (target.elements if isinstance(target, Tuple | List) else [target])
    ]
    return [part.value for part in parts if isinstance(part, Name)]


def _is_of_own_name(small: CSTNode, lines: _Body, names: Names) -> bool:
    match small:
        case Assign(targets=targets):
            set_here = _names_of(small)
            return len(set_here) >= len(targets) and all(
                names.is_only_in(name, lines) for name in set_here
            )
        case AugAssign(target=Name(value=name)):
            return names.is_only_in(name, lines)
    return isinstance(small, Pass)


def _is_write(source: SourceFile, small: CSTNode, selectors: frozenset[str]) -> bool:
    values: list[BaseExpression] = []
    match small:
        case (
            Assign(targets=[AssignTarget(target=Subscript(slice=slices))])
            | AugAssign(target=Subscript(slice=slices))
        ):
            values = [part.slice.value for part in slices if isinstance(part.slice, Index)]
        case Expr(value=Call() as call) if source.method_name(call).endswith("_"):
            values = _passed(source, call)
        case Assign(targets=[AssignTarget(target=Name(value=name))], value=Call() as call) if (
            dotted(source.receiver(call)) == name and not source.method_name(call).endswith("_")
        ):
            values = _passed(source, call)
    return any(_text(source, value) in selectors for value in values)


def _passed(source: SourceFile, call: Call) -> list[BaseExpression]:
    """Return what a call is given that writes what an argument selects; nothing for others."""
    if source.method_name(call).rstrip("_") not in _WRITES:
        return []
    values = [argument.value for argument in call.args]
    tuples = [value for value in values if isinstance(value, Tuple)]
    return [*values, *(part.value for value in tuples for part in value.elements)]


def _unguarded(choice: If) -> list[BaseStatement]:
    body = choice.body
    if isinstance(body, IndentedBlock):
        decline_if(has_comment(body.header) or comments_in(body.footer), _LOST)
    return in_place_of(choice, [line.deep_clone() for line in lines_of(body)])


@recipe("GD102")
def check_instead_of_raise(place: Place) -> Edit:
    """``if bad: raise ValueError("why")`` becomes ``assert ~bad, "why"``, which torch keeps in the
    graph.

    So does an ``assert`` of several conditions, or with a message that isn't a constant. Unsafe: it
    raises ``AssertionError``, and ``RuntimeError`` in compiled code, on a GPU so late that the
    device can't be used any more. ``torch._check`` doesn't help because it needs a Python bool
    (``torch/__init__.py``, 2.13).
    """
    source, tested = place.source, place.tested
    steps = itertools.pairwise(source.path_to(place.scope, tested))
    is_caught = any(
        isinstance(outer, Try | TryStar) and outer.handlers and outer.body is inner
        for inner, outer in steps
    )
    decline_if(is_caught, "the exception may be caught by the `try` around it")
    title = "Check the value in the graph with an `assert`"
    if isinstance(tested, Assert):
        literal = _literal(tested.msg)
        message = literal or (tested.msg and _quoted(f"not ({_flat(source, tested.test)})"))
        test = without_parentheses(as_tensor(tested.test, source))
        new = Assert(test, message).with_changes(semicolon=tested.semicolon)
        is_same = (tested.msg is None or literal is not None) and new.test.deep_equals(
            without_parentheses(tested.test)
        )
        decline_if(is_same, "torch keeps such an `assert` in the graph as it is")
        refuse_lost_comments([tested], [new])
        line = source.start(tested)[0]
        return place.edit(title, (tested, new), raised=line, drops_output=True)
    statement = need(tested, If, "nothing is raised")
    more = "the condition guards more than an exception"
    decline_if(statement.orelse is not None, _BRANCHES)
    body = statement.body
    line_ = need(only(lines_of(body), more), SimpleStatementLine, more)
    comments = Comments.of(line_.leading_lines, line_.trailing_whitespace)
    if isinstance(body, IndentedBlock):
        around = Comments((*comments_in([body.header]), *comments.above, *comments_in(body.footer)))
        comments = around.joined(Comments((), comments.beside))
    raised = need(only(line_.body, more), Raise, more)
    test = without_parentheses(negated(statement.test, source))
    new = Assert(test, _message(source, raised, statement))
    changes = lines_for(source, statement, [line_of(new, comments)])
    return place.edit(title, *changes, raised=source.start(raised)[0], drops_output=True)


def _message(source: SourceFile, raised: Raise, statement: If) -> BaseExpression:
    """Return the exception's message if it is a plain string; otherwise its type and the
    condition.
    """
    kind = known(raised.exc, "it re-raises an exception")
    if isinstance(kind, Call):
        first = kind.args[0].value if kind.args and not kind.args[0].star else None
        if (text := _literal(first)) is not None:
            return text
        kind = kind.func
    name = known(dotted(kind), "the source doesn't say which exception is raised")
    return _quoted(f"{name}: {_flat(source, statement.test)}")


def _literal(node: BaseExpression | None) -> BaseExpression | None:
    match node:
        case SimpleString(evaluated_value=str()) | ConcatenatedString(evaluated_value=str()):
            return node.deep_clone()
    return None


def _quoted(text: str) -> SimpleString:
    return SimpleString(json.dumps(text, ensure_ascii=False))


def _flat(source: SourceFile, node: BaseExpression) -> str:
    try:
        return ast.unparse(ast.parse(f"({source.code(node)}\n)", mode="eval"))
    except (SyntaxError, ValueError):
        raise DeclinedError("the condition can't be written as text") from None


_LEAVING = matchers.SimpleStatementLine(
    [matchers.Return() | matchers.Break() | matchers.Continue()]
)


@recipe("GD102", "GD103", "GD119")
def drop_early_out(place: Place) -> Edit:
    """Removes ``if mask.all(): return x``, ``if mask.sum() == 0: break`` and their like.

    Also with the line above it, if that only reads the value that it asks about. Unsafe: it's right
    only if the rest gives the same, which trials show on inputs that take the branch; without any,
    it isn't verified.
    """
    source = place.source
    choice, before = _leaving(place)
    is_one = choice.orelse is None and not isinstance(source.parent(choice), If)
    decline_if(not is_one, _BRANCHES)
    body = lines_of(choice.body)
    is_leaving = len(body) == 1 and matchers.matches(body[0], _LEAVING)
    decline_if(not is_leaving, "the branch does more than leave early")
    # Which lines an input reaches is known, not which parts of one.
    is_beside = isinstance(choice.body, SimpleStatementSuite)
    decline_if(is_beside, "the branch is on the line of its condition")
    block = need(source.parent(choice), IndentedBlock, "the `if` is on a line of its own")
    is_last = block.body[-1] is choice
    is_plain_break = holds(body[0], Break) and block.body[0] is not choice
    decline_if(is_last and not is_plain_break, "nothing comes after the `if`")
    removed: list[CSTNode] = [*before, choice]
    changes: list[Change] = [(line, []) for line in removed]
    if not is_last:
        # Comments above the lines are about them; blank lines stay.
        following = block.body[block.body.index(choice) + 1]
        is_line = hasattr(following, "leading_lines")
        decline_if(not is_line, "what follows isn't a line of its own")
        blank = [line for line in above(removed[0]) if line.comment is None]
        changes.append((following, after_lines(need(following, BaseStatement), blank)))
    what = source.shortened(body[0])
    title = f"Drop the early out `if {source.shortened(choice.test)}: {what}`"
    return place.edit(title, *changes, reached=(source.start(body[0])[0],))


def _leaving(place: Place) -> tuple[If, Sequence[BaseStatement]]:
    """Return the ``if``, and the line before it that only makes what it asks about."""
    unclear = "no early `return`, `break` or `continue` depends on the value"
    if isinstance(place.statement, If):
        return place.statement, ()
    line = need(place.statement, SimpleStatementLine, unclear, "elsewhere")
    block = need(place.source.parent(line), IndentedBlock, unclear, "elsewhere")
    at = block.body.index(line) + 1
    choice = need(block.body[at] if at < len(block.body) else None, If, unclear, "elsewhere")
    names = set_names(line)
    decline_if(
        len(line.body) != 1 or not names or not names <= name_set(choice.test), unclear, "elsewhere"
    )
    names_here = Names(place.source, place.scope)
    is_only = all(names_here.is_only_in(name, [line, choice.test]) for name in names)
    return choice, [line] if is_only else []


@recipe("GD102")
def drop_shortcuts(place: Place) -> Edit:
    """Keeps the ``else`` of ``if mask.all(): … elif not mask.any(): … else: …``, which works for
    every mask.

    Comments in and above the other branches go with them. Unsafe: it's right only if the ``else``
    gives the same, which trials show on inputs that take each of the other branches; without any,
    it isn't verified.
    """
    source = place.source
    choice = need(place.tested, If, "it isn't an `if` with an `else`")
    shortcuts, last = [choice], choice.orelse
    while isinstance(last, If):
        shortcuts.append(last)
        last = last.orelse
    general = need(last, Else, "no `else` works for every mask")
    names = name_set(general.body)
    for shortcut in shortcuts:
        masks = _asked_whole(source, shortcut.test)
        unclear = "the conditions don't ask about a whole mask that the `else` uses"
        decline_if(not masks or not masks <= names, unclear, "elsewhere")
        is_beside = isinstance(shortcut.body, SimpleStatementSuite)
        decline_if(is_beside, "a branch is on the line of its condition")
    title = f"Keep only the `else` of `if {source.shortened(choice.test)}: …`"
    reached = tuple(source.start(lines_of(shortcut.body)[0])[0] for shortcut in shortcuts)
    if isinstance(source.parent(choice), If):
        return place.edit(title, (choice, general.deep_clone()), reached=reached)
    first, *rest = [line.deep_clone() for line in lines_of(general.body)]
    header = general.body.header.comment if isinstance(general.body, IndentedBlock) else None
    beside = [EmptyLine(comment=header)] if header else []
    leading = [*choice.leading_lines, *general.leading_lines, *beside]
    lines = [after_lines(first, leading), *rest]
    refuse_lost_comments([general], lines)
    return place.edit(title, (choice, lines), reached=reached)


def _asked_whole(source: SourceFile, test: BaseExpression) -> set[str]:
    """Return the names in ``mask.all()`` and ``not mask.any()``; none for another condition."""
    word = "all"
    if isinstance(test, UnaryOperation) and isinstance(test.operator, Not):
        word, test = "any", test.expression
    tensor = source.receiver(test)
    is_whole = isinstance(test, Call) and called(test) == word and not source.given_to(test)
    return name_set(tensor) if tensor is not None and is_whole else set()
