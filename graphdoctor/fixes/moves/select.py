"""Chooses with ``torch.where`` what a branch on a tensor's value chose: every way is computed, and
a name, an attribute, an item, a tensor changed in place or a result takes the value of the way that
would have been taken.
"""

from __future__ import annotations

import ast
import ctypes
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import libcst
from libcst import (
    AddAssign,
    AnnAssign,
    Arg,
    Assert,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    Await,
    BaseExpression,
    BaseSmallStatement,
    BaseStatement,
    BaseString,
    BaseSuite,
    BinaryOperation,
    BitAnd,
    BitInvert,
    BooleanOperation,
    Break,
    Call,
    ClassDef,
    Continue,
    CSTNode,
    Dict,
    DictComp,
    DictElement,
    Divide,
    DivideAssign,
    Element,
    Else,
    Expr,
    For,
    FunctionDef,
    GeneratorExp,
    Global,
    If,
    IfExp,
    IndentedBlock,
    Integer,
    Lambda,
    List,
    ListComp,
    Module,
    MultiplyAssign,
    Name,
    Nonlocal,
    Pass,
    Raise,
    Return,
    SetComp,
    SimpleStatementLine,
    SimpleStatementSuite,
    SimpleString,
    Slice,
    Subscript,
    SubtractAssign,
    Tuple,
    UnaryOperation,
    With,
    Yield,
    matchers,
    parse_expression,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.effects import changed_by, is_report
from graphdoctor.fixes.source.expressions import (
    as_boolean_tensor,
    as_tensor,
    condition_of,
    guarded,
    is_boolean,
    is_evaluated_alike,
    is_harmless,
    is_literal_number,
    is_of_python,
    is_one_number,
    negated,
    operands,
    refuse_effects,
    refuse_unless_tensor,
    tests_for_finite,
    without_python,
)
from graphdoctor.fixes.source.flow import flow
from graphdoctor.fixes.source.nodes import (
    Comments,
    Names,
    after_lines,
    as_operand,
    assigned,
    bracketed,
    called,
    calls_in,
    comments_in,
    enclosed,
    has_comment,
    in_place_of,
    is_in_place,
    is_repeatable,
    joined,
    keyword_of,
    line_of,
    lines_for,
    lines_of,
    method_call,
    name_set,
    refuse_lost_comments,
    set_names,
    where,
    with_lines,
    without_parentheses,
)
from graphdoctor.fixes.source.torch_names import REDUCED, TENSOR_METHODS, draws_random, words
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    holds,
    known,
    names_in,
    need,
    only,
    parsed,
    walk,
    with_replaced,
)
from graphdoctor.wording import listed

_WITHOUT_WORDS = (Assign, AugAssign, AnnAssign, Arg, Attribute, BinaryOperation, Subscript)
"""Nodes that never put a keyword directly before an expression."""

_RETURNED = "return"
"""The target of a ``return``, where other targets are names; it's a keyword, so no name can be
equal to it."""

_MORE = "a branch contains more than assignments"
_UNUSED = "no branch assigns a name that is used later"
_Values = Sequence[BaseExpression]
_Body = BaseSuite | Sequence[BaseStatement]


@recipe("GD102")
def select(place: Place) -> Edit:
    """``if c: x = f(x)`` becomes ``x = torch.where(c, f(x), x)``.

    Also ``elif``, ``else``, nested ``if``, ``return`` in every branch or an early one, ``a if c
    else b``; names, several at once, attributes, items and in-place changes, which get an amount
    that changes nothing; ``continue`` and ``break`` in a ``for``. What a condition asks Python
    first (``mask is not None``, ``self.training``) stays an ``if``. Safe if one number decides and
    all ways compute every element from the same floating-point tensors with operations that are
    defined for every number and have finite gradients. Otherwise unsafe: every way is computed, so
    one that isn't taken may fail, take time or have another shape.
    """
    if (truths := _joined_truths(place)) is not None:
        tensor = as_tensor(truths, place.source)
        return place.edit("Join the conditions in the graph", (truths, tensor))
    names = Names(place.source, place.scope)
    if isinstance(place.tested, IfExp):
        return _choose_expression(place, place.tested, names)
    statement = need(place.tested, If, "an assertion doesn't choose between values")
    if isinstance(_last(statement.body), Break):
        return _run_to_the_end(place, statement, names)
    selection = _Selection(place, statement, names)
    return selection.edit() if selection.is_whole else _choose_at_return(place, statement, names)


def _joined_truths(place: Place) -> BooleanOperation | None:
    """Return ``a.any() or b.any()`` that is kept as a value; None if torch points elsewhere."""
    top: BooleanOperation | None = None
    around = place.source.parents(place.expression) if place.expression is not None else ()
    for parent in around:
        if not isinstance(parent, BooleanOperation):
            is_kept = isinstance(parent, Assign | Return)
            break
        top = parent
    if top is None or not is_kept:
        return None
    sides = [top.left, top.right]
    return top if all(is_boolean(side, place.source) for side in sides) else None


def _choose_expression(place: Place, choice: IfExp, names: Names) -> Edit:
    source, sides = place.source, [choice.body, choice.orelse]
    _refuse_parts(sides)
    for value in sides:
        refuse_effects(value)
    first, test = without_python(choice.test, source)
    numpy = _numpy_of([test], source)
    call = _in_numpy(_chosen([as_boolean_tensor(test, source)], sides), numpy)
    if first is not None:
        call = choice.deep_clone().with_changes(body=call, test=first.deep_clone())
    refuse_lost_comments([choice], [call])
    # `return(a)if c else b`: a name needs a space where a parenthesis doesn't.
    if source.code(choice).startswith("(") and not isinstance(
        source.parent(choice), _WITHOUT_WORDS
    ):
        call = bracketed(call.with_changes(lpar=[], rpar=[]))
    title = f"Choose with `{numpy or 'torch'}.where` in place of `… if … else …`"
    return place.edit(title, (choice, call), is_safe=_is_safe(names, [test], [sides]))


# Steps: what a branch changes.

_Write = Callable[[BaseExpression], BaseSmallStatement]


@dataclass(frozen=True)
class _Step:
    """One change, or the ``return``; ``x += 1`` has the value ``x + 1``."""

    target: str
    """The text of what is changed: steps of two branches with the same are one choice."""
    value: BaseExpression
    comments: Comments
    write: _Write
    """Makes the statement for a chosen value."""
    idle: BaseExpression | None = None
    """The value with which it changes nothing; None for a ``return``."""
    is_name: bool = True
    """Whether it binds names, and nothing else sees it."""


