"""A branch on a tensor's value that chooses between values: compute both ways and choose with
``torch.where``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.branches import (
    RETURNED,
    Branch,
    Comments,
    Step,
    branch_of,
    line_of,
    lines_for,
)
from graphdoctor.fixes.source.effects import is_report, touched
from graphdoctor.fixes.source.expressions import (
    as_boolean_tensor,
    guarded,
    is_evaluated_alike,
    is_harmless,
    is_one_number,
    operands,
    refuse_unless_tensor,
    tests_for_finite,
    without_python,
)
from graphdoctor.fixes.source.names import Names
from graphdoctor.fixes.source.nodes import (
    after_lines,
    assigned,
    bracketed,
    calls_in,
    comments_in,
    is_in_place,
    joined,
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
    known,
    names_in,
    need,
    walk,
)
from graphdoctor.wording import listed

_WITHOUT_WORDS = (
    cst.Assign,
    cst.AugAssign,
    cst.AnnAssign,
    cst.Arg,
    cst.Attribute,
    cst.BinaryOperation,
    cst.Subscript,
)
"""Nodes that never put a keyword directly before an expression."""

_Values = Sequence[cst.BaseExpression]


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
    if isinstance(place.tested, cst.IfExp):
        return _choose_expression(place, place.tested, names)
    return _Choice.of(
        place, need(place.tested, cst.If, "an assertion doesn't choose between values"), names
    ).edit()


def _choose_expression(place: Place, choice: cst.IfExp, names: Names) -> Edit:
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
    return place.edit(title, (choice, call), is_safe=_is_safe(names, [test], [sides], alone=()))


@dataclass(frozen=True)
class _Choice:
    """An ``if`` with all its branches, and the lines after it that are the last one."""

    place: Place
    statement: cst.If
    names: Names
    tests: Sequence[cst.BaseExpression]
    branches: Sequence[Branch]
    rest: Sequence[cst.BaseStatement] = ()
    outer: cst.BaseExpression | None = None

    @classmethod
    def of(cls, place: Place, statement: cst.If, names: Names) -> _Choice:
        outer, test = without_python(statement.test)
        if statement.orelse is None and outer is not None:
            return cls(
                place, statement, names, [test], [branch_of(statement.body), Branch()], outer=outer
            )
        tests: list[cst.BaseExpression] = []
        branches: list[Branch] = []
        rest: Sequence[cst.BaseStatement] = ()
        node: cst.If | cst.Else | None = statement
        while node is not None:
            above = comments_in(node.leading_lines) if node is not statement else ()
            branches.append(branch_of(node.body).commented(above))
            if isinstance(node, cst.Else):
                return cls(place, statement, names, tests, branches)
            tests.append(node.test)
            node = node.orelse
        if all(branch.is_returning for branch in branches):
            rest = _lines_behind(place.source, statement)
        return cls(place, statement, names, tests, [*branches, branch_of(rest)], rest)

    def edit(self) -> Edit:
        decline_if(
            len({branch.is_returning for branch in self.branches}) > 1,
            "one branch returns and another doesn't",
        )
        rows = self._rows()
        lines, conditions = self._conditions(rows)
        is_named = bool(lines)
        kept: list[_Values] = []
        numpy = _numpy_of(self.tests, self.place.source)
        for row in rows:
            target, comments = _target(row), Comments()
            decline_if(self.names.is_declared(target), f"`{target}` isn't a local name")
            for step in row:
                comments = comments.joined(step.comments) if step is not None else comments
            values = [step.value if step is not None else cst.Name(target) for step in row]
            columns = _columns(values)
            for value in itertools.chain.from_iterable(columns):
                refuse_unless_tensor(value)
            kept += columns
            # A row of one value is a step before a choice.
            chosen = (
                values[0].deep_clone()
                if len(values) == 1
                else _each_chosen(conditions, values, columns)
            )
            chosen = _in_numpy(chosen, numpy)
            small = cst.Return(chosen) if target == RETURNED else assigned(target, chosen).body[0]
            lines.append(line_of(small, comments))
        targets = list(dict.fromkeys(_target(row) for row in rows if len(row) > 1))
        choices = [values for values in kept if len(values) > 1]
        is_safe = _is_safe(
            self.names,
            self.tests,
            choices,
            alone=[values[0] for values in kept if len(values) == 1],
        )
        whole: list[cst.BaseStatement] = list(_inlined(lines) if is_named else lines)
        if self.outer is not None:
            # `if` and what is under it share the indentation of the old one.
            body = self.statement.body
            indent = body.indent if isinstance(body, cst.IndentedBlock) else None
            whole = [cst.If(self.outer.deep_clone(), cst.IndentedBlock(lines, indent=indent))]
        changes = lines_for(self.place.source, self.statement, whole, also=self.rest)
        return self.place.edit(_title(targets, numpy or "torch"), *changes, is_safe=is_safe)

    def _rows(self) -> list[list[Step | None]]:
        """The steps by line: one step of each branch to choose from, or a single step that can come
        before a choice.

        A branch's steps see what its earlier steps did: a name that was chosen has that branch's
        value whenever the branch is the one that is taken.
        """
        columns = [self._sections(branch) for branch in self.branches]
        chosen = [
            [target for _, step in column if step and (target := step.target)] for column in columns
        ]
        longest = max(chosen, key=len)
        decline_if(not longest, "no branch assigns a name that is used later")
        if any(targets not in ([], longest) for targets in chosen):
            names = dict.fromkeys(itertools.chain.from_iterable(chosen))
            in_some = [
                f"`{name}`"
                for name in names
                if name != RETURNED and any(name not in one for one in chosen)
            ]
            before = " before they return" if RETURNED in names else ""
            decline_if(bool(in_some), f"only some branches assign {listed(in_some)}{before}")
            raise DeclinedError("the branches assign names in a different order")
        rows: list[list[Step | None]] = []
        seen: set[str] = set()
        for sections in zip_longest(*columns, fillvalue=((), None)):
            rows.extend([step] for before, _ in sections for step in before)
            row: list[Step | None] = [step for _, step in sections]
            if any(row):
                if None in row and _target(row) not in seen:
                    target = _target(row)
                    is_read = target in name_set(*(step.value for step in row if step))
                    is_bound = is_read or self.names.is_bound_before(target, self.statement)
                    decline_if(not is_bound, f"`{target}` has no value if the branch isn't taken")
                seen.add(_target(row))
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
    ) -> tuple[list[cst.SimpleStatementLine], _Values]:
        tensors = [
            without_parentheses(as_boolean_tensor(test, self.place.source)) for test in self.tests
        ]
        is_repeated = any(_is_repeated([step.value for step in row if step]) for row in rows)
        if len(rows) == 1 and not is_repeated:
            return [], tensors
        lines: list[cst.SimpleStatementLine] = []
        targets = {_target(row) for row in rows}
        for at, tensor in enumerate(tensors):
            if not isinstance(tensor, cst.Name) or tensor.value in targets:
                tensors[at] = cst.Name(self.names.fresh("condition"))
                lines.append(assigned(tensors[at], tensor))
        return lines, tensors


def _inlined(lines: Sequence[cst.SimpleStatementLine]) -> Sequence[cst.SimpleStatementLine]:
    """Two lines as one, if the first names a condition that the second uses once."""
    match lines:
        case [
            cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=name)], value=test)]
            ),
            line,
        ]:
            uses = [found for found in names_in(line) if found.deep_equals(name)]
            # In a comprehension it would be computed for each row.
            if len(uses) == 1 and not matchers.findall(line, matchers.ListComp()):
                return [need(line.deep_replace(uses[0], test), cst.SimpleStatementLine, "")]
    return lines


def _numpy_of(tests: _Values, source: SourceFile) -> str | None:
    """The file's name for NumPy if that made the conditions: outside of torch.compile these are its
    arrays.
    """
    calls = [
        call
        for test in tests
        for call in calls_in(test)
        if source.dotted_name(call).startswith("numpy.")
    ]
    name = dotted(calls[0].func) if calls else None
    return None if name is None else name.rpartition(".")[0] or None


def _in_numpy(chosen: cst.BaseExpression, numpy: str | None) -> cst.BaseExpression:
    """What is chosen, by ``np.where`` if it's NumPy's."""
    if numpy is None:
        return chosen
    where = cst.Attribute(cst.parse_expression(numpy), cst.Name("where"))
    written = matchers.replace(
        chosen, matchers.Attribute(matchers.Name("torch"), matchers.Name("where")), where
    )
    assert isinstance(written, cst.BaseExpression)  # one attribute took another's place
    return written


def _columns(values: _Values) -> list[_Values]:
    """The values to choose from: of several at once, such as ``return a, b``, those at each place
    that differ.
    """
    if len(values) == 1:
        return [values]
    if (rows := _rows_of(values)) is not None:
        return [rows]
    parts = [_parts(value) for value in values]
    if any(keys is None or keys != parts[0][0] for keys, _ in parts):
        return [values]
    columns = list(zip(*(found for _, found in parts), strict=True))
    return [column for column in columns if not _is_same(column)]


def _rows_of(values: _Values) -> _Values | None:
    """What is chosen for each ``row`` of ``[f(row) for row in rows]`` or of ``rows`` itself; None
    if it's no such.
    """
    made = [value for value in values if isinstance(value, cst.ListComp)]
    if not made or any(
        one.for_in.ifs or one.for_in.inner_for_in or one.for_in.asynchronous for one in made
    ):
        return None
    rows, row = made[0].for_in.iter, made[0].for_in.target
    if not isinstance(row, cst.Name) or any(
        not one.for_in.deep_equals(made[0].for_in) for one in made
    ):
        return None
    found = [
        value.elt if isinstance(value, cst.ListComp) else row
        for value in values
        if value in made or value.deep_equals(rows)
    ]
    return found if len(found) == len(values) else None


def _parts(value: cst.BaseExpression) -> tuple[tuple[str, ...] | None, _Values]:
    """What tells displays apart whose parts can be chosen one by one, None for anything else; and
    the parts.
    """
    match value:
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            found = [element.value for element in elements if isinstance(element, cst.Element)]
            return (
                (type(value).__name__, str(len(found))) if len(found) == len(elements) else None
            ), found
        case cst.Dict(elements=elements):
            pairs = [element for element in elements if isinstance(element, cst.DictElement)]
            keys = [pair.key.value for pair in pairs if isinstance(pair.key, cst.SimpleString)]
            return (("Dict", *keys) if len(keys) == len(elements) else None), [
                pair.value for pair in pairs
            ]
    return None, []


def _is_same(values: _Values) -> bool:
    return all(value.deep_equals(values[0]) for value in values[1:])


def _is_repeated(values: _Values) -> bool:
    """Whether the condition stands more than once in what is chosen."""
    is_guarded = (
        not guarded(value, cst.Name("condition"), is_if=True).deep_equals(value) for value in values
    )
    is_each = _rows_of(values) is not None or (len(values) > 1 and len(_columns(values)) > 1)
    return any(is_guarded) or is_each


def _each_chosen(
    conditions: _Values, values: _Values, columns: Sequence[_Values]
) -> cst.BaseExpression:
    """What is chosen, with the values that differ chosen one by one if they are in displays."""
    if columns == [values]:
        return _chosen(conditions, values)
    if _rows_of(values) is not None:
        whole = next(value for value in values if isinstance(value, cst.ListComp))
        return whole.deep_clone().with_changes(elt=_chosen(conditions, columns[0]))
    display = values[-1].deep_clone()
    assert isinstance(display, cst.Tuple | cst.List | cst.Dict)  # nothing else has columns
    columns = list(zip(*(_parts(value)[1] for value in values), strict=True))
    chosen = [
        column[0].deep_clone() if _is_same(column) else _chosen(conditions, column)
        for column in columns
    ]
    elements = [
        part.with_changes(value=value) for part, value in zip(display.elements, chosen, strict=True)
    ]
    return display.with_changes(elements=elements)


def _chosen(conditions: _Values, values: _Values) -> cst.BaseExpression:
    """The value of the first condition that is true, or the last one."""
    safe = [
        guarded(value, condition, is_if=True)
        for condition, value in zip(conditions, values, strict=False)
    ]
    last = guarded(values[-1], conditions[-1], is_if=False)
    match values[0], safe:
        case cst.BinaryOperation(right=before), [
            cst.BinaryOperation(operator=cst.Divide()) as divided
        ]:
            # Divided by 1, it is what it was.
            if divided.left.deep_equals(last) and not divided.right.deep_equals(before):
                return divided.deep_clone()
    chosen = last
    for condition, value in reversed(list(zip(conditions, safe, strict=False))):
        chosen = where(condition, value, chosen)
    return chosen


def _target(row: Sequence[Step | None]) -> str:
    return next(step.target for step in row if step is not None)


def _lines_behind(source: SourceFile, statement: cst.If) -> Sequence[cst.BaseStatement]:
    block = source.parent(statement)
    lines = lines_of(block) if isinstance(block, cst.IndentedBlock) else []
    start = lines.index(statement) + 1 if lines else 0
    ends = (at for at, line in enumerate(lines) if at >= start and _ends_with_return(line))
    stop = known(next(ends, None), "one branch returns and another doesn't")
    return lines[start : stop + 1]


def _ends_with_return(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[-1], cst.Return)


def _title(targets: Sequence[str], module: str) -> str:
    if targets == [RETURNED]:
        return f"Choose what is returned with `{module}.where`"
    names = ", ".join("the result" if target == RETURNED else f"`{target}`" for target in targets)
    return f"Choose {names} with `{module}.where`"


def _is_safe(names: Names, tests: _Values, rows: Sequence[_Values], *, alone: _Values) -> bool:
    values = [value for row in rows for value in row] + list(alone)
    return (
        all(is_one_number(test, names.source) and not tests_for_finite(test) for test in tests)
        and is_evaluated_alike(tests)
        and not names.is_changing_tensors
        and all(is_harmless(value, names.source) for value in values)
        # Broadcasting over the same tensors gives the same shape; a lone number would get a shape
        # that it didn't have.
        and all(len({operands(value) for value in row}) == 1 and operands(row[0]) for row in rows)
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
        if names.is_declared(name) or not names.is_bound_before(name, choice):
            raise DeclinedError(f"`{name}` may have no value if the branch isn't taken")
    for value in values:
        refuse_unless_tensor(value)
    condition = without_parentheses(as_boolean_tensor(choice.test, place.source))
    condition, before = names.named(condition)
    pairs = zip(targets, values, strict=True)
    chosen = [_chosen([condition], [value, cst.Name(name)]) for name, value in pairs]
    small = assigned(joined([cst.Name(name) for name in targets]), joined(chosen)).body
    lines = [
        *before,
        line.with_changes(body=small, leading_lines=() if before else line.leading_lines),
    ]
    lines[0] = after_lines(lines[0], choice.leading_lines)
    refuse_lost_comments([choice], lines)
    return place.edit(
        f"Choose {' and '.join(f'`{name}`' for name in targets)} with `torch.where`",
        (choice, lines),
    )


def _set_at_once(choice: cst.If) -> tuple[cst.SimpleStatementLine, list[str], _Values]:
    match lines_of(choice.body):
        case [
            cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Tuple(elements=targets))],
                        value=cst.Tuple(elements=values),
                    )
                ]
            ) as line
        ]:
            plain = [target.value for target in targets if isinstance(target, cst.Element)]
            names = [target.value for target in plain if isinstance(target, cst.Name)]
            parts = [part.value for part in values if isinstance(part, cst.Element)]
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
    statement = need(place.tested, cst.If, "no `return` depends on the condition")
    decline_if(statement.orelse is not None, "the `if` has another branch")
    steps = branch_of(statement.body).steps
    decline_if(len(steps) != 1 or steps[0].target != RETURNED, "the branch does more than return")
    refuse_unless_tensor(steps[0].value)
    rest = _rest(source, statement, function)
    for line in rest:
        _refuse_effects(source, line)
    names = Names(source, function)
    is_early, value = cst.Name(names.fresh("is_early")), cst.Name(names.fresh("early_value"))
    early = assigned(
        value, without_parentheses(guarded(steps[0].value, is_early, is_if=True))
    ).body[0]
    test = without_parentheses(as_boolean_tensor(statement.test, source))
    lines = [
        after_lines(assigned(is_early, test), statement.leading_lines),
        line_of(early, steps[0].comments),
    ]
    changes: list[Change] = []
    for found in _returns(rest):
        late = known(found.value, "a later `return` returns nothing")
        refuse_unless_tensor(late)
        safe = guarded(late, is_early, is_if=False)
        changes.append((late, where(is_early, value, safe)))
    refuse_lost_comments([statement], lines)
    title = "Compute the rest in any case, and choose what is returned with `torch.where`"
    return place.edit(title, (statement, lines), *changes)


def _rest(
    source: SourceFile, statement: cst.If, function: cst.FunctionDef
) -> Sequence[cst.CSTNode]:
    body = function.body.body
    decline_if(
        source.parent(statement) is not function.body, "the early `return` is inside another block"
    )
    rest = body[body.index(statement) + 1 :]
    decline_if(
        not rest or not _ends_with_return(rest[-1]), "the function doesn't end with a `return`"
    )
    return rest


def _returns(nodes: Sequence[cst.CSTNode]) -> Iterator[cst.Return]:
    for node in nodes:
        if isinstance(node, cst.Return):
            yield node
        elif not isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            yield from _returns(node.children)


def _refuse_effects(source: SourceFile, line: cst.CSTNode) -> None:
    if is_report(source, line):
        return
    for node in walk(line):
        match node:
            case cst.Raise() | cst.Assert():
                raise DeclinedError("the rest of the function may raise")
            case cst.Yield() | cst.Await() | cst.Global() | cst.Nonlocal():
                raise DeclinedError("the rest of the function does more than compute")
            case (
                cst.AssignTarget(target=cst.Attribute() | cst.Subscript())
                | cst.AugAssign(target=cst.Attribute() | cst.Subscript())
            ):
                raise DeclinedError("the rest of the function stores into an object")
            case cst.Call() if is_in_place(node):
                raise DeclinedError("the rest of the function changes a tensor in place")
            case cst.Expr(value=cst.Call()) if not is_report(source, node):
                raise DeclinedError("the rest of the function calls something for its side effect")
    decline_if(
        any("." in path for path in touched(line, "self").changed),
        "the rest of the function changes an object",
    )
