"""Drops what only saves time, and what only checks: early outs, branches that change nothing where
they aren't taken, debug switches, and exceptions that a value decides.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

from libcst import (
    Add,
    AddAssign,
    Arg,
    Assert,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseDict,
    BaseExpression,
    BaseNumber,
    BaseSmallStatement,
    BaseStatement,
    BaseSuite,
    BinaryOperation,
    BitInvert,
    BooleanOperation,
    Break,
    Call,
    Comparison,
    ComparisonTarget,
    ConcatenatedString,
    CSTNode,
    Divide,
    DivideAssign,
    Ellipsis,
    Else,
    EmptyLine,
    ExceptHandler,
    Expr,
    For,
    FormattedString,
    FormattedStringText,
    From,
    If,
    IfExp,
    IndentedBlock,
    Index,
    Integer,
    List,
    Multiply,
    MultiplyAssign,
    Name,
    NamedExpr,
    Not,
    NotEqual,
    Or,
    Pass,
    Raise,
    Return,
    SimpleStatementLine,
    SimpleStatementSuite,
    SimpleString,
    Slice,
    Subscript,
    SubscriptElement,
    Subtract,
    SubtractAssign,
    Try,
    TryStar,
    Tuple,
    UnaryOperation,
    matchers,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.effects import smalls_under
from graphdoctor.fixes.source.expressions import (
    as_tensor,
    asks_for_any,
    is_boolean,
    is_literal_number,
    negated,
    refuse_effects,
    returned_by,
    without_python,
)
from graphdoctor.fixes.source.nodes import (
    Comments,
    Names,
    above,
    after_lines,
    called,
    calls_in,
    comments_in,
    has_comment,
    in_place_of,
    index_of,
    is_elif,
    line_of,
    lines_for,
    lines_of,
    method_call,
    name_set,
    refuse_lost_comments,
    set_names,
    targets_of,
    torch_call,
    with_parentheses_of,
    without_parentheses,
)
from graphdoctor.fixes.source.torch_names import draws_random, words
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
    with_replaced,
)

_BRANCHES = "the `if` has another branch"
_LOST = "a comment would be lost"
_LEAVING = matchers.SimpleStatementLine(
    [matchers.Return() | matchers.Break() | matchers.Continue()]
)
_SETTING_NONE = matchers.SimpleStatementLine(
    [matchers.Assign([matchers.AssignTarget(matchers.Name())], matchers.Name("None"))]
)
_Lines = Sequence[BaseStatement]


@recipe("GD102", "GD103", "GD105", "GD109", "GD110", "GD119")
def drop(place: Place) -> Edit:
    """Removes what only saves time: ``if mask.all(): return x``, ``if len(rows) == 0: continue``,
    ``if not changed: break``; ``if mask.all(): mask = None``; the ``if`` alone before ``y =
    y.masked_fill(mask, 0)``; the branches before an ``else`` that works for every mask.

    Unsafe: it's right only if the rest gives the same, which is shown by the source, where lines
    change only what the condition asks about, or by inputs that take the branch.
    """
    if _is_debug_switch(place):
        return place.edit("Drop the switch that is off by default", (place.statement, []))
    choice, before = _asked(place)
    if any(isinstance(other, Else) for other in orelses(choice)):
        return _general_branch(place, choice)
    decline_if(choice.orelse is not None, _BRANCHES)
    lines = lines_of(choice.body)
    if len(lines) == 1 and matchers.matches(lines[0], _LEAVING):
        return _without_exit(place, choice, before)
    if len(lines) == 1 and matchers.matches(lines[0], _SETTING_NONE):
        return _without_none(place, choice, lines[0])
    return _unguarded(place, choice)


def _is_debug_switch(place: Place) -> bool:
    """Check for a line that only turns off what makes autograd slower."""
    match place.statement:
        case SimpleStatementLine(body=[Expr(value=Call(args=[Arg(value=Name("False"))]) as call)]):
            return place.source.dotted_name(call) == "torch.autograd.set_detect_anomaly"
    return False


def _asked(place: Place) -> tuple[If, Sequence[BaseStatement]]:
    """Return the ``if``, and the line before it that only makes what it asks about."""
    unclear = "no branch depends on the value"
    if isinstance(place.statement, If):
        return place.statement, ()
    line = need(place.statement, SimpleStatementLine, unclear, "elsewhere")
    block = need(place.source.parent(line), IndentedBlock, unclear, "elsewhere")
    at = block.body.index(line) + 1
    choice = need(block.body[at] if at < len(block.body) else None, If, unclear, "elsewhere")
    names = set_names(line)
    is_asked = len(line.body) == 1 and names and names <= name_set(choice.test)
    decline_if(not is_asked, unclear, "elsewhere")
    names_here = Names(place.source, place.scope)
    is_only = all(names_here.is_only_in(name, [line, choice.test]) for name in names)
    return choice, [line] if is_only else []


def orelses(choice: If) -> Iterator[If | Else]:
    """Yield the other branches."""
    other = choice.orelse
    while other is not None:
        yield other
        other = getattr(other, "orelse", None)


# An exit.


def _without_exit(place: Place, choice: If, before: _Lines) -> Edit:
    source, [leaving] = place.source, lines_of(choice.body)
    decline_if(is_elif(source, choice), _BRANCHES)
    # Which lines an input reaches is known, not which parts of one.
    is_beside = isinstance(choice.body, SimpleStatementSuite)
    decline_if(is_beside, "the branch is on the line of its condition")
    small = need(leaving, SimpleStatementLine).body[0]
    number = small.value if isinstance(small, Return) else None
    draws = [call for call in calls_in(choice.test) if draws_random(called(call))]
    decline_if(draws, "random numbers that are drawn later would be others")
    is_other = is_literal_number(number) and float(source.code(known(number))) != 0
    decline_if(is_other, "the rest would hardly give this very number")
    block = need(source.parent(choice), IndentedBlock, "the `if` is on a line of its own")
    at = block.body.index(choice) + 1
    rest = block.body[at:]
    # Whoever calls the function may not look at what it says, so no input shows that it's another.
    is_another = number and any(_differs(source, number, other) for other in _returned(rest))
    decline_if(bool(is_another), "the rest returns another answer")
    is_plain_break = holds(leaving, Break) and at > 1
    decline_if(not rest and not is_plain_break, "nothing comes after the `if`")
    removed: list[CSTNode] = [*before, choice]
    changes: list[Change] = [(line, []) for line in removed]
    if rest:
        # Comments above the lines are about them; blank lines stay.
        following = need(rest[0], BaseStatement, "what follows isn't a line of its own")
        decline_if(not hasattr(following, "leading_lines"), "what follows isn't a line of its own")
        blank = [line for line in above(removed[0]) if line.comment is None]
        changes.append((following, after_lines(following, blank)))
    what = source.shortened(leaving)
    title = f"Drop the early out `if {source.shortened(choice.test)}: {what}`"
    is_turn = isinstance(source.parent(block), For) and not holds(leaving, Break)
    is_shown = is_turn and _Asked.of(place, choice.test, is_taken=False).leaves_alone(rest)
    return place.edit(title, *changes, reached=() if is_shown else (source.start(leaving)[0],))


def _returned(lines: _Lines) -> Iterator[BaseExpression]:
    """Yield what lines return, each side of a conditional expression by itself."""
    returns = [node for line in lines for node in matchers.findall(line, matchers.Return())]
    waiting = [need(node, Return).value for node in returns]
    while waiting:
        match waiting.pop():
            case IfExp(body=body, orelse=orelse):
                waiting += [body, orelse]
            case BaseExpression() as value:
                yield value


def _differs(source: SourceFile, value: BaseExpression, other: BaseExpression) -> bool:
    """Check whether two values are certainly others: one is fixed, or an item at one place is."""
    match value, other:
        case Tuple(elements=items), Tuple(elements=others) if len(items) == len(others):
            pairs = zip(items, others, strict=True)
            return any(_differs(source, item.value, other.value) for item, other in pairs)
    is_fixed, is_other_fixed = map(_is_fixed, (value, other))
    is_held = isinstance(value if is_other_fixed else other, Tuple | List | BaseDict)
    is_either = is_fixed or is_other_fixed
    is_both = is_fixed and is_other_fixed
    return (is_both and source.code(value) != source.code(other)) or (is_either and is_held)


def _is_fixed(node: BaseExpression) -> bool:
    """Check for ``None``, ``True``, ``False``, a number, and a text."""
    is_name = isinstance(node, Name) and node.value in ("None", "True", "False")
    return is_name or isinstance(node, SimpleString | BaseNumber)


# A mask that is left out where it changes nothing.


def _without_none(place: Place, choice: If, line: BaseStatement) -> Edit:
    source, setting = place.source, need(line, SimpleStatementLine).body[0]
    decline_if(is_elif(source, choice), _BRANCHES)
    unclear = "the condition doesn't ask about a whole tensor that is then left out"
    asked = place.expression
    if asked is None or holds(asked, Or):
        # torch points to all operands, and one that isn't about the mask may matter.
        wholes = [call for call in calls_in(choice.test) if _asks_whole(source, call)]
        asked = only(wholes, "torch doesn't say which operand of `or` it means")
    part: CSTNode = asked
    while (around := source.parent(part)) is not choice and not _is_either(around):
        part = known(around, unclear)
    shortcut = need(part, BaseExpression, unclear, "elsewhere")
    decline_if(holds(shortcut, NamedExpr), "the condition assigns a name")
    target = need(targets_of(setting)[0], Name)
    names = name_set(target, *filter(None, source.values(target)))
    decline_if(not names & name_set(shortcut), unclear, "elsewhere")
    test = source.shortened(without_parentheses(shortcut))
    title = f"Drop the shortcut `if {test}: {source.shortened(line)}`"
    reached = (source.start(line)[0],)
    if around is choice:
        block = need(source.parent(choice), IndentedBlock, "the `if` is on a line of its own")
        decline_if(len(block.body) < 2, "nothing comes after the `if`")
        refuse_lost_comments([choice], [])
        return place.edit(title, (choice, []), reached=reached)
    joined = need(around, BooleanOperation, unclear, "elsewhere")
    while isinstance(around, BooleanOperation):
        around = source.parent(around)
    decline_if(around is not choice, unclear, "elsewhere")
    rest = joined.left if joined.right is shortcut else joined.right
    is_plain = joined is choice.test and not joined.lpar and not choice.whitespace_before_test.empty
    is_bare = is_plain and not source.spans_lines(rest)
    rest = without_parentheses(rest) if is_bare else with_parentheses_of(joined, rest)
    return place.edit(title, (joined, rest.deep_clone()), reached=reached)


def _is_either(node: CSTNode | None) -> bool:
    return isinstance(node, BooleanOperation) and isinstance(node.operator, Or)


def _asks_whole(source: SourceFile, call: Call) -> bool:
    """Check for ``mask.all()`` and ``torch.all(mask == 1)``."""
    is_python = source.dotted_name(call).startswith("builtins.")
    return called(call) in ("all", "any") and not is_python


# Branches before an `else` that works for every mask.


def _general_branch(place: Place, choice: If) -> Edit:
    source, others = place.source, list(orelses(choice))
    shortcuts, general = [choice, *others[:-1]], need(others[-1], Else)
    names = name_set(general.body)
    for shortcut in shortcuts:
        masks = asked_whole(source, need(shortcut, If).test)
        unclear = "the conditions don't ask about a whole mask that the `else` uses"
        decline_if(not masks or not masks <= names, unclear, "elsewhere")
        is_beside = isinstance(shortcut.body, SimpleStatementSuite)
        decline_if(is_beside, "a branch is on the line of its condition")
    title = f"Keep only the `else` of `if {source.shortened(choice.test)}: …`"
    reached = tuple(source.start(lines_of(shortcut.body)[0])[0] for shortcut in shortcuts)
    if is_elif(source, choice):
        return place.edit(title, (choice, general.deep_clone()), reached=reached)
    lines = in_general(choice, general, lines_of(general.body))
    return place.edit(title, (choice, lines), reached=reached)


def _receiver_of(source: SourceFile, test: BaseExpression, word: str) -> BaseExpression | None:
    """Return the mask of ``mask.all()``, or of ``mask.any()``; None for another condition."""
    if isinstance(test, Call) and source.method_name(test) == word and not source.given_to(test):
        return source.receiver(test)
    return None


def _is_not_all(source: SourceFile, test: BaseExpression) -> BaseExpression | None:
    """Return the mask of ``not mask.all()``; None for another condition."""
    match test:
        case UnaryOperation(operator=Not(), expression=inner):
            return _receiver_of(source, inner, "all")
    return None


def in_general(choice: If, general: Else, lines: _Lines) -> list[BaseStatement]:
    """Write lines for those of an ``else`` in the place of the whole ``if``."""
    first, *rest = [line.deep_clone() for line in lines]
    header = general.body.header.comment if isinstance(general.body, IndentedBlock) else None
    beside = [EmptyLine(comment=header)] if header else []
    leading = [*choice.leading_lines, *general.leading_lines, *beside]
    changed = [after_lines(first, leading), *rest]
    refuse_lost_comments([general], changed)
    return changed


def asked_whole(source: SourceFile, test: BaseExpression) -> set[str]:
    """Return the names in ``mask.all()`` and ``not mask.any()``; none for another condition."""
    word = "all"
    if isinstance(test, UnaryOperation) and isinstance(test.operator, Not):
        test, word = test.expression, "any"
    mask = _receiver_of(source, test, word)
    return set() if mask is None else name_set(mask)


# A branch that changes nothing where it isn't taken.


def _unguarded(place: Place, choice: If) -> Edit:
    source = place.source
    outer, test = without_python(choice.test, source)
    lines = lines_of(choice.body)
    is_alone = _Asked.of(place, test, is_taken=True).leaves_alone(lines)
    is_likely = is_alone or _is_general(source, test, lines)
    decline_if(not is_likely, "the branch does more than change what its condition asks about")
    body = choice.body
    if isinstance(body, IndentedBlock):
        decline_if(has_comment(body.header) or comments_in(body.footer), _LOST)
    text, line = source.shortened(test), source.start(choice)[0]
    title = f"Drop the check `{text}`, and always run what it guards"
    proof = {"reached": (), "skipped": None if is_alone else line}
    if outer is not None:
        return place.edit(title, (choice.test, outer.deep_clone()), **proof)
    changes = lines_for(source, choice, [line.deep_clone() for line in lines])
    return place.edit(title, *changes, **proof)


def _is_general(source: SourceFile, test: BaseExpression, lines: _Lines) -> bool:
    """Check whether lines compute with what the condition asks the whole of, so that they may give
    the same where it's false: ``if not mask.all(): bias = bias.masked_fill(~mask, -1e4)``.
    """
    smalls = [small for line in lines for small in smalls_under(line)]
    if not all(isinstance(small, Assign) for small in smalls):
        return False
    for small in smalls:
        refuse_effects(small)
    if returned := returned_by(source, test):
        # `if has_loops(edges): edges = without_loops(edges)`
        is_asked = _selection(source, returned) is not None
        return is_asked and bool(name_set(test) & name_set(*calls_in(*lines)))
    selection = _selection(source, test)
    texts = {_text(source, node) for line in lines for node in find(line, BaseExpression)}
    return selection is not None and _text(source, selection) in texts


def _selection(source: SourceFile, test: BaseExpression) -> BaseExpression | None:
    """Return the mask or the indices of which a test asks if there is anything to do; None if it
    asks something else.
    """
    checked = _is_not_all(source, test)
    if checked is None:
        try:
            checked, is_for_empty = _checked(source, test, is_empty=False)
        except DeclinedError:
            return None
        if is_for_empty:
            return None
    match checked:
        case UnaryOperation(operator=BitInvert(), expression=mask):
            checked = mask
    return checked


_COUNTS = words("numel nelement sum any count_nonzero")
"""Methods whose result is 0 or False for an empty selection, whether it is a mask or indices."""

_WRITES = words("""
    index_add index_copy index_fill index_put masked_fill masked_scatter scatter scatter_add