_NEUTRAL = {"mul_": "1", "div_": "1", "add_": "0", "sub_": "0"}
"""Methods of a tensor, and the argument with which each changes nothing."""

_OPERATORS = {MultiplyAssign: "1", DivideAssign: "1", AddAssign: "0", SubtractAssign: "0"}


def _steps_of(
    small: BaseSmallStatement, comments: Comments, source: SourceFile, region: Sequence[CSTNode]
) -> list[_Step]:
    match small:
        case Pass() | Expr(value=BaseString()) | AnnAssign(value=None):
            return []
        case Return(value=BaseExpression() as value):
            return [_Step(_RETURNED, value.deep_clone(), comments, Return)]
        case Assign(targets=[AssignTarget(target=target)], value=value):
            return [_set_step(target, value, comments, source, region)]
        case AnnAssign(target=Name() as target, value=BaseExpression() as value):
            annotated = _set_step(target, value, comments, source, region)
            write: _Write = lambda chosen: small.deep_clone().with_changes(value=chosen)  # noqa: E731
            return [_Step(annotated.target, annotated.value, comments, write, annotated.idle)]
        case AugAssign(target=target, operator=operator, value=value):
            # A parameter is changed in place, which its caller sees.
            is_own = isinstance(target, Name) and source.parameter_of(target) is None
            if not is_own and type(operator) in _OPERATORS:
                text = f"{source.code(target)} {type(operator).__name__}"
                idle = parse_expression(_OPERATORS[type(operator)])
                changed: _Write = lambda amount: AugAssign(  # noqa: E731
                    target.deep_clone(), operator.deep_clone(), amount
                )
                return [_Step(text, value.deep_clone(), comments, changed, idle, is_name=False)]
            # ``AddAssign`` and ``Add``
            plain = getattr(libcst, type(operator).__name__.removesuffix("Assign"))
            whole = BinaryOperation(target.deep_clone(), plain(), enclosed(value.deep_clone()))
            return [_set_step(target, whole, comments, source, region)]
        case Expr(value=Call(func=Attribute(value=tensor, attr=Name(value=name))) as call) if (
            name.endswith("_") and not name.endswith("__")
        ):
            first: list[_Step] = []
            if isinstance(tensor, Call) and is_in_place(tensor):
                # `x.mul_(a).add_(b)` is two changes of `x`.
                first = _steps_of(Expr(tensor), comments, source, region)
                comments = Comments()
                while isinstance(tensor, Call) and is_in_place(tensor):
                    tensor = need(tensor.func, Attribute).value
                call = call.with_changes(func=Attribute(tensor, Name(name)))
            return [*first, _in_place_step(call, tensor, name, comments, source)]
        case Return():
            reason = "returns nothing"
        case Expr():
            reason = "calls something for its side effect"
        case Raise():
            reason = "raises an exception"
        case Assign():
            reason = "assigns one value to several targets"
        case _:
            reason = "contains more than assignments"
    raise DeclinedError(f"a branch {reason}")


def _set_step(
    target: BaseExpression,
    value: BaseExpression,
    comments: Comments,
    source: SourceFile,
    region: Sequence[CSTNode],
) -> _Step:
    parts = [target]
    if isinstance(target, Tuple | List):
        parts = [part.value for part in target.elements if isinstance(part, Element)]
        values = _parts(value)[1] if isinstance(value, Tuple) else []
        is_parallel = len(parts) == len(values) == len(target.elements)
        decline_if(not is_parallel, "a branch sets several targets to one value")
    texts = [source.code(part) for part in parts]
    decline_if(len(set(texts)) != len(texts), "a branch sets a target twice at once")
    for part in parts:
        is_plain = isinstance(part, Name | Attribute | Subscript) and is_repeatable(part)
        decline_if(not is_plain, "what is written can't be read as well")
        if not isinstance(part, Name):
            _refuse_unset(part, value, source, region)
    idle = joined([part.deep_clone() for part in parts])
    write: _Write = lambda chosen: assigned(target.deep_clone(), chosen).body[0]  # noqa: E731
    is_name = all(isinstance(part, Name) for part in parts)
    return _Step(", ".join(texts), value.deep_clone(), comments, write, idle, is_name)


_NUMBERS = words("tolist float int len bool str")


def _refuse_unset(
    target: BaseExpression, value: BaseExpression, source: SourceFile, region: Sequence[CSTNode]
) -> None:
    """Decline what may not be there before the branch, and a number that would become a tensor."""
    if isinstance(target, Attribute):
        is_number = is_literal_number(value) or called(value) in _NUMBERS
        decline_if(
            is_number or dotted(value) in ("True", "False"),
            "what is stored is a number, and would become a tensor",
        )
        inside = {part for node in region for part in walk(node)}
        values = source.bound_to(target)
        before = [bound for bound in values if bound not in inside]
        is_unset = (values and not before) or any(dotted(bound) == "None" for bound in before)
        decline_if(is_unset, f"`{source.code(target)}` may have no value if the branch isn't taken")
    if holds(target, SimpleString):
        text = source.code(target)
        around = find(known(source.function_of(region[0])), Subscript)
        around = [part for part in around if source.code(part) == text]
        start = source.start(region[0])
        is_there = any(source.start(part) < start for part in around)
        decline_if(not is_there, f"`{text}` may not be there if the branch isn't taken")


