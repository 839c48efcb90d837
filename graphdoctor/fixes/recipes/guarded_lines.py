"""Lines that a tensor's value guards: changes in place, a check for an empty selection, an
exception.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Sequence

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.branches import Comments, line_of, lines_for
from graphdoctor.fixes.source.expressions import (
    as_boolean_tensor,
    as_tensor,
    guarded,
    is_one_number,
    negated,
    refuse_unless_tensor,
)
from graphdoctor.fixes.source.names import Names
from graphdoctor.fixes.source.nodes import (
    after_lines,
    assigned,
    assigns_a_name,
    called,
    calls_in,
    comments_in,
    has_comment,
    is_repeatable,
    keyword_of,
    lines_of,
    method_call,
    name_set,
    refuse_lost_comments,
    set_names,
    targets_of,
    where,
    without_parentheses,
)
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    known,
    need,
    only,
)

_NEUTRAL = {"mul_": "1", "div_": "1", "add_": "0", "sub_": "0"}
"""Methods of a tensor, and the argument with which each changes nothing."""

_OPERATORS = {
    cst.MultiplyAssign: "1",
    cst.DivideAssign: "1",
    cst.AddAssign: "0",
    cst.SubtractAssign: "0",
}
_MORE = "the branch does more than change tensors in place"


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
    def __init__(self, choice: cst.If, names: Names) -> None:
        self._choice = choice
        self._names = names
        self._test = without_parentheses(as_boolean_tensor(choice.test, names.source))
        self._condition, self._above = names.named(self._test)
        self._hoisted: list[cst.SimpleStatementLine] = []
        self.is_written = False
        """Whether a whole tensor, or a part of one, is written anew, so that the condition's dims
        would count."""
        self._count = 0
        """How many changes in place there are."""

    def written(self) -> list[cst.BaseStatement]:
        lines: list[cst.BaseStatement] = []
        for line in lines_of(self._choice.body):
            changed = self._line(line, loops=())
            lines += [*self._hoisted, changed]
            self._hoisted = []
        decline_if(not self._count, "the branch changes no tensor in place by an amount")
        if self.is_written and not is_one_number(self._choice.test, self._names.source):
            self._above = [assigned(self._condition, method_call(self._test, "squeeze"))]
        lines = [*self._above, *lines]
        return [after_lines(lines[0], self._choice.leading_lines), *lines[1:]]

    def _line(self, line: cst.BaseStatement, loops: tuple[cst.For, ...]) -> cst.BaseStatement:
        match line:
            case cst.SimpleStatementLine():
                return line.with_changes(body=[self._small(small, loops) for small in line.body])
            case cst.For(orelse=None, asynchronous=None):
                body = self._body(line.body, (*loops, line))
                return line.with_changes(
                    body=body, target=line.target.deep_clone(), iter=line.iter.deep_clone()
                )
            case cst.If(orelse=None) if _is_about_objects(line.test):
                return line.with_changes(
                    body=self._body(line.body, loops), test=line.test.deep_clone()
                )
        raise DeclinedError(_MORE)

    def _body(self, body: cst.BaseSuite, loops: tuple[cst.For, ...]) -> cst.BaseSuite:
        if isinstance(body, cst.SimpleStatementSuite):
            return body.with_changes(body=[self._small(small, loops) for small in body.body])
        return body.with_changes(body=[self._line(line, loops) for line in lines_of(body)])

    def _small(
        self, small: cst.BaseSmallStatement, loops: tuple[cst.For, ...]
    ) -> cst.BaseSmallStatement:
        match small:
            case cst.Pass():
                return small.deep_clone()
            case cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) as call):
                return small.with_changes(value=self._call(call, name, loops))
            case cst.AugAssign(operator=operator, value=value) if type(operator) in _OPERATORS:
                amount = self._amount(value, _OPERATORS[type(operator)], loops)
                return small.with_changes(target=small.target.deep_clone(), value=amount)
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Subscript() | cst.Attribute() as target)],
                value=value,
            ) if not assigns_a_name(target):
                written = cst.AssignTarget(target.deep_clone())
                return small.with_changes(targets=[written], value=self._kept(value, target))
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                decline_if(
                    not self._names.is_only_in(name, [self._choice]),
                    f"`{name}` is used after the branch",
                )
                refuse_unless_tensor(value)
                return small.deep_clone()
        raise DeclinedError(_MORE)

    def _call(self, call: cst.Call, name: str, loops: tuple[cst.For, ...]) -> cst.Call:
        args = [argument.deep_clone() for argument in call.args]
        decline_if(
            any(argument.star for argument in args),
            f"`{name}` takes arguments that the line doesn't show",
        )
        keywords = list(map(keyword_of, args))
        if name in _NEUTRAL and keywords[:1] == [""] and set(keywords[1:]) <= {"alpha"}:
            amount = self._amount(call.args[0].value, _NEUTRAL[name], loops)
            return call.with_changes(
                func=call.func.deep_clone(), args=[args[0].with_changes(value=amount), *args[1:]]
            )
        if (name == "fill_" and keywords == [""]) or (name == "zero_" and not args):
            self._count += 1
            value = args[0].value if args else cst.Integer("0")
            filled = call.func.deep_clone().with_changes(attr=cst.Name("masked_fill_"))
            return cst.Call(filled, [cst.Arg(self._condition.deep_clone()), cst.Arg(value)])
        if name == "copy_" and keywords == [""] and isinstance(call.func, cst.Attribute):
            value = self._kept(call.args[0].value, call.func.value)
            return call.with_changes(func=call.func.deep_clone(), args=[cst.Arg(value)])
        raise DeclinedError(f"`{name}` has no argument with which it changes nothing")

    def _kept(self, value: cst.BaseExpression, target: cst.BaseExpression) -> cst.Call:
        """A value to write, or what is there."""
        decline_if(not is_repeatable(target), "what is written can't be read as well")
        if not matchers.matches(value, matchers.Name("True") | matchers.Name("False")):
            refuse_unless_tensor(value)
        self._count += 1
        self.is_written = True
        return where(self._condition, guarded(value, self._condition, is_if=True), target)

    def _amount(
        self, value: cst.BaseExpression, neutral: str, loops: tuple[cst.For, ...]
    ) -> cst.BaseExpression:
        """The amount, or the neutral one; in a loop, computed before it if it doesn't depend on
        it.
        """
        refuse_unless_tensor(value)
        self._count += 1
        safe = guarded(value, self._condition, is_if=True)
        chosen = where(self._condition, safe, cst.parse_expression(neutral))
        if not loops or any(_depends_on(value, loop) for loop in loops):
            return chosen
        name = cst.Name(self._names.fresh("amount"))
        self._hoisted.append(assigned(name, chosen))
        return name.deep_clone()


def _depends_on(value: cst.BaseExpression, loop: cst.For) -> bool:
    in_place = [call for call in calls_in(loop.body) if called(call).endswith("_")]
    tensors = [call.func.value for call in in_place if isinstance(call.func, cst.Attribute)]
    return bool(name_set(value) & (name_set(loop.target, *tensors) | set_names(loop.body)))


def _is_about_objects(test: cst.BaseExpression) -> bool:
    """Whether it only asks if something is there: ``p.grad is not None``, ``p.requires_grad``."""
    match test:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot())]):
            return True
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _is_about_objects(inner)
    return isinstance(test, cst.Attribute) and test.attr.value in (
        "requires_grad",
        "training",
        "is_sparse",
    )


_COUNTS = frozenset({"numel", "nelement", "sum", "any", "count_nonzero"})
"""Methods whose result is 0 or False for an empty selection, whether it is a mask or indices."""

_CASTS = frozenset({"builtins.bool", "builtins.int"})
_WRITES = frozenset(
    {
        "index_add",
        "index_copy",
        "index_fill",
        "index_put",
        "masked_fill",
        "masked_scatter",
        "scatter",
        "scatter_add",
    }
)
"""Methods of a tensor that write only what an argument selects; with ``_`` at the end, in place."""

_UNASKED = "the condition doesn't ask whether a selection is empty"
_Body = Sequence[cst.BaseStatement | cst.BaseSmallStatement]


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
    lines = _skipped(source, choice) if is_for_empty else choice.body.body
    selectors = _selectors(source, place.scope, checked)
    names = Names(source, place.scope)
    is_flat = all(
        isinstance(line, cst.BaseSmallStatement | cst.SimpleStatementLine) for line in lines
    )
    decline_if(not is_flat, "the lines after the check contain more than assignments")
    smalls = [small for line in lines for small in getattr(line, "body", [line])]
    writes = [small for small in smalls if _is_write(source, small, selectors)]
    others = [small for small in smalls if small not in writes]
    is_all = writes and all(_is_of_own_name(small, lines, names) for small in others)
    decline_if(not is_all, "the lines after the check do more than change what it selects")
    title = f"Drop the check `{source.shortened(choice.test)}`: without rows, the lines after it change nothing"
    return place.edit(title, (choice, [] if is_for_empty else _unguarded(choice)))


def _checked(
    source: SourceFile, test: cst.BaseExpression, *, is_empty: bool
) -> tuple[cst.BaseExpression, bool]:
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _checked(source, inner, is_empty=not is_empty)
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)]
        ):
            match operator, source.code(right):
                case (cst.Equal() | cst.LessThanEqual(), "0") | (cst.LessThan(), "1"):
                    return _counted(source, left), not is_empty
                case (cst.NotEqual() | cst.GreaterThan(), "0") | (cst.GreaterThanEqual(), "1"):
                    return _counted(source, left), is_empty
            raise DeclinedError(_UNASKED)
    return _counted(source, test), is_empty


def _counted(source: SourceFile, count: cst.BaseExpression) -> cst.BaseExpression:
    """``rows`` for ``rows.numel()``, ``len(rows)`` and ``rows.shape[0]``, ``mask`` for
    ``mask.any()``.
    """
    match count:
        case cst.Call(args=[cst.Arg(value=inner)]) if source.dotted_name(count) == "builtins.len":
            return _indices(inner)
        case cst.Call(args=[cst.Arg(value=inner)]) if source.dotted_name(count) in _CASTS:
            return _counted(source, inner)
        case (
            cst.Call(
                func=cst.Attribute(value=inner, attr=cst.Name("size")),
                args=[cst.Arg(value=cst.Integer("0"))],
            )
            | cst.Subscript(
                value=cst.Attribute(value=inner, attr=cst.Name("shape")),
                slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("0")))],
            )
        ):
            return _indices(inner)
        case cst.Call() if (
            not source.given_to(count) and (tensor := source.receiver(count)) is not None
        ):
            if source.method_name(count) in ("item", "bool"):
                return _counted(source, tensor)
            if source.method_name(count) in _COUNTS:
                return _indices(tensor)
    raise DeclinedError(_UNASKED)


def _indices(node: cst.BaseExpression) -> cst.BaseExpression:
    """``rows`` for ``rows[0]``, the indices of the first dim."""
    match node:
        case cst.Subscript(
            value=cst.Name() as name, slice=[cst.SubscriptElement(slice=cst.Index(cst.Integer()))]
        ):
            return name
    return node


def _text(source: SourceFile, node: cst.BaseExpression) -> str:
    return source.code(_indices(node).with_changes(lpar=(), rpar=()))


def _skipped(source: SourceFile, choice: cst.If) -> _Body:
    suite = need(source.parent(choice), cst.IndentedBlock, _UNASKED)
    first, *more = lines_of(choice.body)
    is_skip = not more and matchers.matches(
        first, matchers.SimpleStatementLine([matchers.Continue()])
    )
    if not is_skip or not isinstance(next(source.parents(suite), None), cst.For):
        raise DeclinedError("without rows, it does more than skip one turn of a loop")
    decline_if(has_comment(choice.body), "a comment would be lost")
    return suite.body[suite.body.index(choice) + 1 :]


def _selectors(
    source: SourceFile, function: cst.CSTNode, checked: cst.BaseExpression
) -> frozenset[str]:
    """Texts of expressions that select nothing if the checked one does."""
    found = {_text(source, checked)}
    if isinstance(checked, cst.Name):
        for assignment in matchers.findall(function, matchers.Assign()):
            # `rows, slot = torch.where(mask)`: both are as long as there are places.
            bound = _names_of(assignment)
            found.update(bound if checked.value in bound else ())
        for value in source.set_values(checked):
            match value:
                case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
                    found.add(_text(source, index))
    return frozenset(found)


def _names_of(node: cst.CSTNode) -> list[str]:
    parts = [
        part.value if isinstance(part, cst.BaseElement) else part
        for target in (targets_of(node) if isinstance(node, cst.Assign) else [])
        for part in (target.elements if isinstance(target, cst.Tuple | cst.List) else [target])
    ]
    return [part.value for part in parts if isinstance(part, cst.Name)]


def _is_of_own_name(small: cst.CSTNode, lines: _Body, names: Names) -> bool:
    match small:
        case cst.Assign(targets=targets):
            found = _names_of(small)
            is_plain = len(found) >= len(targets)
            return is_plain and all(names.is_only_in(name, lines) for name in found)
        case cst.AugAssign(target=cst.Name(value=name)):
            return names.is_only_in(name, lines)
    return isinstance(small, cst.Pass)


def _is_write(source: SourceFile, small: cst.CSTNode, selectors: frozenset[str]) -> bool:
    match small:
        case (
            cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(slice=slices))])
            | cst.AugAssign(target=cst.Subscript(slice=slices))
        ):
            indices = [
                element.slice.value for element in slices if isinstance(element.slice, cst.Index)
            ]
            return any(_text(source, index) in selectors for index in indices)
        case cst.Expr(value=cst.Call() as call):
            name = source.method_name(call)
            return (
                name.endswith("_")
                and name.rstrip("_") in _WRITES
                and _takes(source, call, selectors)
            )
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=name))], value=cst.Call() as call
        ):
            tensor = source.receiver(call)
            is_same = isinstance(tensor, cst.Name) and tensor.value == name
            return (
                is_same and source.method_name(call) in _WRITES and _takes(source, call, selectors)
            )
    return False


def _takes(source: SourceFile, call: cst.Call, selectors: frozenset[str]) -> bool:
    values = [argument.value for argument in call.args]
    parts = [
        part.value for value in values if isinstance(value, cst.Tuple) for part in value.elements
    ]
    return any(_text(source, value) in selectors for value in (*values, *parts))


def _unguarded(choice: cst.If) -> list[cst.BaseStatement]:
    body = choice.body
    if isinstance(body, cst.IndentedBlock):
        decline_if(has_comment(body.header) or comments_in(body.footer), "a comment would be lost")
    first, *rest = [line.deep_clone() for line in lines_of(body)]
    return [after_lines(first, choice.leading_lines), *rest]


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
    decline_if(
        _is_caught(source, tested, place.scope),
        "the exception may be caught by the `try` around it",
    )
    title = "Check the value in the graph with an `assert`"
    if isinstance(tested, cst.Assert):
        message = _literal(tested.msg) or (
            tested.msg and _quoted(f"not ({_flat(source, tested.test)})")
        )
        new = _asserted(as_tensor(tested.test, source), message).with_changes(
            semicolon=tested.semicolon
        )
        is_same = tested.msg is None or _literal(tested.msg) is not None
        is_same = is_same and new.test.deep_equals(without_parentheses(tested.test))
        decline_if(is_same, "torch keeps such an `assert` in the graph as it is")
        refuse_lost_comments([tested], [new])
        return place.edit(
            title, (tested, new), raised=source.position(tested).start.line, drops_output=True
        )
    statement = need(tested, cst.If, "nothing is raised")
    raised, comments = _raise_in(statement)
    new = _asserted(negated(statement.test, source), _message(source, raised, statement))
    changes = lines_for(source, statement, [line_of(new, comments)])
    return place.edit(title, *changes, raised=source.position(raised).start.line, drops_output=True)


def _asserted(test: cst.BaseExpression, message: cst.BaseExpression | None) -> cst.Assert:
    return cst.Assert(without_parentheses(test), message)


def _raise_in(statement: cst.If) -> tuple[cst.Raise, Comments]:
    more = "the condition guards more than an exception"
    decline_if(statement.orelse is not None, "the `if` has another branch")
    line = need(only(lines_of(statement.body), more), cst.SimpleStatementLine, more)
    body, beside = statement.body, line.trailing_whitespace.comment
    above = comments_in(line.leading_lines)
    if isinstance(body, cst.IndentedBlock):
        head = (body.header.comment.value,) if body.header.comment is not None else ()
        above = (*head, *above, *comments_in(body.footer))
    comments = Comments(above, beside.value if beside is not None else None)
    return need(only(line.body, more), cst.Raise, more), comments


def _is_caught(source: SourceFile, tested: cst.CSTNode, function: cst.CSTNode) -> bool:
    around = [tested, *source.parents(tested)]
    steps = itertools.pairwise(around[: around.index(function)])
    return any(
        isinstance(one, cst.Try | cst.TryStar) and one.handlers and one.body is child
        for child, one in steps
    )


def _message(source: SourceFile, raised: cst.Raise, statement: cst.If) -> cst.BaseExpression:
    """The exception's message if it is a plain string; otherwise its type and the condition."""
    kind = known(raised.exc, "it re-raises an exception")
    if isinstance(kind, cst.Call):
        if (
            kind.args
            and not kind.args[0].star
            and (text := _literal(kind.args[0].value)) is not None
        ):
            return text
        kind = kind.func
    name = dotted(kind)
    decline_if(name is None, "the source doesn't say which exception is raised")
    return _quoted(f"{name}: {_flat(source, statement.test)}")


def _literal(node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString) and isinstance(
        node.evaluated_value, str
    ):
        return node.deep_clone()
    return None


def _quoted(words: str) -> cst.SimpleString:
    return cst.SimpleString(json.dumps(words, ensure_ascii=False))


def _flat(source: SourceFile, node: cst.BaseExpression) -> str:
    try:
        return ast.unparse(ast.parse(f"({source.code(node)}\n)", mode="eval"))
    except (SyntaxError, ValueError):
        raise DeclinedError("the condition can't be written as text") from None