""")
"""Methods of a tensor that write only what an argument selects; with ``_`` at the end, in place."""

_UNASKED = "the condition doesn't ask whether a selection is empty"
_CASTS = words("bool int float", "builtins.")
_BOUNDS = words("clamp clip clamp_min clamp_max")
_FINITE = words("isfinite isinf isnan")
_NEUTRAL = {
    Add: "0", Subtract: "0", Multiply: "1", Divide: "1",
    AddAssign: "0", SubtractAssign: "0", MultiplyAssign: "1", DivideAssign: "1",
}  # fmt: skip
"""Operators, and the right operand with which each changes nothing."""


class _Asked:
    """What a condition asks about, and so what is true of a selection where it's false."""

    def __init__(
        self, place: Place, test: BaseExpression, selectors: frozenset[str], full: str = ""
    ) -> None:
        self._source = place.source
        self._test = test
        self._selectors = selectors | ({f"~{full}"} if full else frozenset())
        self._full = full
        self._names = Names(place.source, place.scope)

    @classmethod
    def of(cls, place: Place, test: BaseExpression, *, is_taken: bool) -> _Asked:
        """Read a condition; ``is_taken``: lines run if it's true, otherwise if it's false."""
        mask = _is_not_all(place.source, test) if is_taken else None
        if mask is not None:
            return cls(place, test, frozenset(), _text(place.source, mask))
        try:
            checked, is_for_empty = _checked(place.source, test, is_empty=False)
        except DeclinedError:
            return cls(place, test, frozenset())
        is_asked = is_for_empty != is_taken
        selectors = _selectors(place.source, place.scope, checked) if is_asked else frozenset()
        return cls(place, test, selectors)

    def leaves_alone(self, lines: Sequence[CSTNode]) -> bool:
        """Check that lines change nothing unless the condition holds."""
        smalls = [small for line in lines for small in smalls_under(line)]
        changes = [small for small in smalls if self._changes_nothing(small)]
        others = [small for small in smalls if small not in changes]
        return bool(changes) and all(self._is_of_own_name(small, lines) for small in others)

    def _is_of_own_name(self, small: CSTNode, lines: Sequence[CSTNode]) -> bool:
        match small:
            case Assign(targets=targets):
                names = _names_of(small)
                is_own = len(names) >= len(targets)
            case AugAssign(target=Name(value=name)):
                names, is_own = [name], True
            case _:
                return isinstance(small, Pass)
        return is_own and not any(self._names.is_read_after(name, lines) for name in names)

    def _changes_nothing(self, small: CSTNode) -> bool:
        source = self._source
        match small:
            case (
                Assign(targets=[AssignTarget(target=Subscript(slice=slices))])
                | AugAssign(target=Subscript(slice=slices))
            ) if self._selects(
                part.slice.value for part in slices if isinstance(part.slice, Index)
            ):
                return True
            case AugAssign(operator=operator, value=value) if type(operator) in _NEUTRAL:
                return self._is_neutral(value, _NEUTRAL[type(operator)])
            case Assign(targets=[AssignTarget(target=target)], value=value):
                return self._gives_back(value, _text(source, target))
            case Expr(value=Call() as call) if source.method_name(call).endswith("_"):
                receiver = source.receiver(call)
                return receiver is not None and self._gives_back(call, _text(source, receiver))
        return False

    def _gives_back(self, value: BaseExpression, target: str) -> bool:
        """Check whether a value is what the target was, unless the condition holds."""
        source = self._source
        match value:
            case BinaryOperation(left=left, operator=operator, right=right) if (
                type(operator) in _NEUTRAL and _text(source, left) == target
            ):
                return self._is_neutral(right, _NEUTRAL[type(operator)])
            case Call(args=[Arg(value=mask), Arg(value=yes), Arg(value=no)]) if (
                source.dotted_name(value) == "torch.where"
            ):
                is_full = _text(source, mask) == self._full and _text(source, yes) == target
                return is_full or (_text(source, no) == target and self._selects([mask]))
            case Call(args=[Arg(value=first), *_]) if (
                source.dotted_name(value) == "numpy.nan_to_num" and _text(source, first) == target
            ):
                return any(called(call) in _FINITE for call in find(self._test, Call))
            case Call() if _text(source, source.receiver(value) or value) == target:
                name = source.method_name(value).removesuffix("_")
                given = [argument.value for argument in source.given_to(value)]
                if name in _WRITES:
                    tuples = [item for item in given if isinstance(item, Tuple)]
                    parts = (part.value for item in tuples for part in item.elements)
                    return self._selects([*given, *parts])
                about = target in {
                    _text(source, part) for part in find(self._test, Name, Attribute)
                }
                if name == "nan_to_num":
                    return about and any(called(call) in _FINITE for call in find(self._test, Call))
                bounds = {source.code(bound) for bound in given if dotted(bound) != "None"}
                if any(called(call) == "abs" for call in find(self._test, Call)):
                    bounds = {bound.removeprefix("-") for bound in bounds}
                asked = {
                    source.code(side)
                    for part in find(self._test, Comparison)
                    for side in (part.left, *(item.comparator for item in part.comparisons))
                }
                return name in _BOUNDS and about and bool(bounds) and bounds <= asked
        return False

    def _selects(self, values: Iterator[BaseExpression] | Sequence[BaseExpression]) -> bool:
        return any(_text(self._source, _whole(value)) in self._selectors for value in values)

    def _is_neutral(self, value: BaseExpression, neutral: str) -> bool:
        """Check whether the condition is false only if a value is 0, or 1."""
        text = _text(self._source, value)
        if text.startswith("self."):
            return False  # A parameter gets a gradient that it didn't get.
        if neutral == "0" and text in self._selectors:
            return True
        match self._test:
            case Comparison(
                left=left, comparisons=[ComparisonTarget(operator=NotEqual(), comparator=right)]
            ):
                read = self._source.read_of(left, _CASTS)
                is_asked = text in (_text(self._source, left), _text(self._source, read or left))
                return (
                    is_asked
                    and is_literal_number(right)
                    and (float(self._source.code(right)) == float(neutral))
                )
        return False