def _in_place_step(
    call: Call, tensor: BaseExpression, name: str, comments: Comments, source: SourceFile
) -> _Step:
    decline_if(
        any(argument.star for argument in call.args),
        f"`{name}` takes arguments that the line doesn't show",
    )
    keywords = list(map(keyword_of, call.args))
    text = f"{source.code(tensor)}.{name}"
    first = call.args[0] if call.args else None
    if name in _NEUTRAL and first and keywords[:1] == [""] and set(keywords[1:]) <= {"alpha"}:

        def changed(amount: BaseExpression) -> BaseSmallStatement:
            copy = call.deep_clone()
            args = [copy.args[0].with_changes(value=amount), *copy.args[1:]]
            return Expr(copy.with_changes(args=args))

        idle = parse_expression(_NEUTRAL[name])
        return _Step(text, first.value.deep_clone(), comments, changed, idle, is_name=False)
    decline_if(not is_repeatable(tensor), "what is written can't be read as well")
    if name == "copy_" and first and keywords == [""]:
        value = first.value
    elif (name == "fill_" and keywords == [""]) or (name == "zero_" and not keywords):
        value = first.value if first else Integer("0")
    else:
        is_known = name.removesuffix("_") in _ELEMENTWISE
        decline_if(not is_known, f"`{name}` has no argument with which it changes nothing")
        attribute = need(call.func, Attribute).with_changes(attr=Name(name.removesuffix("_")))
        value = call.with_changes(func=attribute)

    def written(chosen: BaseExpression) -> BaseSmallStatement:
        if isinstance(chosen, Call) and called(chosen) == "where" and len(chosen.args) == 3:
            condition, yes, no = (argument.value for argument in chosen.args)
            if yes.deep_equals(tensor) and is_literal_number(no):
                condition, yes, no = UnaryOperation(BitInvert(), enclosed(condition)), no, yes
            if no.deep_equals(tensor) and is_literal_number(yes):
                func = Attribute(tensor.deep_clone(), Name("masked_fill_"))
                return Expr(Call(func, [Arg(condition), Arg(yes)]))
        return Expr(Call(Attribute(tensor.deep_clone(), Name("copy_")), [Arg(chosen)]))

    text = f"{source.code(tensor)}.copy_"
    return _Step(text, value.deep_clone(), comments, written, tensor.deep_clone(), is_name=False)


_ELEMENTWISE = words("""
    abs add addcdiv addcmul ceil clamp clamp_max clamp_min clip cos div exp floor index_add
    index_copy index_fill lerp logical_and logical_not logical_or masked_fill masked_scatter mul
    nan_to_num neg pow reciprocal relu round rsqrt scatter scatter_add sigmoid sign sin sqrt square
    sub tanh trunc
""")
"""Methods that have a form with ``_`` and give a tensor of the shape that it had."""


@dataclass(frozen=True)
class _Branch:
    """A branch's steps in order, a ``return`` last, and the statements that they are."""

    steps: tuple[_Step, ...] = ()
    nodes: tuple[CSTNode, ...] = ()

    @property
    def is_returning(self) -> bool:
        return bool(self.steps) and self.steps[-1].target == _RETURNED

    @property
    def read(self) -> set[str]:
        """Names that the values of its steps read."""
        return name_set(*(step.value for step in self.steps))


def _branch_of(
    body: _Body, source: SourceFile, region: Sequence[CSTNode], above: tuple[str, ...] = ()
) -> _Branch:
    """Read a body, or some lines, as a branch."""
    lines = _lines(body)
    after: tuple[str, ...] = ()
    if isinstance(body, IndentedBlock):
        above, after = (*above, *comments_in([body.header])), comments_in(body.footer)
    steps: list[_Step] = []
    waiting = Comments(above)
    for line in lines:
        if not isinstance(line, SimpleStatementLine):
            raise DeclinedError(_MORE)
        waiting = waiting.joined(Comments.of(line.leading_lines, line.trailing_whitespace))
        for small in line.body:
            is_over = bool(steps) and steps[-1].target == _RETURNED
            decline_if(is_over and not isinstance(small, Pass), "there is code after a `return`")
            made = _steps_of(small, waiting, source, region)
            if steps and made and (again := _read_by(steps[-1], made[0])) is not None:
                # `y = f(x)` and `y = g(y)` are one step: by itself the first may have a shape that
                # no other way gives.
                whole = with_replaced(made[0].value, [(again, as_operand(steps[-1].value))])
                joint = steps.pop().comments.joined(made[0].comments)
                made[0] = replace(made[0], value=whole, comments=joint)
            steps += made
            waiting = Comments() if made else waiting
    if steps and (waiting.above or waiting.beside or after):
        kept = steps[-1].comments.joined(waiting).joined(Comments(after))
        steps[-1] = replace(steps[-1], comments=kept)
    nodes = body.body if isinstance(body, SimpleStatementSuite) else lines
    return _Branch(tuple(steps), tuple(nodes))


def _read_by(step: _Step, after: _Step) -> Name | None:
    """Return the one place where a step that sets a name anew reads it; None if it's another."""
    reads = [name for name in names_in(after.value) if name.value == step.target]
    is_one = step.is_name and after.target == step.target and len(reads) == 1
    is_once = not holds(after.value, Lambda, ListComp, GeneratorExp, DictComp, SetComp, IfExp)
    return reads[0] if is_one and is_once else None


@dataclass(frozen=True)
class _Row:
    """A step of each branch to choose from, None where a branch changes nothing; or a step of one
    branch that only this branch needs, which isn't chosen.
    """

    steps: tuple[_Step | None, ...]
    owner: int | None = None
    """The number of the branch that alone needs it."""

    @property
    def first(self) -> _Step:
        return next(step for step in self.steps if step is not None)

    @property
    def values(self) -> _Values:
        idle = self.first.idle
        return [
            step.value if step is not None else cast("BaseExpression", idle) for step in self.steps
        ]


