"""Lines that a tensor's value guards: changes in place, a check for an empty selection, an exception."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence

import libcst as cst

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.branches import Comments, comments_in, line_of, put_for, refuse_lost_comments
from graphdoctor.fixes.source.expressions import (
    as_boolean_tensor,
    as_tensor,
    negated,
    refuse_unless_tensor,
    torch_call,
    without_parentheses,
)
from graphdoctor.fixes.source.names import (
    Names,
    called,
    dotted,
    dotted_name,
    has_comment,
    method_name,
    names_in,
    receiver,
    shortened,
)
from graphdoctor.fixes.source.place import Place, only_branch, tested_at
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, walk

_NEUTRAL = {"mul_": "1", "div_": "1", "add_": "0", "sub_": "0"}
"""Methods of a tensor, and the argument with which each changes nothing."""

_OPERATORS: dict[type[cst.BaseAugOp], str] = {
    cst.MultiplyAssign: "1",
    cst.DivideAssign: "1",
    cst.AddAssign: "0",
    cst.SubtractAssign: "0",
}


@recipe("GD102")
def in_place_where(place: Place) -> Edit:
    """``if norm > limit: grad.mul_(limit / norm)`` becomes ``grad.mul_(torch.where(norm > limit, limit / norm, 1))``.

    Also in a loop, for ``div_``, ``add_`` and ``sub_``, their operators, ``zero_`` and ``fill_``, beside names that
    only the branch uses. Multiplying by 1 keeps every number, infinity and NaN; adding 0 turns -0.0 into 0.0. Unsafe:
    the factor is always computed, so it may fail or be another dtype than the number was.
    """
    source, (choice, function) = place.source, only_branch(place)
    lines = _Lines(choice, Names(source, function)).written()
    refuse_lost_comments([choice], lines)
    return Edit(
        title="Choose the amount of each in-place change with `torch.where`",
        content=source.replaced((choice, cst.FlattenSentinel(lines)), imports=("torch",)),
        is_safe=False,
    )


class _Lines:
    """The lines that replace an ``if``."""

    def __init__(self, choice: cst.If, names: Names) -> None:
        self._choice = choice
        self._names = names
        tensor = as_boolean_tensor(choice.test, names)
        self._test = without_parentheses(tensor)
        self._condition = self._test if isinstance(tensor, cst.Name) else cst.Name(names.fresh("condition"))
        self._hoisted: list[cst.SimpleStatementLine] = []
        self._count = 0
        """How many changes in place there are."""

    def written(self) -> list[cst.BaseStatement]:
        """All of them, with the comments of the old ones."""
        lines: list[cst.BaseStatement] = []
        for line in _lines_of(self._choice.body):
            changed = self._line(line, loops=())
            lines += [*self._hoisted, changed]
            self._hoisted = []
        decline_if(not self._count, "the branch changes no tensor in place by an amount")
        if self._condition is not self._test:
            assert isinstance(self._condition, cst.Name)
            lines.insert(0, _set(self._condition.value, self._test))
        first = lines[0]
        assert isinstance(first, cst.SimpleStatementLine | cst.For | cst.If)  # what _line() returns
        above = [empty.deep_clone() for empty in (*self._choice.leading_lines, *first.leading_lines)]
        lines[0] = first.with_changes(leading_lines=above)
        return lines

    def _line(self, line: cst.BaseStatement, *, loops: tuple[cst.For, ...]) -> cst.BaseStatement:
        match line:
            case cst.SimpleStatementLine():
                return line.with_changes(body=[self._small(small, loops) for small in line.body])
            case cst.For(orelse=None) if line.asynchronous is None:
                body = self._body(line.body, (*loops, line))
                return line.with_changes(body=body, target=line.target.deep_clone(), iter=line.iter.deep_clone())
            case cst.If(orelse=None) if _is_about_objects(line.test):
                return line.with_changes(body=self._body(line.body, loops), test=line.test.deep_clone())
        raise DeclinedError("the branch does more than change tensors in place")

    def _body(self, body: cst.BaseSuite, loops: tuple[cst.For, ...]) -> cst.BaseSuite:
        if isinstance(body, cst.SimpleStatementSuite):
            return body.with_changes(body=[self._small(small, loops) for small in body.body])
        return body.with_changes(body=[self._line(line, loops=loops) for line in _lines_of(body)])

    def _small(self, small: cst.BaseSmallStatement, loops: tuple[cst.For, ...]) -> cst.BaseSmallStatement:
        match small:
            case cst.Pass():
                return small.deep_clone()
            case cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) as call):
                return small.with_changes(value=self._call(call, name, loops))
            case cst.AugAssign(operator=operator, value=value) if type(operator) in _OPERATORS:
                amount = self._amount(value, _OPERATORS[type(operator)], loops)
                return small.with_changes(target=small.target.deep_clone(), value=amount)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                decline_if(not self._names.is_only_in(name, [self._choice]), f"`{name}` is used after the branch")
                refuse_unless_tensor(value)
                return small.deep_clone()
        raise DeclinedError("the branch does more than change tensors in place")

    def _call(self, call: cst.Call, name: str, loops: tuple[cst.For, ...]) -> cst.Call:
        """The call, so that it changes nothing if the condition doesn't hold."""
        args = call.args
        decline_if(any(argument.star for argument in args), f"`{name}` takes arguments that the line doesn't show")
        if name in _NEUTRAL and args and args[0].keyword is None:
            rest = [argument.keyword.value for argument in args[1:] if argument.keyword is not None]
            if len(rest) == len(args) - 1 and set(rest) <= {"alpha"}:
                amount = self._amount(args[0].value, _NEUTRAL[name], loops)
                return call.with_changes(
                    func=call.func.deep_clone(),
                    args=[args[0].with_changes(value=amount), *(argument.deep_clone() for argument in args[1:])],
                )
        is_filled = name == "fill_" and len(args) == 1 and args[0].keyword is None
        if is_filled or (name == "zero_" and not args):
            self._count += 1
            assert isinstance(call.func, cst.Attribute)  # the caller says so
            value: cst.BaseExpression = args[0].value.deep_clone() if args else cst.Integer("0")
            filled = call.func.with_changes(value=call.func.value.deep_clone(), attr=cst.Name("masked_fill_"))
            return cst.Call(filled, [cst.Arg(self._condition.deep_clone()), cst.Arg(value)])
        raise DeclinedError(f"`{name}` has no argument with which it changes nothing")

    def _amount(self, value: cst.BaseExpression, neutral: str, loops: tuple[cst.For, ...]) -> cst.BaseExpression:
        """The amount, or the neutral one; in a loop, computed before it if it doesn't depend on it."""
        refuse_unless_tensor(value)
        self._count += 1
        chosen = torch_call(
            "where",
            [self._condition.deep_clone(), without_parentheses(value.deep_clone()), cst.parse_expression(neutral)],
        )
        if not loops or _depends_on(value, loops):
            return chosen
        name = self._names.fresh("amount")
        self._hoisted.append(_set(name, chosen))
        return cst.Name(name)