def _checked(
    source: SourceFile, test: BaseExpression, *, is_empty: bool
) -> tuple[BaseExpression, bool]:
    match test:
        case UnaryOperation(operator=Not(), expression=inner):
            return _checked(source, inner, is_empty=not is_empty)
        case Comparison(left=left):
            is_any = known(asks_for_any(test, source), _UNASKED)
            return _counted(source, left), is_empty == is_any
    return _counted(source, test), is_empty


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
                is_size = isinstance(tensor, Call) and called(tensor) == "abs"
                sized = source.receiver(tensor) if is_size else None
                return _indices(sized if sized is not None else tensor)
    raise DeclinedError(_UNASKED)


def _indices(node: BaseExpression) -> BaseExpression:
    """Return ``rows`` for ``rows[0]``, the indices of the first dim."""
    is_item = isinstance(index_of(node), Integer)
    return (
        node.value
        if is_item and isinstance(node, Subscript) and isinstance(node.value, Name)
        else node
    )


def _whole(mask: BaseExpression) -> BaseExpression:
    """Return the mask of ``mask[:, None]`` and ``mask.unsqueeze(1)``."""
    match mask:
        case Call(
            func=Attribute(value=inner, attr=Name("unsqueeze" | "expand_as" | "bool" | "view"))
        ):
            return _whole(inner)
        case Subscript(value=inner, slice=parts) if all(_is_whole(part.slice) for part in parts):
            return _whole(inner)
    return mask