class _Selection:
    """An ``if`` with all its branches, and the lines after it that are the last one."""

    def __init__(self, place: Place, statement: If, names: Names) -> None:
        self._place, self._statement, self._names = place, statement, names
        self._source = place.source
        self._is_live = False
        """Whether every name that isn't only in its branch counts as read later."""
        self._outer, test = without_python(statement.test, self._source)
        self._outer = self._outer if statement.orelse is None else None
        self._tests = [statement.test if self._outer is None else test]
        bodies: list[tuple[_Body, tuple[str, ...]]] = []
        bodies.append((statement.body, ()))
        self._rest: Sequence[BaseStatement] = ()
        node = statement.orelse
        while node is not None:
            bodies.append((node.body, comments_in(node.leading_lines)))
            if isinstance(node, If):
                self._tests.append(node.test)
            node = node.orelse if isinstance(node, If) else None
        if len(bodies) == len(self._tests):
            self._rest = lines = self._lines_after([body for body, _ in bodies])
            while lines and _is_early(lines[0]) and self._outer is None:
                early = need(lines[0], If)
                self._tests.append(early.test)
                bodies.append((early.body, comments_in(early.leading_lines)))
                lines = lines[1:]
            bodies.append((lines, ()))
        self._bodies = bodies
        lines = [line for body, _ in bodies for line in _lines(body)]
        self._redraws = _draws([*_origins(self._tests, self._source)]) and _draws(lines)
        """Whether a draw decides if more is drawn: numbers are random in any case, then."""

    def _lines_after(self, bodies: Sequence[_Body]) -> Sequence[BaseStatement]:
        """Return the lines that run only if no branch leaves; they are the last branch."""
        if not any(map(_gives, bodies)):
            return ()
        block = self._source.parent(self._statement)
        lines = lines_of(block) if isinstance(block, IndentedBlock) else []
        lines = lines[lines.index(self._statement) + 1 :] if lines else []
        ends = (at for at, line in enumerate(lines) if _ends_with_return(line))
        stop = next(ends, None)
        return lines[: stop + 1] if stop is not None else ()

    @property
    def is_whole(self) -> bool:
        """Check whether either no branch returns, or all of them do and only set names before."""
        returning = [body for body, _ in self._bodies if _gives(body)]
        if not returning or self._outer is not None:
            return not returning
        return len(returning) == len(self._bodies) and self._is_flat

    @property
    def _is_flat(self) -> bool:
        lines = [line for body, _ in self._bodies for line in _lines(body)]
        return all(isinstance(line, SimpleStatementLine) for line in lines)

    def edit(self) -> Edit:
        hoisted = [] if self._is_flat else self._hoisted()
        if not self._is_flat or any(_leaves(body) for body, _ in self._bodies):
            return self._nested()
        source = self._source
        region = [self._statement, *self._rest]
        branches = [_branch_of(body, source, region, above) for body, above in self._bodies]
        decline_if(
            len({branch.is_returning for branch in branches}) > 1,
            "one branch returns and another doesn't",
        )
        rows = self._rows(branches)
        lines, conditions = self._conditions(rows)
        numpy = _numpy_of(self._tests, source)
        kept: list[_Values] = []
        for row in rows:
            comments = Comments()
            for step in row.steps:
                comments = comments.joined(step.comments) if step is not None else comments
            for name in row.first.target.split(", "):
                decline_if(self._names.is_declared(name), f"`{name}` isn't a local name")
            values = row.values
            columns = _columns(values)
            for column in columns if row.owner is None else ():
                _refuse_parts(column, is_stored=not row.first.is_name)
            for value in values:
                refuse_effects(value)
            kept += columns
            if row.owner is not None:
                chosen = _needed(values[0], conditions, row.owner)
            else:
                chosen = _each_chosen(conditions, values, columns)
            lines.append(line_of(row.first.write(_in_numpy(chosen, numpy)), comments))
        chosen_steps = [row.first for row in rows if row.owner is None]
        is_plain = all(step.is_name for step in chosen_steps)
        is_safe = is_plain and _is_safe(self._names, self._tests, kept)
        lines = [*hoisted, *_inlined(lines)]
        is_safe = is_safe and not hoisted
        return self._put(lines, chosen_steps, numpy or "torch", is_safe=is_safe)

    def _hoisted(self) -> list[BaseStatement]:
        """Take out of the first branch what Python decides at its beginning, if only it needs the
        names that are set there: computed in any case, they can be chosen from in one line.
        """
        body, above = self._bodies[0]
        lines = list(_lines(body))
        count = max((at + 1 for at, line in enumerate(lines) if isinstance(line, If)), default=0)
        tests = [line.test for line in lines[:count] if isinstance(line, If)]
        is_decided = all(is_of_python(test, self._source) for test in tests)
        names = set_names(*lines[:count])
        if not is_decided or not all(self._names.is_only_in(name, lines) for name in names):
            return []
        nested, condition = _Nested(self._source, self._names, [self._statement]), "condition"
        hoisted = nested.lines(lines[:count], [Name(condition)])
        if nested.steps or condition in name_set(*hoisted):
            return []
        self._bodies[0] = lines[count:], above
        return hoisted

    def _refuse_first_run(self, steps: Sequence[_Step]) -> None:
        """Decline to compute again what a branch computes once, unless it is one number or made of
        the object's own: in a later call, sizes may differ.
        """
        stored = [step for step in steps if not step.is_name]
        changed = {re.split(r"\.data\b|\.copy_|\[", step.target)[0] for step in stored}
        asked = {self._source.code(part) for test in self._tests for part in find(test, Attribute)}
        for step in stored if changed & asked else ():
            value = step.value
            is_number = is_literal_number(value) or dotted(value) in ("True", "False")
            is_number = is_number or called(value) in REDUCED | {"item"}
            is_total = is_number or name_set(value) <= words("self torch True False")
            decline_if(not is_total, "the branch runs once, and later sizes may differ")

    def _put(
        self, lines: list[BaseStatement], steps: Sequence[_Step], where: str, *, is_safe: bool
    ) -> Edit:
        """Write lines in place of the ``if``, and of the lines that are its last branch."""
        self._refuse_first_run(steps)
        targets = dict.fromkeys(name for step in steps for name in step.target.split(", "))
        shown = ["the result" if target == _RETURNED else f"`{target}`" for target in targets]
        what = "what is returned" if [*targets] == [_RETURNED] else listed(shown)
        if not all(step.is_name for step in steps):
            what = "what is changed"
        decline_if(self._outer is not None and self._rest, "Python decides whether the rest runs")
        if self._outer is not None:
            # `if` and what is under it share the indentation of the old one.
            body = self._statement.body
            indent = body.indent if isinstance(body, IndentedBlock) else None
            lines = [If(self._outer.deep_clone(), IndentedBlock(lines, indent=indent))]
        changes = lines_for(self._source, self._statement, lines, also=self._rest)
        title = f"Choose {what} with `{where}.where`"
        return self._place.edit(title, *changes, is_safe=is_safe, redraws=self._redraws)

    def _rows(self, branches: Sequence[_Branch]) -> list[_Row]:
        """The steps by line: what several branches change is chosen in one line, unless they change
        things in another order.

        A branch's steps see what its earlier steps did: a name that was chosen has that branch's
        value whenever the branch is the one that is taken.
        """
        waiting = [list(branch.steps) for branch in branches]
        rows: list[_Row] = []
        while any(waiting):
            heads = {at: steps[0] for at, steps in enumerate(waiting) if steps}
            own = [at for at in heads if self._is_own(heads[at], at, branches)]
            if own:
                rows.append(_Row((waiting[own[0]].pop(0),), own[0]))
                continue
            targets = [head.target for head in heads.values()]
            blocked = {
                step.target
                for steps in waiting
                for step in steps[1:]
                if step.target != steps[0].target
            }
            free = [target for target in targets if target not in blocked]
            target = next(iter(free or [target for target in targets if target != _RETURNED]))
            turn = [at for at, head in heads.items() if head.target == target]
            turn = turn if free else turn[:1]
            steps = (waiting[at].pop(0) if at in turn else None for at in range(len(waiting)))
            rows.append(_Row(tuple(steps)))
        if all(row.owner is not None for row in rows):
            decline_if(self._is_live, _UNUSED)
            self._is_live = True
            return self._rows(branches)
        seen: set[str] = set()
        for row in rows:
            for name in row.first.target.split(", ") if row.owner is None else ():
                if None in row.steps and row.first.is_name and name not in seen:
                    read = name_set(*(step.value for step in row.steps if step))
                    is_bound = name in read or self._names.is_bound_before(name, self._statement)
                    decline_if(not is_bound, f"`{name}` has no value if the branch isn't taken")
                seen.add(name)
        return rows

    def _is_own(self, step: _Step, at: int, branches: Sequence[_Branch]) -> bool:
        """Check whether only its own branch needs what a step sets."""
        branch, names = branches[at], step.target.split(", ")
        if not step.is_name or step.target == _RETURNED:
            return False
        read = set[str]().union(*(other.read for other in branches if other is not branch))
        # After a `return`, nothing else reads it.
        if read & {*names} or branch.is_returning:
            return not read & {*names}
        ask = self._names.is_only_in if self._is_live else self._is_dead_after
        return all(ask(name, branch.nodes) for name in names)

    def _is_dead_after(self, name: str, nodes: Sequence[CSTNode]) -> bool:
        return not self._names.is_read_after(name, nodes)

    def _conditions(self, rows: Sequence[_Row]) -> tuple[list[BaseStatement], _Values]:
        tensors = [condition_of(test, self._source) for test in self._tests]
        is_repeated = any(_is_repeated(row) for row in rows)
        is_truth = any(not row.first.is_name for row in rows) and _is_truth(self._tests[0])
        if len(rows) == 1 and not is_repeated and not is_truth:
            return [], tensors
        lines: list[BaseStatement] = []
        targets = {name for row in rows for name in row.first.target.split(", ")}
        for at, tensor in enumerate(tensors):
            if not isinstance(tensor, Name) or tensor.value in targets:
                made = method_call(tensor, "squeeze") if is_truth and at == 0 else tensor
                tensors[at] = Name(self._names.fresh("condition"))
                lines.append(assigned(tensors[at], made))
        return lines, tensors

    def _nested(self) -> Edit:
        """Write one branch after the other, each statement of which does nothing in another."""
        bodies = [_lines(body) for body, _ in self._bodies]
        self._rest = self._rest_of_block() if any(map(_leaves, bodies)) else ()
        used = [name for part in (*bodies, self._rest) for name in name_set(*part)]
        shared = {name for name in used if used.count(name) > 1}
        nested = _Nested(self._source, self._names, [self._statement, *self._rest], shared)
        choice = self._statement.with_changes(test=self._tests[0], leading_lines=())
        lines = nested.lines([choice, *self._rest], ())
        decline_if(not nested.steps, _UNUSED)
        return self._put(_inlined(lines), nested.steps, "torch", is_safe=False)

    def _rest_of_block(self) -> Sequence[BaseStatement]:
        """Return the lines after the ``if`` of a turn of a loop, or of a function."""
        leaving = [_last(body) for body, _ in self._bodies if _leaves(body)]
        kind = For if isinstance(leaving[0], Continue) else FunctionDef
        block = self._source.parent(self._statement)
        is_whole = isinstance(block, IndentedBlock) and isinstance(self._source.parent(block), kind)
        is_whole = is_whole and len({type(small) for small in leaving}) == 1
        word = "continue" if kind is For else "return"
        decline_if(not is_whole, f"the `{word}` is inside another block")
        lines = lines_of(need(block, IndentedBlock))
        rest = lines[lines.index(self._statement) + 1 :]
        return rest[:-1] if rest and _leaves(rest[-1:]) else rest


