"""A branch on a tensor's value that chooses between values: compute both ways and choose with
``torch.where``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from libcst import (
    AnnAssign,
    Arg,
    Assert,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    Await,
    BaseExpression,
    BaseStatement,
    BinaryOperation,
    Call,
    ClassDef,
    CSTNode,
    Dict,
    DictElement,
    Divide,
    Element,
    Else,
    Expr,
    FunctionDef,
    Global,
    If,
    IfExp,
    IndentedBlock,
    Lambda,
    List,
    ListComp,
    Name,
    Nonlocal,
    Raise,
    Return,
    SimpleStatementLine,
    SimpleString,
    Subscript,
    Tuple,
    Yield,
    matchers,
    parse_expression,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.effects import is_report, touched
from graphdoctor.fixes.source.expressions import (
    as_boolean_tensor,
    condition_of,
    guarded,
    is_evaluated_alike,
    is_harmless,
    is_one_number,
    operands,
    refuse_unless_tensor,
    tests_for_finite,
    without_python,
)
from graphdoctor.fixes.source.nodes import (
    RETURNED,
    Branch,
    Comments,
    Names,
    Step,
    after_lines,
    assigned,
    bracketed,
    branch_of,
    calls_in,
    comments_in,
    in_place_of,
    is_in_place,
    joined,
    line_of,
    lines_for,
    lines_of,
    name_set,
    refuse_lost_comments,
    where,
    without_parentheses,
)
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
    walk,
)
from graphdoctor.wording import listed

_WITHOUT_WORDS = (Assign, AugAssign, AnnAssign, Arg, Attribute, BinaryOperation, Subscript)
"""Nodes that never put a keyword directly before an expression."""

_Values = Sequence[BaseExpression]


@recipe("GD102")
def branch_where(place: Place) -> Edit:
    """``if c: x = f(x)`` becomes ``x = torch.where(c, f(x), x)``.

    Also ``if`` with ``elif`` and ``else``, ``return`` in every branch, and ``a if c else b``. What
    a condition asks Python first (``mask is not None``, ``self.training``) stays an ``if``. Safe if
    one number decides and both branches compute every element from the same floating-point tensors
    with operations that are defined for every number and have finite gradients. Otherwise unsafe:
    both branches are computed, so the one that isn't taken may fail, have a side effect or another
    shape, or put NaN into gradients.
    """
    names = Names(place.source, place.scope)
    if isinstance(place.tested, IfExp):
        return _choose_expression(place, place.tested, names)
    statement = need(place.tested, If, "an assertion doesn't choose between values")
    return _Choice.of(place, statement, names).edit()


def _choose_expression(place: Place, choice: IfExp, names: Names) -> Edit:
    source, sides = place.source, [choice.body, choice.orelse]
    for value in sides:
        refuse_unless_tensor(value)
    first, test = without_python(choice.test)
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


@dataclass(frozen=True)
class _Choice:
    """An ``if`` with all its branches, and the lines after it that are the last one."""

    place: Place
    statement: If
    names: Names
    tests: Sequence[BaseExpression]
    branches: Sequence[Branch]
    rest: Sequence[BaseStatement] = ()
    outer: BaseExpression | None = None

    @classmethod
    def of(cls, place: Place, statement: If, names: Names) -> _Choice:
        outer, test = without_python(statement.test)
        if statement.orelse is None and outer is not None:
            branches = [branch_of(statement.body), Branch()]
            return cls(place, statement, names, [test], branches, outer=outer)
        tests: list[BaseExpression] = []
        branches = []
        rest: Sequence[BaseStatement] = ()
        node: If | Else | None = statement
        while node is not None:
            above = comments_in(node.leading_lines) if node is not statement else ()
            branches.append(branch_of(node.body).commented(above))
            if isinstance(node, Else):
                return cls(place, statement, names, tests, branches)
            tests.append(node.test)
            node = node.orelse
        if all(branch.is_returning for branch in branches):
            block = place.source.parent(statement)
            lines = lines_of(block) if isinstance(block, IndentedBlock) else []
            rest = lines[lines.index(statement) + 1 :] if lines else []
            ends = (at for at, line in enumerate(rest) if _ends_with_return(line))
            stop = known(next(ends, None), "one branch returns and another doesn't")
            rest = rest[: stop + 1]
        return cls(place, statement, names, tests, [*branches, branch_of(rest)], rest)

    def edit(self) -> Edit:
        decline_if(
            len({branch.is_returning for branch in self.branches}) > 1,
            "one branch returns and another doesn't",
        )
        source, rows = self.place.source, self._rows()
        lines, conditions = self._conditions(rows)
        is_named = bool(lines)
        kept: list[_Values] = []
        numpy = _numpy_of(self.tests, source)
        for row in rows:
            target, comments = _target(row), Comments()
            decline_if(self.names.is_declared(target), f"`{target}` isn't a local name")
            for step in row:
                comments = comments.joined(step.comments) if step is not None else comments
            values = [step.value if step is not None else Name(target) for step in row]
            columns = _columns(values)
            for value in itertools.chain.from_iterable(columns):
                refuse_unless_tensor(value)
            kept += columns
            # A row of one value is a step before a choice.
            is_step = len(values) == 1
            chosen = (
                values[0].deep_clone() if is_step else _each_chosen(conditions, values, columns)
            )
            chosen = _in_numpy(chosen, numpy)
            small = Return(chosen) if target == RETURNED else assigned(target, chosen).body[0]
            lines.append(line_of(small, comments))
        is_safe = _is_safe(self.names, self.tests, kept)
        whole: list[BaseStatement] = list(_inlined(lines) if is_named else lines)
        if self.outer is not None:
            # `if` and what is under it share the indentation of the old one.
            body = self.statement.body
            indent = body.indent if isinstance(body, IndentedBlock) else None
            whole = [If(self.outer.deep_clone(), IndentedBlock(lines, indent=indent))]
        changes = lines_for(source, self.statement, whole, also=self.rest)
        targets = list(dict.fromkeys(_target(row) for row in rows if len(row) > 1))
        shown = ["the result" if target == RETURNED else f"`{target}`" for target in targets]
        what = "what is returned" if targets == [RETURNED] else ", ".join(shown)
        title = f"Choose {what} with `{numpy or 'torch'}.where`"
        return self.place.edit(title, *changes, is_safe=is_safe)

    def _rows(self) -> list[list[Step | None]]:
        """The steps by line: one step of each branch to choose from, or a single step that can come
        before a choice.

        A branch's steps see what its earlier steps did: a name that was chosen has that branch's
        value whenever the branch is the one that is taken.
        """
        columns = [self._sections(branch) for branch in self.branches]
        chosen = [[step.target for _, step in column if step] for column in columns]
        longest = max(chosen, key=len)
        decline_if(not longest, "no branch assigns a name that is used later")
        if any(targets not in ([], longest) for targets in chosen):
            names = dict.fromkeys(itertools.chain.from_iterable(chosen))
            in_some = [
                f"`{name}`"
                for name in names
                if name != RETURNED and any(name not in row for row in chosen)
            ]
            before = " before they return" if RETURNED in names else ""
            decline_if(in_some, f"only some branches assign {listed(in_some)}{before}")
            raise DeclinedError("the branches assign names in a different order")
        rows: list[list[Step | None]] = []
        seen: set[str] = set()
        for sections in itertools.zip_longest(*columns, fillvalue=((), None)):
            rows.extend([step] for before, _ in sections for step in before)
            row: list[Step | None] = [step for _, step in sections]
            if any(row):
                target = _target(row)
                if None in row and target not in seen:
                    is_read = target in name_set(*(step.value for step in row if step))
                    is_bound = is_read or self.names.is_bound_before(target, self.statement)
                    decline_if(not is_bound, f"`{target}` has no value if the branch isn't taken")
                seen.add(target)
                rows.append(row)
        return rows

    def _sections(self, branch: Branch) -> list[tuple[tuple[Step, ...], Step | None]]:
        """Each step whose name is used later, with the steps before it whose names aren't; those at
        the end alone.
        """
        sections: list[tuple[tuple[Step, ...], Step | None]] = []
        before: tuple[Step, ...] = ()
        for step in branch.steps:
            if step.target != RETURNED and self.names.is_only_in(step.target, branch.nodes):
                before = (*before, step)
            else:
                sections.append((before, step))
                before = ()
        return [*sections, (before, None)] if before else sections

    def _conditions(
        self, rows: Sequence[Sequence[Step | None]]
    ) -> tuple[list[SimpleStatementLine], _Values]:
        tensors = [condition_of(test, self.place.source) for test in self.tests]
        is_repeated = any(_is_repeated([step.value for step in row if step]) for row in rows)
        if len(rows) == 1 and not is_repeated:
            return [], tensors
        lines: list[SimpleStatementLine] = []
        targets = {_target(row) for row in rows}
        for at, tensor in enumerate(tensors):
            if not isinstance(tensor, Name) or tensor.value in targets:
                tensors[at] = Name(self.names.fresh("condition"))
                lines.append(assigned(tensors[at], tensor))
        return lines, tensors


def _inlined(lines: Sequence[SimpleStatementLine]) -> Sequence[SimpleStatementLine]:
    """Join two lines, if the first names a condition that the second uses once."""
    match lines:
        case [SimpleStatementLine(body=[Assign(targets=[to], value=test)]), line]:
            uses = [name for name in names_in(line) if name.deep_equals(to.target)]
            # In a comprehension it would be computed for each row.
            if len(uses) == 1 and not find(line, ListComp):
                return [need(line.deep_replace(uses[0], test), SimpleStatementLine)]
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


def _is_repeated(values: _Values) -> bool:
    """Check whether the chosen values contain the condition more than once."""
    is_each = _rows_of(values) is not None or (len(values) > 1 and len(_columns(values)) > 1)
    return is_each or any(
        not guarded(value, Name("condition"), is_if=True).deep_equals(value) for value in values
    )


def _each_chosen(
    conditions: _Values, values: _Values, columns: Sequence[_Values]
) -> BaseExpression:
    """Choose values, one by one if they are in displays and differ."""
    if columns == [values]:
        return _chosen(conditions, values)
    if _rows_of(values) is not None:
        whole = next(value for value in values if isinstance(value, ListComp))
        return whole.deep_clone().with_changes(elt=_chosen(conditions, columns[0]))
    display = values[-1].deep_clone()
    assert isinstance(display, Tuple | List | Dict)  # nothing else has columns
    rows = zip(*(_parts(value)[1] for value in values), strict=True)
    chosen = [row[0].deep_clone() if _is_same(row) else _chosen(conditions, row) for row in rows]
    parts = zip(display.elements, chosen, strict=True)
    return display.with_changes(elements=[part.with_changes(value=value) for part, value in parts])


def _chosen(conditions: _Values, values: _Values) -> BaseExpression:
    """Choose the value of the first condition that is true, or the last one."""
    pairs = list(zip(conditions, values, strict=False))
    safe = [guarded(value, condition, is_if=True) for condition, value in pairs]
    chosen = guarded(values[-1], conditions[-1], is_if=False)
    match values[0], safe:
        case BinaryOperation(right=before), [BinaryOperation(operator=Divide()) as divided]:
            # Divided by 1, it is what it was.
            if divided.left.deep_equals(chosen) and not divided.right.deep_equals(before):
                return divided.deep_clone()
    for condition, value in reversed(list(zip(conditions, safe, strict=False))):
        chosen = where(condition, value, chosen)
    return chosen


def _target(row: Sequence[Step | None]) -> str:
    return next(step.target for step in row if step is not None)


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


@recipe("GD102")
def tuple_where(place: Place) -> Edit:
    """``if low > high: low, high = high, low`` becomes ``low, high = torch.where(…),
    torch.where(…)``.

    Python computes all values before it sets the first name, and so do the calls. Unsafe: both ways
    are computed, so the one that isn't taken may fail or put NaN into gradients.
    """
    choice, names = place.branch, Names(place.source, place.scope)
    line, targets, values = _set_at_once(choice)
    for name in targets:
        is_unset = names.is_declared(name) or not names.is_bound_before(name, choice)
        decline_if(is_unset, f"`{name}` may have no value if the branch isn't taken")
    for value in values:
        refuse_unless_tensor(value)
    condition, before = names.named(condition_of(choice.test, place.source))
    pairs = zip(targets, values, strict=True)
    chosen = [_chosen([condition], [value, Name(name)]) for name, value in pairs]
    small = assigned(joined([Name(name) for name in targets]), joined(chosen)).body
    leading = () if before else line.leading_lines
    lines = [*before, line.with_changes(body=small, leading_lines=leading)]
    lines = in_place_of(choice, lines)
    refuse_lost_comments([choice], lines)
    shown = " and ".join(f"`{name}`" for name in targets)
    return place.edit(f"Choose {shown} with `torch.where`", (choice, lines))


def _set_at_once(choice: If) -> tuple[SimpleStatementLine, list[str], _Values]:
    match lines_of(choice.body):
        case [
            SimpleStatementLine(
                body=[
                    Assign(
                        targets=[AssignTarget(target=Tuple(elements=targets))],
                        value=Tuple(elements=values),
                    )
                ]
            ) as line
        ]:
            plain = [element.value for element in targets if isinstance(element, Element)]
            names = [element.value for element in plain if isinstance(element, Name)]
            parts = [part.value for part in values if isinstance(part, Element)]
            if len(set(names)) == len(parts) == len(targets) == len(values):
                return line, names, parts
    raise DeclinedError("the branch does more than set several names at once")


@recipe("GD102")
def choose_at_return(place: Place) -> Edit:
    """``if sure: return early`` and later ``return late`` become ``return torch.where(sure, early,
    late)``.

    For more lines between the two than ``branch-where`` takes. Unsafe: the rest is always computed,
    which the early ``return`` was there to save, and what it prints is always printed.
    """
    source, function = place.source, place.function
    statement = need(place.tested, If, "no `return` depends on the condition")
    decline_if(statement.orelse is not None, "the `if` has another branch")
    steps = branch_of(statement.body).steps
    decline_if(len(steps) != 1 or steps[0].target != RETURNED, "the branch does more than return")
    refuse_unless_tensor(steps[0].value)
    body = function.body.body
    is_inside = source.parent(statement) is not function.body
    decline_if(is_inside, "the early `return` is inside another block")
    rest = body[body.index(statement) + 1 :]
    is_open = not rest or not _ends_with_return(rest[-1])
    decline_if(is_open, "the function doesn't end with a `return`")
    for line in rest:
        _refuse_effects(source, line)
    names = Names(source, function)
    is_early, value = Name(names.fresh("is_early")), Name(names.fresh("early_value"))
    safe = without_parentheses(guarded(steps[0].value, is_early, is_if=True))
    lines = [
        after_lines(
            assigned(is_early, condition_of(statement.test, source)), statement.leading_lines
        ),
        line_of(assigned(value, safe).body[0], steps[0].comments),
    ]
    changes: list[Change] = []
    for returned in _returns(rest):
        late = known(returned.value, "a later `return` returns nothing")
        refuse_unless_tensor(late)
        changes.append((late, where(is_early, value, guarded(late, is_early, is_if=False))))
    refuse_lost_comments([statement], lines)
    title = "Compute the rest in any case, and choose what is returned with `torch.where`"
    return place.edit(title, (statement, lines), *changes)


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
    is_changing = any("." in path for path in touched(line, "self").changed)
    decline_if(is_changing, "the rest of the function changes an object")