def _is_whole(part: CSTNode) -> bool:
    """Check for ``:``, ``None`` or ``...`` in an index."""
    match part:
        case Slice(lower=None, upper=None, step=None) | Index(value=Ellipsis()):
            return True
        case Index(value=value):
            return dotted(value) == "None"
    return False


def _text(source: SourceFile, node: BaseExpression) -> str:
    return source.code(_indices(node).with_changes(lpar=(), rpar=()))


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
        part.value if hasattr(part, "value") and not isinstance(part, Name | Attribute) else part
        for target in targets_of(assignment)
        for part in (target.elements if isinstance(target, Tuple | List) else [target])
    ]
    return [part.value for part in parts if isinstance(part, Name)]


# A check.


@recipe("GD102")
def check_in_graph(place: Place) -> Edit:
    """``if bad: raise ValueError("why")`` becomes an ``assert``, which torch keeps in the graph, in
    a ``try`` that raises ``ValueError`` where it fails in eager mode.

    An ``AssertionError`` needs no ``try``; a ``RuntimeError`` is what ``torch._assert_async``
    raises in both modes. Unsafe: compiled, it raises ``RuntimeError``, and on a GPU so late that
    the device can't be used any more. ``torch._check`` doesn't help because it needs a Python bool,
    and ``torch._check_tensor_all_with``, one line, loses the message where it is compiled and isn't
    documented (``torch/__init__.py``, 2.13). ``check(good, "why")``, which raises in another
    function, is called where the ``assert`` fails.
    """
    source = place.source
    title = "Check the value in the graph, and keep the exception of eager mode"
    match place.statement:
        case SimpleStatementLine(
            body=[Expr(value=Call(args=[Arg(value=good), *rest]) as call)]
        ) if is_boolean(good, source) and not source.dotted_name(call).startswith("torch."):
            return place.edit(title, _called_to_raise(place, good, rest), drops_output=True)
    tested = place.tested
    steps = pairwise(source.path_to(place.scope, tested))
    is_caught = any(
        isinstance(outer, Try | TryStar) and outer.handlers and outer.body is inner
        for inner, outer in steps
    )
    decline_if(is_caught, "the exception may be caught by the `try` around it")
    if isinstance(tested, Assert):
        line = need(source.parent(tested), SimpleStatementLine, "the assertion is in one line")
        checked = [_assertion(source, tested, line)]
        raised_at = source.start(tested)[0]
        return place.edit(title, *checked, raised=raised_at, drops_output=True)
    statement = need(tested, If, "nothing is raised")
    decline_if(statement.orelse is not None, _BRANCHES)
    lines = lines_of(statement.body)
    more = "the condition guards more than an exception"
    last = need(lines[-1], SimpleStatementLine, more)
    raised = need(last.body[-1], Raise, more)
    checked = _checked_in_graph(source, statement, raised)
    return place.edit(title, *checked, raised=source.start(raised)[0], drops_output=True)