_SAMPLER = re.compile("(?<!up)(?<!down)(?<!re)(?<!grid_)sampl(e|ing)")
"""In the name of a program's own function that draws."""


def _draws(nodes: Sequence[CSTNode]) -> bool:
    names = [called(call) for call in calls_in(*nodes)]
    return any(draws_random(name) or _SAMPLER.search(name) for name in names)


def _origins(values: _Values, source: SourceFile) -> set[BaseExpression]:
    """Return values, and all that the variables in them were set to."""
    origins, waiting = set[BaseExpression](), [*values]
    while waiting:
        origins.add(value := waiting.pop())
        bound = [part for name in names_in(value) for part in source.bound_to(name)]
        waiting += [part for part in bound if part is not None and part not in origins]
    return origins


def _all(conditions: _Values) -> BaseExpression:
    """Join conditions, each of them boolean."""
    whole = conditions[0].deep_clone()
    for condition in conditions[1:]:
        whole = BinaryOperation(whole, BitAnd(), condition.deep_clone())
    return whole


class _Nested:
    """Writes statements so that they do nothing unless a condition holds."""

    def __init__(
        self,
        source: SourceFile,
        names: Names,
        region: Sequence[CSTNode],
        shared: Collection[str] = (),
    ) -> None:
        self._source, self._names, self._region, self._shared = source, names, region, shared
        body = region[0].body if isinstance(region[0], For) else None
        self._carried = flow(parsed(lines_of(body))).read_first if body is not None else set()
        """Names that a turn of the loop takes from the one before."""
        self.steps: list[_Step] = []
        """What is changed and seen elsewhere."""
        self._hoisted: list[BaseStatement] = []
        """Amounts to compute before a loop."""

    def lines(
        self, lines: Sequence[BaseStatement], conditions: _Values, loops: tuple[For, ...] = ()
    ) -> list[BaseStatement]:
        """Write some lines, which run only if all conditions hold."""
        new: list[BaseStatement] = []
        for line in lines:
            if isinstance(line, If) and not is_of_python(line.test, self._source):
                added, conditions = self._branches(line, conditions, loops)
                new += added
            else:
                new += self._line(line, conditions, loops)
        return new

    def _line(
        self, line: BaseStatement, conditions: _Values, loops: tuple[For, ...]
    ) -> list[BaseStatement]:
        match line:
            case SimpleStatementLine(body=smalls):
                comments = Comments.of(line.leading_lines, line.trailing_whitespace)
                made = [_steps_of(small, comments, self._source, self._region) for small in smalls]
                return [
                    new
                    for step in itertools.chain.from_iterable(made)
                    for new in self._step(step, _all(conditions), loops)
                ]
            case For() | With() | If() if holds(line, Break, Continue, Return):
                pass
            case For(orelse=None, asynchronous=None):
                inner = self.lines(lines_of(line.body), conditions, (*loops, line))
                before: list[BaseStatement] = []
                if not loops:
                    before, self._hoisted = self._hoisted, []
                changed = line.deep_clone().with_changes(body=with_lines(line.body, inner))
                return in_place_of(line, [*before, changed.with_changes(leading_lines=())])
            case With(asynchronous=None):
                inner = self.lines(lines_of(line.body), conditions, loops)
                return [line.deep_clone().with_changes(body=with_lines(line.body, inner))]
            case If():
                return [self._kept_branch(line, conditions, loops)]
        raise DeclinedError(_MORE)

    def _kept_branch(self, line: If, conditions: _Values, loops: tuple[For, ...]) -> If:
        """Write the lines in a branch that Python takes."""
        body = with_lines(line.body, self.lines(lines_of(line.body), conditions, loops))
        orelse = line.orelse
        if isinstance(orelse, If):
            orelse = need(only(self.lines([orelse], conditions, loops), _MORE), If, _MORE)
        elif orelse is not None:
            lines = self.lines(lines_of(orelse.body), conditions, loops)
            orelse = orelse.with_changes(body=with_lines(orelse.body, lines))
        return line.deep_clone().with_changes(body=body, orelse=orelse)

    def _branches(
        self, line: If, conditions: _Values, loops: tuple[For, ...]
    ) -> tuple[list[BaseStatement], _Values]:
        """Write all branches, and return what must hold for the lines after them to run."""
        lines: list[BaseStatement] = []
        others: list[BaseExpression] = []
        left: list[BaseExpression] = []
        node: If | Else | None = line
        while node is not None:
            turn = [*others]
            if isinstance(node, If):
                test = condition_of(node.test, self._source)
                condition, made = self._names.named(test, is_kept=name_set(test) & set_names(line))
                lines += [after_lines(new, node.leading_lines) for new in made]
                turn.append(condition)
                others.append(UnaryOperation(BitInvert(), condition))
            body = lines_of(node.body)
            if _leaves(body):
                ways = [part for part in turn if not any(map(part.deep_equals, left))]
                left.append(UnaryOperation(BitInvert(), enclosed(_all(ways))))
                body = body[:-1]
            decline_if(any(holds(inner, Break, Continue, Return) for inner in body), _MORE)
            lines += self.lines(body, [*conditions, *turn], loops)
            node = node.orelse if isinstance(node, If) else None
        return lines, [*conditions, *left]

    def _step(
        self, step: _Step, condition: BaseExpression, loops: tuple[For, ...]
    ) -> list[BaseStatement]:
        row = _Row((step, None))
        targets = step.target.split(", ")
        decline_if(step.target == _RETURNED, "one branch returns and another doesn't")
        is_own = step.is_name and not any(
            name in self._carried
            or name in self._shared
            or self._names.is_read_after(name, self._region)
            for name in targets
        )
        values = [step.value] if is_own else row.values
        columns = _columns(values)
        refuse_effects(step.value)
        if is_own:
            value = guarded(step.value, condition, is_if=True)
            return [line_of(step.write(value), step.comments)]
        self.steps.append(step)
        for name in targets if step.is_name else ():
            decline_if(self._names.is_declared(name), f"`{name}` isn't a local name")
            is_bound = self._names.is_bound_before(name, self._region[0])
            decline_if(not is_bound, f"`{name}` has no value if the branch isn't taken")
        for column in columns:
            _refuse_parts(column, is_stored=not step.is_name)
        chosen = _each_chosen([condition], values, columns)
        is_amount = isinstance(step.idle, Integer)
        if not (loops and is_amount) or any(_depends_on(step.value, loop) for loop in loops):
            return [line_of(step.write(chosen), step.comments)]
        amount = Name(self._names.fresh("amount"))
        self._hoisted.append(assigned(amount, chosen))
        return [line_of(step.write(amount), step.comments)]