def _lines_of(body: cst.BaseSuite) -> list[cst.BaseStatement]:
    if isinstance(body, cst.IndentedBlock):
        return [line for line in body.body if isinstance(line, cst.BaseStatement)]
    assert isinstance(body, cst.SimpleStatementSuite)  # libcst knows two kinds of suites
    return [cst.SimpleStatementLine(body.body, trailing_whitespace=body.trailing_whitespace)]


def _depends_on(value: cst.BaseExpression, loops: Sequence[cst.For]) -> bool:
    """Whether a loop sets a name that the value reads, or may change a tensor that it reads."""
    read = {name.value for name in names_in(value)}
    for loop in loops:
        changed = [name.value for name in names_in(loop.target)]
        for node in walk(loop.body):
            match node:
                case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                    changed += [name.value for name in names_in(target)]
                case cst.Call(func=cst.Attribute(value=tensor)) if called(node).endswith("_"):
                    changed += [name.value for name in names_in(tensor)]
        if read.intersection(changed):
            return True
    return False


def _is_about_objects(test: cst.BaseExpression) -> bool:
    """Whether it only asks if something is there: ``p.grad is not None``, ``p.requires_grad``."""
    match test:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot())]):
            return True
        case cst.Attribute(attr=cst.Name("requires_grad" | "training" | "is_sparse")):
            return True
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _is_about_objects(inner)
    return False