@recipe("GD103")
def check_all_in_graph(place: Place) -> Edit:
    """``torch._check_tensor_all_with(ValueError, cond, message)``, which reads the tensor, is only
    called where an ``assert`` fails in eager mode.

    Unsafe: compiled, it raises ``RuntimeError``.
    """
    source, line = place.source, place.statement
    no_check = "the line doesn't check a tensor with `torch._check_tensor_all`"
    match line:
        case SimpleStatementLine(body=[Expr(value=Call() as call)]):
            at = known(_CHECKS_OF_ALL.get(source.dotted_name(call)), no_check)
        case _:
            raise DeclinedError(no_check, "elsewhere")
    given = call.args[at] if len(call.args) > at else None
    is_plain = given is not None and not given.keyword and not given.star
    asked = known(given if is_plain else None, "it isn't clear which argument is checked").value
    check = Assert(method_call(asked, "all"), _quoted(f"not all of {_flat(source, asked)}"))
    checked = _tried(check, IndentedBlock([line.with_changes(leading_lines=())]))
    title = "Check the value in the graph, and keep the exception of eager mode"
    return place.edit(title, (line, in_place_of(line, [checked])), drops_output=True)


_CHECKS_OF_ALL = {"torch._check_tensor_all": 0, "torch._check_tensor_all_with": 1}
"""Checks of torch that read a tensor, and which argument it is (``torch/__init__.py``, 2.13)."""