def _depends_on(value: BaseExpression, loop: For) -> bool:
    in_place = [call.func for call in calls_in(loop.body) if called(call).endswith("_")]
    tensors = [func.value for func in in_place if isinstance(func, Attribute)]
    return bool(name_set(value) & (name_set(loop.target, *tensors) | set_names(loop.body)))


def _is_early(line: BaseStatement) -> bool:
    """Check for another early ``return``."""
    return isinstance(line, If) and line.orelse is None and _gives(line.body)


def _is_truth(test: BaseExpression) -> bool:
    """Check whether a test is the truth of a tensor of any shape: ``self.ready``."""
    inner = test.expression if isinstance(test, UnaryOperation) else test
    return isinstance(inner, Name | Attribute)


def _lines(body: _Body) -> Sequence[BaseStatement]:
    return lines_of(body) if isinstance(body, BaseSuite) else body


def _last(body: _Body) -> CSTNode | None:
    """Return the last small statement of a body; None if it ends with a block."""
    lines = _lines(body)
    last = lines[-1] if lines else None
    return last.body[-1] if isinstance(last, SimpleStatementLine) else None


def _gives(body: _Body) -> bool:
    """Check whether a body ends with a ``return`` of a value."""
    last = _last(body)
    return isinstance(last, Return) and last.value is not None


def _leaves(body: _Body) -> bool:
    """Check whether a body ends with ``continue``, or with a ``return`` of nothing."""
    last = _last(body)
    return isinstance(last, Continue) or (isinstance(last, Return) and last.value is None)


def _inlined(lines: list[BaseStatement]) -> list[BaseStatement]:
    """Join two lines, if the first names a condition that the second uses once."""
    match lines:
        case [
            SimpleStatementLine(
                body=[Assign(targets=[AssignTarget(target=Name(value=name) as to)], value=test)]
            ),
            SimpleStatementLine() as line,
            *rest,
        ] if name.startswith("condition") and name not in name_set(*rest):
            uses = [used for used in names_in(line) if used.deep_equals(to)]
            # In a comprehension it would be computed for each row.
            if len(uses) == 1 and not find(line, ListComp):
                return [need(line.deep_replace(uses[0], test), SimpleStatementLine), *rest]
    return lines