def _set(name: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value)])


_COUNTS = frozenset({"numel", "nelement", "sum", "any", "count_nonzero"})
"""Methods whose result is 0 or False for an empty selection, whether it is a mask or indices."""

_READS = frozenset({"item", "bool"})
_WRITES = frozenset(
    {"index_add", "index_copy", "index_fill", "index_put", "masked_fill", "masked_scatter", "scatter", "scatter_add"}
)
"""Methods of a tensor that write only what an argument selects; with ``_`` at the end, in place."""

_Body = Sequence[cst.BaseStatement | cst.BaseSmallStatement]


@recipe("GD102", "GD119")
def drop_empty_check(place: Place) -> Edit:
    """Removes ``if rows.numel() == 0: continue`` and ``if mask.any():`` before code that only changes those rows.

    Without rows, ``out[rows] += expert(x[rows])`` changes nothing, so the check only saves time. The size itself still
    depends on values: torch captures it with ``capture_dynamic_output_shape_ops``. Unsafe: the code now also runs
    without rows, which some modules refuse, and parameters get a zero gradient where they had none.
    """
    source, (choice, function) = place.source, only_branch(place)
    checked, is_for_empty = _checked(source, choice.test, is_empty=False)
    lines = _guarded(source, choice, is_for_empty=is_for_empty)
    selectors = _selectors(source, checked, Names(source, function))
    _refuse_unless_selected(source, lines, selectors, Names(source, function))
    return Edit(
        title=f"Drop the check `{shortened(source, choice.test)}`: without rows, the lines after it change nothing",
        content=source.replaced(_without(choice, is_for_empty=is_for_empty)),
        is_safe=False,
    )