def _assertion(source: SourceFile, tested: Assert, line: SimpleStatementLine) -> Change:
    literal = _literal(tested.msg)
    test = without_parentheses(as_tensor(tested.test, source))
    is_same = (tested.msg is None or literal is not None) and test.deep_equals(
        without_parentheses(tested.test)
    )
    decline_if(is_same, "torch keeps such an `assert` in the graph as it is")
    if tested.msg is None or literal is not None:
        new = Assert(test, literal).with_changes(semicolon=tested.semicolon)
        refuse_lost_comments([tested], [new])
        return tested, new
    decline_if(len(line.body) > 1, "the line has several statements")
    error = Call(Name("AssertionError"), [Arg(without_parentheses(tested.msg.deep_clone()))])
    check = Assert(test, _quoted(f"not ({_flat(source, tested.test)})"))
    raising = line.with_changes(body=[Raise(error, From(Name("None")))], leading_lines=())
    new_lines = in_place_of(line, [_tried(check, IndentedBlock([raising]))])
    refuse_lost_comments([line], new_lines)
    return line, new_lines


def _called_to_raise(place: Place, good: BaseExpression, rest: Sequence[Arg]) -> Change:
    source, line = place.source, need(place.statement, SimpleStatementLine)
    texts = filter(None, (_literal(argument.value) for argument in rest))
    text = next(texts, None) or _quoted(f"not ({_flat(source, good)})")
    check = Assert(without_parentheses(as_tensor(good, source)), text)
    calling = line.with_changes(leading_lines=())
    new_lines = in_place_of(line, [_tried(check, IndentedBlock([calling]))])
    refuse_lost_comments([line], new_lines)
    return line, new_lines