def _numpy_of(tests: _Values, source: SourceFile) -> str | None:
    """Return the file's name for NumPy if that made the conditions: outside of torch.compile these
    are its arrays.
    """
    calls = [call for call in calls_in(*tests) if source.dotted_name(call).startswith("numpy.")]
    name = dotted(calls[0].func) if calls else None
    return None if name is None else name.rpartition(".")[0] or None


def _in_numpy(chosen: BaseExpression, numpy: str | None) -> BaseExpression:
    """Choose by ``np.where`` if it's NumPy's."""
    if numpy is None:
        return chosen
    old = matchers.Attribute(matchers.Name("torch"), matchers.Name("where"))
    new = Attribute(parse_expression(numpy), Name("where"))
    return need(matchers.replace(chosen, old, new), BaseExpression)


# Values.


def _columns(values: _Values) -> list[_Values]:
    """Return the values to choose from: of several at once, such as ``return a, b``, those at each
    place that differ.
    """
    if len(values) == 1:
        return [values]
    if (rows := _rows_of(values)) is not None:
        return [rows]
    parts = [_parts(value) for value in values]
    if any(keys is None or keys != parts[0][0] for keys, _ in parts):
        return [values]
    columns = zip(*(inner for _, inner in parts), strict=True)
    return [column for column in columns if not _is_same(column)]


def _rows_of(values: _Values) -> _Values | None:
    """Return what is chosen for each ``row`` of ``[f(row) for row in rows]`` or of ``rows`` itself;
    None if it's no such.
    """
    made = [value for value in values if isinstance(value, ListComp)]
    if not made:
        return None
    first = made[0].for_in
    is_plain = isinstance(first.target, Name) and not (
        first.ifs or first.inner_for_in or first.asynchronous
    )
    if not is_plain or any(not comprehension.for_in.deep_equals(first) for comprehension in made):
        return None
    parts = [
        value.elt if isinstance(value, ListComp) else first.target
        for value in values
        if value in made or value.deep_equals(first.iter)
    ]
    return cast("_Values", parts) if len(parts) == len(values) else None


def _parts(value: BaseExpression) -> tuple[tuple[str, ...] | None, _Values]:
    """Return what tells displays apart whose parts can be chosen one by one, None for anything
    else; and the parts.
    """
    match value:
        case Tuple(elements=elements) | List(elements=elements):
            parts = [element.value for element in elements if isinstance(element, Element)]
            traits = (type(value).__name__, str(len(parts)))
            return traits if len(parts) == len(elements) else None, parts
        case Dict(elements=elements):
            pairs = [element for element in elements if isinstance(element, DictElement)]
            keys = [pair.key.value for pair in pairs if isinstance(pair.key, SimpleString)]
            is_plain = len(keys) == len(elements)
            return ("Dict", *keys) if is_plain else None, [pair.value for pair in pairs]
    return None, []


def _is_same(values: _Values) -> bool:
    return all(value.deep_equals(values[0]) for value in values[1:])


def _is_repeated(row: _Row) -> bool:
    """Check whether the chosen values contain the condition more than once."""
    values = row.values
    is_each = _rows_of(values) is not None or (len(values) > 1 and len(_columns(values)) > 1)
    return is_each or any(
        not guarded(value, Name("condition"), is_if=True).deep_equals(value) for value in values
    )


def _each_chosen(
    conditions: _Values, values: _Values, columns: Sequence[_Values]
) -> BaseExpression:
    """Choose values, one by one if they are in displays and differ."""
    if _is_same(values):
        return values[0].deep_clone()
    if [*columns] == [values]:
        return _chosen(conditions, values)
    if _rows_of(values) is not None:
        whole = next(value for value in values if isinstance(value, ListComp))
        return whole.deep_clone().with_changes(elt=_chosen(conditions, columns[0]))
    display = values[-1].deep_clone()
    assert isinstance(display, Tuple | List | Dict)  # nothing else has columns
    rows = zip(*(_parts(value)[1] for value in values), strict=True)
    chosen = [
        part[0].deep_clone() if _is_same(part) else _chosen(conditions, part) for part in rows
    ]
    parts = zip(display.elements, chosen, strict=True)
    return display.with_changes(elements=[part.with_changes(value=value) for part, value in parts])


def _chosen(conditions: _Values, values: _Values) -> BaseExpression:
    """Choose the value of the first condition that is true, or the last one.

    Numbers that are read from tensors are chosen among these: what leaves is a number still.
    """
    if any(_is_item(value) for value in values) and all(map(_is_numeric, values)):
        func = Attribute(_chosen(conditions, _unread(values)), Name("item"))
        return Call(func)
    safe = [_needed(value, conditions, at) for at, value in enumerate(values)]
    chosen = safe.pop()
    match values[0], safe:
        case BinaryOperation(right=before), [BinaryOperation(operator=Divide()) as divided]:
            # Divided by 1, it is what it was.
            if divided.left.deep_equals(chosen) and not divided.right.deep_equals(before):
                return divided.deep_clone()
    pairs = list(zip(conditions, safe, strict=True))
    for at, (condition, value) in reversed(list(enumerate(pairs))):
        if at + 1 < len(safe) or not value.deep_equals(chosen):
            chosen = where(condition, value, chosen)
    return chosen


def _is_item(value: BaseExpression) -> bool:
    return called(value) == "item" and matchers.matches(value, matchers.Call(args=[]))


def _is_numeric(value: BaseExpression) -> bool:
    return is_literal_number(value) or isinstance(value, Name | Attribute) or _is_item(value)


def _unread(values: _Values) -> _Values:
    """Return tensors in place of ``x.item()``, in float64 beside a number that has more digits than
    a float32.
    """
    numbers = [
        float(ast.literal_eval(Module([]).code_for_node(value)))
        for value in values
        if is_literal_number(value)
    ]
    is_short = all(ctypes.c_float(number).value == number for number in numbers)
    tensors: list[BaseExpression] = []
    for value in values:
        func = value.func if isinstance(value, Call) else None
        tensor = func.value if isinstance(func, Attribute) else value
        tensors.append(tensor if func is None or is_short else method_call(tensor, "double"))
    return tensors


