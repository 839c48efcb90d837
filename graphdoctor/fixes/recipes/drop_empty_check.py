"""A check for an empty selection, such as an expert that gets no token: drop it, because nothing is written then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.bindings import dotted_name, has_comment, method_name, receiver, shortened
from graphdoctor.fixes.syntax.branches import comments_in
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import Names
from graphdoctor.fixes.syntax.place import Place, tested_at
from graphdoctor.fixes.syntax.source import Change, SourceFile, walk

_COUNTS = frozenset({"numel", "nelement", "sum", "any", "count_nonzero"})
"""Methods whose result is 0 or False for an empty selection, whether it is a mask or indices."""

_READS = frozenset({"item", "bool"})
_WRITES = frozenset(
    {"index_add", "index_copy", "index_fill", "index_put", "masked_fill", "masked_scatter", "scatter", "scatter_add"}
)
"""Methods of a tensor that write only what an argument selects; with ``_`` at the end, in place."""

_Body = Sequence[cst.BaseStatement | cst.BaseSmallStatement]


class DropEmptyCheck(Recipe):
    """Removes ``if rows.numel() == 0: continue`` and ``if mask.any():`` before code that only changes those rows.

    Without rows, ``out[rows] += expert(x[rows])`` changes nothing, so the check only saves time. The size itself still
    depends on values: torch captures it with ``capture_dynamic_output_shape_ops``. Unsafe: the code now also runs
    without rows, which some modules refuse, and parameters get a zero gradient where they had none.
    """

    name: ClassVar = "drop-empty-check"
    codes: ClassVar = frozenset({"GD102", "GD119"})

    def edit(self, place: Place) -> Edit:
        """The lines without the check.

        Raises:
            DeclinedError: They do more than change what the checked indices or mask select.
        """
        source, choice = place.source, tested_at(place)
        if not isinstance(choice, cst.If) or choice.orelse is not None or _is_elif(source, choice):
            raise DeclinedError("it isn't an `if` with a single branch")
        function = source.function_of(choice)
        if function is None:
            raise DeclinedError("the check isn't in a function")
        checked, is_for_empty = _checked(source, choice.test, is_empty=False)
        lines = _guarded(source, choice, is_for_empty=is_for_empty)
        selectors = _selectors(source, checked, Names(source, function))
        _refuse_unless_selected(source, lines, selectors, Names(source, function))
        return Edit(
            title=f"Drop the check `{shortened(source, choice.test)}`: without rows, the lines after it change nothing",
            content=source.replaced(_without(choice, is_for_empty=is_for_empty)),
            is_safe=False,
        )


def _is_elif(source: SourceFile, choice: cst.If) -> bool:
    parent = next(source.parents(choice))
    return isinstance(parent, cst.If) and parent.orelse is choice


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
    """The lines that only run if something is selected."""
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
    if not is_written:
        raise DeclinedError("the lines after the check do more than change what it selects")


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
    """Whether it changes only what a selector selects."""
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
        if has_comment(choice.body):
            raise DeclinedError("a comment would be lost")
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
        if has_comment(body.header) or comments_in(body.footer):
            raise DeclinedError("a comment would be lost")
        kept = [line.deep_clone() for line in body.body if isinstance(line, cst.BaseStatement)]
    first = kept[0]
    assert isinstance(first, cst.SimpleStatementLine)  # _refuse_unless_selected() says so
    above = [line.deep_clone() for line in (*choice.leading_lines, *first.leading_lines)]
    kept[0] = first.with_changes(leading_lines=above)
    return choice, cst.FlattenSentinel(kept)