def _checked(source: SourceFile, test: cst.BaseExpression, *, is_empty: bool) -> tuple[cst.BaseExpression, bool]:
    """The mask, indices or selected rows that a test asks about, and whether it holds if there are none."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _checked(source, inner, is_empty=not is_empty)
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)]):
            asks_for_none = _asks_for_none(operator, source.code(right))
            if asks_for_none is not None:
                return _counted(source, left), asks_for_none != is_empty
        case _:
            return _counted(source, test), is_empty
    raise DeclinedError("the condition doesn't ask whether a selection is empty")


def _asks_for_none(operator: cst.BaseCompOp, number: str) -> bool | None:
    """Whether comparing a count with a number asks if it is 0; None if it asks something else."""
    match operator, number:
        case (cst.Equal() | cst.LessThanEqual(), "0") | (cst.LessThan(), "1"):
            return True
        case (cst.NotEqual() | cst.GreaterThan(), "0") | (cst.GreaterThanEqual(), "1"):
            return False
    return None


def _counted(source: SourceFile, count: cst.BaseExpression) -> cst.BaseExpression:
    """``rows`` for ``rows.numel()``, ``len(rows)`` and ``rows.shape[0]``, ``mask`` for ``mask.any()``."""
    match count:
        case cst.Call(args=[cst.Arg(value=inner)]) if dotted_name(source, count.func) == "builtins.len":
            return _indices(inner)
        case cst.Call(args=[cst.Arg(value=inner)]) if dotted_name(source, count.func) in (
            "builtins.bool",
            "builtins.int",
        ):
            return _counted(source, inner)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("size")), args=[cst.Arg(value=cst.Integer("0"))]):
            return _indices(inner)
        case cst.Subscript(
            value=cst.Attribute(value=inner, attr=cst.Name("shape")),
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("0")))],
        ):
            return _indices(inner)
        case cst.Call():
            name, tensor = method_name(source, count), receiver(source, count)
            is_plain = len(count.args) == bool(dotted_name(source, count.func))
            if tensor is not None and is_plain and name in _READS:
                return _counted(source, tensor)
            if tensor is not None and is_plain and name in _COUNTS:
                return _indices(tensor)
    raise DeclinedError("the condition doesn't ask whether a selection is empty")


def _indices(node: cst.BaseExpression) -> cst.BaseExpression:
    """``rows`` for ``rows[0]``, the indices of the first dim."""
    match node:
        case cst.Subscript(value=cst.Name() as name, slice=[cst.SubscriptElement(slice=cst.Index(cst.Integer()))]):
            return name
    return node


def _text(source: SourceFile, node: cst.BaseExpression) -> str:
    return source.code(_indices(node).with_changes(lpar=(), rpar=()))


def _guarded(source: SourceFile, choice: cst.If, *, is_for_empty: bool) -> _Body:
    if not is_for_empty:
        return choice.body.body
    suite = next(source.parents(choice))
    around = next(source.parents(suite), None)
    smalls = [small for line in choice.body.body for small in getattr(line, "body", [line])]
    if len(smalls) != 1 or not isinstance(smalls[0], cst.Continue) or not isinstance(around, cst.For):
        raise DeclinedError("without rows, it does more than skip one turn of a loop")
    assert isinstance(suite, cst.IndentedBlock)  # it contains an `if`
    at = next(number for number, line in enumerate(suite.body) if line is choice)
    return suite.body[at + 1 :]


def _selectors(source: SourceFile, checked: cst.BaseExpression, names: Names) -> frozenset[str]:
    """Texts of expressions that select nothing if the checked one does."""
    found = {_text(source, checked)}
    if not isinstance(checked, cst.Name):
        return frozenset(found)
    for assignment in [node for node in walk(_function(source, checked)) if isinstance(node, cst.Assign)]:
        targets = [target.target for target in assignment.targets]
        bound = [node for target in targets for node in _names_of(target)]
        if checked.value in bound:
            # `rows, slot = torch.where(mask)`: both are as long as there are places.
            found.update(bound)
    for value in names.values(checked.value):
        match value:
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
                found.add(_text(source, index))
    return frozenset(found)


def _function(source: SourceFile, node: cst.CSTNode) -> cst.CSTNode:
    function = source.function_of(node)
    assert function is not None  # edit() says so
    return function


def _names_of(target: cst.BaseExpression) -> list[str]:
    match target:
        case cst.Name(value=name):
            return [name]
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return [name for element in elements for name in _names_of(element.value)]
    return []


def _refuse_unless_selected(source: SourceFile, lines: _Body, selectors: frozenset[str], names: Names) -> None:
    """Decline if a line does more than change what is selected, or set a name for such lines."""
    smalls: list[cst.BaseSmallStatement] = []
    for line in lines:
        if isinstance(line, cst.BaseSmallStatement):
            smalls.append(line)
        elif isinstance(line, cst.SimpleStatementLine):
            smalls += line.body
        else:
            raise DeclinedError("the lines after the check contain more than assignments")
    is_written = False
    for small in smalls:
        if _is_write(source, small, selectors):
            is_written = True
        elif not _is_of_own_name(small, lines, names):
            raise DeclinedError("the lines after the check do more than change what it selects")
    decline_if(not is_written, "the lines after the check do more than change what it selects")


def _is_of_own_name(small: cst.BaseSmallStatement, lines: _Body, names: Names) -> bool:
    """Whether it sets names that only these lines use."""
    match small:
        case cst.Pass():
            return True
        case cst.Assign(targets=targets):
            bound = [_names_of(target.target) for target in targets]
            return all(found and all(names.is_only_in(name, lines) for name in found) for found in bound)
        case cst.AugAssign(target=cst.Name(value=name)):
            return names.is_only_in(name, lines)
    return False


def _is_write(source: SourceFile, small: cst.BaseSmallStatement, selectors: frozenset[str]) -> bool:
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
            return _is_selected(source, target, selectors)
        case cst.AugAssign(target=cst.Subscript() as target):
            return _is_selected(source, target, selectors)
        case cst.Expr(value=cst.Call() as call):
            name = method_name(source, call)
            return name.endswith("_") and name.rstrip("_") in _WRITES and _takes(source, call, selectors)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=cst.Call() as call):
            tensor = receiver(source, call)
            is_same = isinstance(tensor, cst.Name) and tensor.value == name
            return is_same and method_name(source, call) in _WRITES and _takes(source, call, selectors)
    return False


def _is_selected(source: SourceFile, target: cst.Subscript, selectors: frozenset[str]) -> bool:
    indices = [element.slice.value for element in target.slice if isinstance(element.slice, cst.Index)]
    return any(_text(source, index) in selectors for index in indices)


def _takes(source: SourceFile, call: cst.Call, selectors: frozenset[str]) -> bool:
    """Whether an argument, or an element of a tuple that is one, is a selector."""
    given: list[cst.BaseExpression] = []
    for argument in call.args:
        is_tuple = isinstance(argument.value, cst.Tuple)
        given += [element.value for element in argument.value.elements] if is_tuple else [argument.value]  # type: ignore[attr-defined]
    return any(_text(source, value) in selectors for value in given)


def _without(choice: cst.If, *, is_for_empty: bool) -> Change:
    """The change that removes the check; comments above it go with it if nothing is left in its place."""
    if is_for_empty:
        decline_if(has_comment(choice.body), "a comment would be lost")
        return choice, cst.FlattenSentinel([])
    body = choice.body
    if isinstance(body, cst.SimpleStatementSuite):
        kept: list[cst.BaseStatement] = [
            cst.SimpleStatementLine(
                [small.deep_clone() for small in body.body], trailing_whitespace=body.trailing_whitespace
            )
        ]
    else:
        assert isinstance(body, cst.IndentedBlock)  # libcst knows two kinds of suites
        decline_if(has_comment(body.header) or comments_in(body.footer), "a comment would be lost")
        kept = [line.deep_clone() for line in body.body if isinstance(line, cst.BaseStatement)]
    first = kept[0]
    assert isinstance(first, cst.SimpleStatementLine)  # _refuse_unless_selected() says so
    above = [line.deep_clone() for line in (*choice.leading_lines, *first.leading_lines)]
    kept[0] = first.with_changes(leading_lines=above)
    return choice, cst.FlattenSentinel(kept)


@recipe("GD102")
def check_instead_of_raise(place: Place) -> Edit:
    """``if bad: raise ValueError("why")`` becomes ``torch._assert_async(~bad, "why")``; so does ``assert``.

    Unsafe: it raises another exception (``RuntimeError``), and on a GPU it does so later, after which the device can't
    be used. ``torch._check`` doesn't help because it needs a Python bool (``torch/__init__.py``, 2.13).
    """
    source = place.source
    tested = tested_at(place)
    function = source.function_of(tested)
    if function is None:
        raise DeclinedError("the check isn't in a function")
    decline_if(_is_caught(source, tested), "the exception may be caught by the `try` around it")
    names = Names(source, function)
    if isinstance(tested, cst.Assert):
        return _in_place_of_assert(source, tested, names)
    if isinstance(tested, cst.If):
        return _in_place_of_raise(source, tested, names)
    raise DeclinedError("nothing is raised")


def _in_place_of_assert(source: SourceFile, old: cst.Assert, names: Names) -> Edit:
    message = _literal(old.msg) or _quoted(f"AssertionError: not ({_flat(source, old.test)})")
    call = torch_call("_assert_async", [without_parentheses(as_tensor(old.test, names)), message])
    new = cst.Expr(call, semicolon=_semicolon(old))
    refuse_lost_comments([old], [new])
    return _checked_edit(source.replaced((old, new), imports=("torch",)))


def _in_place_of_raise(source: SourceFile, statement: cst.If, names: Names) -> Edit:
    raised, comments = _raise_in(statement)
    message = _message(source, raised, statement)
    call = torch_call("_assert_async", [without_parentheses(negated(statement.test, names)), message])
    return _checked_edit(put_for(source, statement, [line_of(cst.Expr(call), comments)]))


def _checked_edit(content: bytes) -> Edit:
    return Edit(title="Check the value in the graph with `torch._assert_async`", content=content, is_safe=False)


def _raise_in(statement: cst.If) -> tuple[cst.Raise, Comments]:
    body = statement.body
    if statement.orelse is not None:
        raise DeclinedError("the `if` has another branch")
    comments = Comments()
    smalls = body.body
    if isinstance(body, cst.IndentedBlock):
        if len(body.body) != 1 or not isinstance(line := body.body[0], cst.SimpleStatementLine):
            raise DeclinedError("the condition guards more than an exception")
        smalls = line.body
        beside = line.trailing_whitespace.comment
        head = (body.header.comment.value,) if body.header.comment is not None else ()
        above = (*head, *comments_in(line.leading_lines), *comments_in(body.footer))
        comments = Comments(above, beside.value if beside is not None else None)
    elif isinstance(body, cst.SimpleStatementSuite) and body.trailing_whitespace.comment is not None:
        comments = Comments(beside=body.trailing_whitespace.comment.value)
    raised = smalls[0]
    if len(smalls) != 1 or not isinstance(raised, cst.Raise):
        raise DeclinedError("the condition guards more than an exception")
    return raised, comments


def _is_caught(source: SourceFile, tested: cst.CSTNode) -> bool:
    child = tested
    for parent in source.parents(tested):
        if isinstance(parent, cst.Try | cst.TryStar) and parent.handlers and parent.body is child:
            return True
        if isinstance(parent, cst.FunctionDef | cst.Lambda):
            return False
        child = parent
    return False


def _message(source: SourceFile, raised: cst.Raise, statement: cst.If) -> cst.BaseExpression:
    """The exception's message if it is a plain string; otherwise its type and the condition."""
    kind = raised.exc
    if kind is None:
        raise DeclinedError("it re-raises an exception")
    if isinstance(kind, cst.Call):
        if kind.args and not kind.args[0].star and (text := _literal(kind.args[0].value)) is not None:
            return text
        kind = kind.func
    name = dotted(kind)
    if name is None:
        raise DeclinedError("the source doesn't say which exception is raised")
    return _quoted(f"{name}: {_flat(source, statement.test)}")


def _literal(node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString) and isinstance(node.evaluated_value, str):
        return node.deep_clone()
    return None


def _quoted(words: str) -> cst.SimpleString:
    return cst.SimpleString(json.dumps(words, ensure_ascii=False))


def _flat(source: SourceFile, node: cst.BaseExpression) -> str:
    try:
        return ast.unparse(ast.parse(f"({source.code(node)}\n)", mode="eval"))
    except (SyntaxError, ValueError):
        raise DeclinedError("the condition can't be written as text") from None


def _semicolon(old: cst.Assert) -> cst.Semicolon | cst.MaybeSentinel:
    return old.semicolon.deep_clone() if isinstance(old.semicolon, cst.Semicolon) else cst.MaybeSentinel.DEFAULT