def _tried(check: BaseSmallStatement, handled: BaseSuite) -> Try:
    indent = handled.indent if isinstance(handled, IndentedBlock) else None
    tried = IndentedBlock([SimpleStatementLine([check])], indent=indent)
    return Try(tried, [ExceptHandler(handled.deep_clone(), Name("AssertionError"))])


def _checked_in_graph(source: SourceFile, statement: If, raised: Raise) -> list[Change]:
    outer, asked = without_python(statement.test, source)
    test, body = without_parentheses(negated(asked, source)), statement.body
    exception = known(raised.exc, "it re-raises an exception")
    kind = exception
    message = None
    if isinstance(exception, Call):
        kind = exception.func
        is_given = exception.args and not exception.args[0].star
        message = _literal(exception.args[0].value) if is_given else None
    name = known(dotted(kind), "the source doesn't say which exception is raised")
    text = message or _beginning(exception) or _quoted(f"{name}: {_flat(source, asked)}")
    check: BaseSmallStatement = Assert(test, text)
    is_alone = message is not None and len(find(body, BaseSmallStatement)) == 1
    if is_alone and source.dotted_name(kind) in _IN_BOTH_MODES:
        if source.dotted_name(kind) == "builtins.RuntimeError":
            check = Expr(torch_call("_assert_async", [test, text]))
        line = need(only(lines_of(body), ""), SimpleStatementLine)
        comments = Comments.of(line.leading_lines, line.trailing_whitespace)
        if isinstance(body, IndentedBlock):
            around = (*comments_in([body.header]), *comments.above, *comments_in(body.footer))
            comments = Comments(around).joined(Comments((), comments.beside))
        checked: BaseStatement = line_of(check, comments)
    else:
        cause = From(Name("None"))
        raising = raised if raised.cause else raised.with_changes(cause=cause)
        handled = need(with_replaced(body, [(raised, raising)]), BaseSuite)
        checked = _tried(check, handled)
    if outer is not None:
        inner = need(statement.body, IndentedBlock, "the branch has no lines of its own")
        block = IndentedBlock([checked], indent=inner.indent)
        return [(statement, If(outer.deep_clone(), block, leading_lines=above(statement)))]
    return lines_for(source, statement, [checked])


_IN_BOTH_MODES = words("AssertionError RuntimeError", "builtins.")


def _literal(node: BaseExpression | None) -> BaseExpression | None:
    match node:
        case SimpleString(evaluated_value=str()) | ConcatenatedString(evaluated_value=str()):
            return node.deep_clone()
    return None


def _beginning(exception: BaseExpression) -> BaseExpression | None:
    """Return the text of an f-string as far as it's constant, if that says something."""
    match exception:
        case Call(args=[Arg(value=FormattedString(parts=[FormattedStringText(value=text), *_]))]):
            return _quoted(f"{text.rstrip()} …") if text.count(" ") > 1 else None
    return None


def _quoted(text: str) -> SimpleString:
    return SimpleString(json.dumps(text, ensure_ascii=False))


def _flat(source: SourceFile, node: BaseExpression) -> str:
    try:
        return ast.unparse(ast.parse(f"({source.code(node)}\n)", mode="eval"))
    except (SyntaxError, ValueError):
        raise DeclinedError("the condition can't be written as text") from None