def _needed(value: BaseExpression, conditions: _Values, at: int) -> BaseExpression:
    """Write the value of a branch so that it's harmless where another one is taken."""
    for condition in conditions[at : at + 1]:
        value = guarded(value, condition, is_if=True)
    for condition in reversed(conditions[:at]):
        value = guarded(value, condition, is_if=False)
    return value


def _ends_with_return(line: CSTNode) -> bool:
    return isinstance(line, SimpleStatementLine) and isinstance(line.body[-1], Return)


def _is_safe(names: Names, tests: _Values, rows: Sequence[_Values]) -> bool:
    return (
        all(is_one_number(test, names.source) and not tests_for_finite(test) for test in tests)
        and is_evaluated_alike(tests)
        and not names.is_changing_tensors
        and all(is_harmless(value, names.source) for row in rows for value in row)
        # Broadcasting over the same tensors gives the same shape; a lone number would get a shape
        # that it didn't have.
        and all(
            len({operands(value) for value in row}) == 1 and operands(row[0])
            for row in rows
            if len(row) > 1
        )
    )


def _refuse_parts(column: _Values, *, is_stored: bool = False) -> None:
    """Decline to choose between values unless all are tensors, and none a part of one, whose size
    is its own.
    """
    for value in column:
        if not (is_stored and dotted(value) in ("True", "False")):
            refuse_unless_tensor(value)
    cuts = [_cut(value) for value in column]
    is_one_size = all(
        cut is not None and cuts[0] is not None and cut.deep_equals(cuts[0]) for cut in cuts
    )
    decline_if(any(cuts) and not is_one_size, "a branch yields a part of a tensor")


def _cut(value: BaseExpression) -> CSTNode | None:
    """Return the slice by which a value is part of a tensor; None if it's whole."""
    match value:
        case Subscript(slice=parts, value=inner):
            slices = [part.slice for part in parts if isinstance(part.slice, Slice)]
            bound = [part for part in slices if part.lower is not None or part.upper is not None]
            return bound[0] if bound else _cut(inner)
        case Attribute(value=inner):
            return _cut(inner)
        case Call(func=Attribute(value=inner, attr=Name(value=name)), args=args):
            return None if name in REDUCED and not args else _cut(inner)
    return None


# An early `return`.


def _choose_at_return(place: Place, statement: If, names: Names) -> Edit:
    """``if sure: return early`` and later ``return late`` become ``return torch.where(sure, early,
    late)``.
    """
    source, function = place.source, place.function
    decline_if(statement.orelse is not None, "the `if` has another branch")
    steps = _branch_of(statement.body, source, [statement]).steps
    decline_if(len(steps) != 1 or steps[0].target != _RETURNED, "the branch does more than return")
    is_inside = source.parent(statement) is not function.body
    decline_if(is_inside, "the early `return` is inside another block")
    body = lines_of(function.body)
    rest = body[body.index(statement) + 1 :]
    is_open = not rest or not _ends_with_return(rest[-1])
    decline_if(is_open, "the function doesn't end with a `return`")
    for line in rest:
        _refuse_effects(source, line)
        refuse_effects(line)
    returns, early = list(_returns(rest)), steps[0].value
    outer, test = without_python(statement.test, source)
    condition = condition_of(test, source)
    lines: list[BaseStatement] = []
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
    changes: list[Change] = []
    for returned in returns:
        late = known(returned.value, "a later `return` returns nothing")
        changes.append((late, _both(condition, early, late)))
    refuse_lost_comments([statement], lines)
    return place.edit(title, (statement, lines), *changes)


def _both(condition: BaseExpression, early: BaseExpression, late: BaseExpression) -> BaseExpression:
    values = [early, late]
    columns = _columns(values)
    for column in columns:
        _refuse_parts(column)
    return _each_chosen([condition], values, columns)


def _chosen_if(
    names: Names,
    outer: BaseExpression,
    condition: BaseExpression,
    early: _Step,
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


# A `break`.


def _run_to_the_end(place: Place, statement: If, names: Names) -> Edit:
    """``for …: x = f(x); if done.all(): break`` becomes a loop to the end in which ``x =
    torch.where(is_running, f(x), x)``.
    """
    source, block = place.source, place.source.parent(statement)
    loop = need(source.parent(block), For, "the `break` is inside another block")
    lines, own = lines_of(loop.body), set(walk(statement))
    others = [part for part in find(loop, Break, Continue, Return) if part not in own]
    is_plain = statement.orelse is None and loop.orelse is None and not others
    decline_if(not is_plain, "the loop ends in more than one way")
    is_last_used = not all(names.is_only_in(name, [loop]) for name in name_set(loop.target))
    decline_if(is_last_used, "what the loop counts is used after it")
    at, running = lines.index(statement), Name(names.fresh("is_running"))
    nested = _Nested(source, names, [loop])
    before = nested.lines(lines[:at], [running])
    more, stays = lines_of(statement.body)[:-1], negated(statement.test, source)
    last: list[BaseStatement] = []
    if more:
        ends = Name(names.fresh("ends"))
        test = enclosed(condition_of(statement.test, source))
        last = [assigned(ends, _all([running, test])), *nested.lines(more, [ends])]
        stays = UnaryOperation(BitInvert(), ends)
    still = assigned(running, _all([running, enclosed(stays, (UnaryOperation,))]))
    after = nested.lines(lines[at + 1 :], [running])
    first, *others_changed = [*last, still]
    turn = [*before, after_lines(first, statement.leading_lines), *others_changed, *after]
    tensor = _carried(source, names, loop)
    made = need(parse_expression(f"{tensor}.new_ones((), dtype=torch.bool)"), Call)
    start = after_lines(assigned(running, made), loop.leading_lines)
    new = loop.deep_clone().with_changes(body=with_lines(loop.body, turn), leading_lines=())
    refuse_lost_comments([loop], [start, new])
    title = "Run the loop to its end, and change nothing after the turn that it ended with"
    return place.edit(title, (loop, [start, new]))


def _carried(source: SourceFile, names: Names, loop: For) -> str:
    """Return the name of a tensor from before a loop that is used in it."""
    for call in calls_in(loop.body):
        is_torch = source.dotted_name(call).startswith("torch.")
        receiver = source.receiver(call) if is_torch or called(call) in TENSOR_METHODS else None
        name = dotted(receiver)
        if isinstance(receiver, Name) and name and names.is_bound_before(name, loop):
            return name
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
