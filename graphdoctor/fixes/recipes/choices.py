"""A branch on a tensor's value that chooses between values: compute both ways and choose with ``torch.where``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import libcst as cst

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.branches import (
    RETURNED,
    Branch,
    Comments,
    Step,
    branch_of_body,
    branch_of_lines,
    line_of,
    put_for,
    refuse_lost_comments,
)
from graphdoctor.fixes.source.effects import is_report, skipped_while_compiling, touched
from graphdoctor.fixes.source.expressions import (
    as_boolean_tensor,
    is_evaluated_alike,
    is_harmless,
    is_one_number,
    operands,
    refuse_unless_tensor,
    tests_for_finite,
    torch_call,
    without_none,
    without_parentheses,
)
from graphdoctor.fixes.source.names import Names, is_in_place, names_in
from graphdoctor.fixes.source.place import Place, only_branch, tested_at
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, walk

_WITHOUT_WORDS = (cst.Assign, cst.AugAssign, cst.AnnAssign, cst.Arg, cst.Attribute, cst.BinaryOperation, cst.Subscript)
"""Nodes that never put a keyword directly before an expression."""


@recipe("GD102")
def branch_where(place: Place) -> Edit:
    """``if c: x = f(x)`` becomes ``x = torch.where(c, f(x), x)``.

    Also ``if`` with ``elif`` and ``else``, ``return`` in every branch, and ``a if c else b``. What a condition says
    about Python objects first, such as ``mask is not None``, stays an ``if``; what a branch reports is skipped while
    compiling. Safe if one number
    decides and both branches compute every element from the same floating-point tensors with operations that are
    defined for every number and have finite gradients. Otherwise unsafe: both branches are computed, so the one that
    isn't taken may fail, have a side effect or another shape, or put NaN into gradients.
    """
    choice = tested_at(place)
    function = place.source.function_of(choice)
    if function is None:
        raise DeclinedError("the branch isn't in a function")
    names = Names(place.source, function)
    if isinstance(choice, cst.IfExp):
        return _choose_expression(place.source, choice, names)
    if isinstance(choice, cst.If):
        return _Choice.of(place.source, choice, names).edit()
    raise DeclinedError("an assertion doesn't choose between values")


def _choose_expression(source: SourceFile, choice: cst.IfExp, names: Names) -> Edit:
    """``a if c else b`` inside any expression."""
    for value in (choice.body, choice.orelse):
        refuse_unless_tensor(value)
    first, test = without_none(choice.test)
    condition = as_boolean_tensor(test, names)
    sides = [without_parentheses(value.deep_clone()) for value in (choice.body, choice.orelse)]
    call: cst.BaseExpression = torch_call("where", [without_parentheses(condition), *sides])
    if first is not None:
        call = choice.deep_clone().with_changes(body=call, test=first)
    refuse_lost_comments([choice], [call])
    # `return(a)if c else b`: a name needs a space where a parenthesis doesn't.
    if source.code(choice).startswith("(") and not isinstance(next(source.parents(choice)), _WITHOUT_WORDS):
        call = call.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    values = [[choice.body, choice.orelse]]
    return Edit(
        title="Choose with `torch.where` in place of `… if … else …`",
        content=source.replaced((choice, call), imports=("torch",)),
        is_safe=_is_safe(source, names, [test], values, alone=()),
    )


@dataclass(frozen=True)
class _Choice:
    """An ``if`` with all its branches."""

    source: SourceFile
    statement: cst.If
    names: Names
    tests: tuple[cst.BaseExpression, ...]
    branches: tuple[Branch, ...]
    rest: tuple[cst.BaseStatement, ...]
    outer: cst.BaseExpression | None = None
    reports: tuple[cst.SimpleStatementLine, ...] = ()

    @classmethod
    def of(cls, source: SourceFile, statement: cst.If, names: Names) -> _Choice:
        if statement.orelse is None:
            outer, test = without_none(statement.test)
            body, reports = _without_reports(source, statement.body)
            if outer is not None or reports:
                branches = (branch_of_body(body), Branch((), ()))
                return cls(source, statement, names, (test,), branches, (), outer, reports)
        return cls._of_all(source, statement, names)

    @classmethod
    def _of_all(cls, source: SourceFile, statement: cst.If, names: Names) -> _Choice:
        tests: list[cst.BaseExpression] = []
        branches: list[Branch] = []
        comments: tuple[str, ...] = ()
        node: cst.If | cst.Else | None = statement
        while isinstance(node, cst.If):
            tests.append(node.test)
            branches.append(_commented(branch_of_body(node.body), comments))
            node = node.orelse
            comments = tuple(line.comment.value for line in node.leading_lines if line.comment) if node else ()
        rest: tuple[cst.BaseStatement, ...] = ()
        if node is not None:
            branches.append(_commented(branch_of_body(node.body), comments))
        elif all(branch.is_returning for branch in branches):
            rest = _lines_behind(source, statement)
            branches.append(branch_of_lines(rest))
        else:
            branches.append(Branch((), ()))
        return cls(source, statement, names, tuple(tests), tuple(branches), rest)

    def edit(self) -> Edit:
        """The edit that replaces it."""
        decline_if(len({branch.is_returning for branch in self.branches}) > 1, "one branch returns and another doesn't")
        rows = self._rows()
        lines, conditions = self._conditions(rows)
        kept: list[list[cst.BaseExpression]] = []
        for row in rows:
            target = _target(row)
            decline_if(self.names.is_declared(target), f"`{target}` isn't a local name")
            comments = Comments()
            for step in row:
                comments = comments.joined(step.comments) if step is not None else comments
            values = [step.value if step is not None else cst.Name(target) for step in row]
            for value in values:
                refuse_unless_tensor(value)
            kept.append(values)
            if len(row) > 1:
                small = _given(target, _nested(conditions, values))
            else:
                small = _given(target, values[0].deep_clone())
            lines.append(line_of(small, comments))
        gone: list[Change] = [(line, cst.FlattenSentinel(())) for line in self.rest]
        targets = list(dict.fromkeys(_target(row) for row in rows if len(row) > 1))
        return Edit(
            title=_title(targets) + (", and skip the report while compiling" if self.reports else ""),
            content=put_for(self.source, self.statement, self._with_outer(lines), and_also=gone),
            drops_output=bool(self.reports),
            is_safe=_is_safe(
                self.source,
                self.names,
                self.tests,
                [values for values in kept if len(values) > 1],
                alone=[values[0] for values in kept if len(values) == 1],
            ),
        )

    def _with_outer(self, lines: Sequence[cst.SimpleStatementLine]) -> Sequence[cst.SimpleStatementLine | cst.If]:
        """The lines below what is reported, and under the condition on Python objects."""
        whole: list[cst.SimpleStatementLine | cst.If] = list(lines)
        if self.reports:
            whole.insert(0, skipped_while_compiling(self.tests[0], self.reports))
        if self.outer is None:
            return whole
        # `if` and what is under it share the indentation of the old one.
        indent = self.statement.body.indent if isinstance(self.statement.body, cst.IndentedBlock) else None
        return [cst.If(self.outer, cst.IndentedBlock(whole, indent=indent))]

    def _rows(self) -> list[list[Step | None]]:
        """The steps by line: one step of each branch to choose from, or a single step that can come before a choice.

        A branch's steps see what its earlier steps did: a name that was chosen has that branch's value whenever the
        branch is the one that is taken.
        """
        columns = [self._sections(branch) for branch in self.branches]
        chosen = [[target for _, step in column if step and (target := step.target)] for column in columns]
        longest = max(chosen, key=len)
        decline_if(not longest, "no branch assigns a name that is used later")
        if any(targets not in ([], longest) for targets in chosen):
            raise DeclinedError("the branches assign different names, or in a different order")
        rows: list[list[Step | None]] = []
        seen: set[str] = set()
        for sections in zip_longest(*columns, fillvalue=((), None)):
            rows.extend([step] for before, _ in sections for step in before)
            row: list[Step | None] = [step for _, step in sections]
            if not any(row):
                continue
            target = _target(row)
            if None in row and target not in seen:
                self._refuse_unbound(target, row)
            seen.add(target)
            rows.append(row)
        return rows

    def _sections(self, branch: Branch) -> list[tuple[tuple[Step, ...], Step | None]]:
        """Each step whose name is used later, with the steps before it whose names aren't; those at the end alone."""
        sections: list[tuple[tuple[Step, ...], Step | None]] = []
        before: list[Step] = []
        for step in branch.steps:
            if step.target != RETURNED and self.names.is_only_in(step.target, branch.nodes):
                before.append(step)
            else:
                sections.append((tuple(before), step))
                before = []
        if before:
            sections.append((tuple(before), None))
        return sections

    def _refuse_unbound(self, target: str, row: Sequence[Step | None]) -> None:
        is_reading = any(found.value == target for step in row if step for found in names_in(step.value))
        if not is_reading and not self.names.is_bound_before(target, self.statement):
            raise DeclinedError(f"`{target}` has no value if the branch isn't taken")

    def _conditions(
        self, rows: Sequence[Sequence[Step | None]]
    ) -> tuple[list[cst.SimpleStatementLine], list[cst.BaseExpression]]:
        """The conditions as tensors, assigned to new names if more than one line needs them."""
        tensors = [as_boolean_tensor(test, self.names) for test in self.tests]
        if len(rows) == 1:
            return [], [without_parentheses(tensor) for tensor in tensors]
        lines: list[cst.SimpleStatementLine] = []
        conditions: list[cst.BaseExpression] = []
        for tensor in tensors:
            if isinstance(tensor, cst.Name) and all(_target(row) != tensor.value for row in rows):
                conditions.append(tensor)
                continue
            name = self.names.fresh("condition")
            lines.append(line_of(_given(name, tensor), Comments()))
            conditions.append(cst.Name(name))
        return lines, conditions


def _without_reports(
    source: SourceFile, body: cst.BaseSuite
) -> tuple[cst.BaseSuite, tuple[cst.SimpleStatementLine, ...]]:
    """A body without the lines that print, log or warn, and these."""
    if not isinstance(body, cst.IndentedBlock):
        return body, ()
    reports = [line for line in body.body if isinstance(line, cst.SimpleStatementLine) and is_report(source, line)]
    rest = [line for line in body.body if not is_report(source, line)]
    if not reports:
        return body, ()
    decline_if(not rest, "a branch only reports, which is a side effect")
    after = body.body[body.body.index(rest[0]) :]
    late = [line for line in after if is_report(source, line)]
    assigned = {name.value for line in rest for name in names_in(line)}
    if any(name.value in assigned for line in late for name in names_in(line)):
        raise DeclinedError("a branch reports what it assigned before")
    return body.with_changes(body=rest), tuple(reports)


def _target(row: Sequence[Step | None]) -> str:
    return next(step.target for step in row if step is not None)


def _commented(branch: Branch, above: tuple[str, ...]) -> Branch:
    """A branch with the comments above its ``elif`` or ``else``."""
    if not above or not branch.steps:
        return branch
    first = branch.steps[0]
    moved = Step(first.target, first.value, Comments(above).joined(first.comments))
    return Branch((moved, *branch.steps[1:]), branch.nodes)


def _lines_behind(source: SourceFile, statement: cst.If) -> tuple[cst.BaseStatement, ...]:
    """The rest of the block after an ``if``, up to its ``return``."""
    block = next(source.parents(statement))
    if not isinstance(block, cst.IndentedBlock):
        raise DeclinedError("one branch returns and another doesn't")
    at = next(number for number, line in enumerate(block.body) if line is statement)
    rest: list[cst.BaseStatement] = []
    for line in block.body[at + 1 :]:
        rest.append(line)
        if isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[-1], cst.Return):
            return tuple(rest)
    raise DeclinedError("one branch returns and another doesn't")


def _nested(conditions: Sequence[cst.BaseExpression], values: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    chosen = without_parentheses(values[-1].deep_clone())
    for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        chosen = torch_call("where", [condition.deep_clone(), without_parentheses(value.deep_clone()), chosen])
    return chosen


def _given(target: str, value: cst.BaseExpression) -> cst.BaseSmallStatement:
    if target == RETURNED:
        return cst.Return(value)
    return cst.Assign([cst.AssignTarget(cst.Name(target))], value)


def _title(targets: Sequence[str]) -> str:
    if targets == [RETURNED]:
        return "Choose what is returned with `torch.where`"
    names = ", ".join("the result" if target == RETURNED else f"`{target}`" for target in targets)
    return f"Choose {names} with `torch.where`"


def _is_safe(
    source: SourceFile,
    names: Names,
    tests: Sequence[cst.BaseExpression],
    rows: Sequence[Sequence[cst.BaseExpression]],
    *,
    alone: Sequence[cst.BaseExpression],
) -> bool:
    values = [value for row in rows for value in row] + list(alone)
    return (
        all(is_one_number(test, names) and not tests_for_finite(test) for test in tests)
        and is_evaluated_alike(tests)
        and not names.is_changing_tensors
        and all(is_harmless(value, source) for value in values)
        # Broadcasting over the same tensors gives the same shape; a lone number would get a shape that it didn't have.
        and all(len({operands(value) for value in row}) == 1 and operands(row[0]) for row in rows)
    )


@recipe("GD102")
def tuple_where(place: Place) -> Edit:
    """``if low > high: low, high = high, low`` becomes ``low, high = torch.where(…), torch.where(…)``.

    Python computes all values before it sets the first name, and so do the calls. Unsafe: both ways are computed, so
    the one that isn't taken may fail or put NaN into gradients.
    """
    source, (choice, function) = place.source, only_branch(place)
    names = Names(source, function)
    line, targets, values = _set_at_once(choice)
    for name in targets:
        if names.is_declared(name) or not names.is_bound_before(name, choice):
            raise DeclinedError(f"`{name}` may have no value if the branch isn't taken")
    for value in values:
        refuse_unless_tensor(value)
    condition = without_parentheses(as_boolean_tensor(choice.test, names))
    before: list[cst.SimpleStatementLine] = []
    if not isinstance(condition, cst.Name):
        name = names.fresh("condition")
        before = [cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], condition)])]
        condition = cst.Name(name)
    chosen = [
        cst.Element(
            torch_call("where", [condition.deep_clone(), without_parentheses(value.deep_clone()), cst.Name(name)])
        )
        for name, value in zip(targets, values, strict=True)
    ]
    small = cst.Assign(
        [cst.AssignTarget(cst.Tuple([cst.Element(cst.Name(name)) for name in targets], lpar=[], rpar=[]))],
        cst.Tuple(chosen, lpar=[], rpar=[]),
    )
    lines = [*before, line.with_changes(body=[small])]
    above = [*choice.leading_lines, *line.leading_lines] if not before else list(choice.leading_lines)
    lines[0] = lines[0].with_changes(leading_lines=[empty.deep_clone() for empty in above])
    refuse_lost_comments([choice], lines)
    joined = " and ".join(f"`{name}`" for name in targets)
    return Edit(
        title=f"Choose {joined} with `torch.where`",
        content=source.replaced((choice, cst.FlattenSentinel(lines)), imports=("torch",)),
        is_safe=False,
    )


def _set_at_once(choice: cst.If) -> tuple[cst.SimpleStatementLine, list[str], list[cst.BaseExpression]]:
    """The only line of the branch, the names that it sets, and their values."""
    body = choice.body.body
    line = body[0] if len(body) == 1 else None
    if isinstance(line, cst.BaseSmallStatement):
        line = cst.SimpleStatementLine([line.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        match line.body[0]:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Tuple(elements=targets))], value=cst.Tuple(elements=values)
            ) if len(targets) == len(values):
                plain = [part.value for part in targets if isinstance(part, cst.Element)]
                names = [target.value for target in plain if isinstance(target, cst.Name)]
                parts = [part.value for part in values if isinstance(part, cst.Element)]
                if len(set(names)) == len(parts) == len(targets):
                    return line, names, parts
    raise DeclinedError("the branch does more than set several names at once")


@recipe("GD102")
def choose_at_return(place: Place) -> Edit:
    """``if sure: return early`` and later ``return late`` become ``return torch.where(sure, early, late)``.

    For more lines between the two than ``branch-where`` takes. Unsafe: the rest is always computed, which the early
    ``return`` was there to save, and what it prints is always printed.
    """
    source, statement = place.source, tested_at(place)
    function = source.function_of(statement)
    if not isinstance(statement, cst.If) or not isinstance(function, cst.FunctionDef):
        raise DeclinedError("no `return` depends on the condition")
    early = _early(statement)
    rest = _rest(source, statement, function)
    for line in rest:
        _refuse_effects(source, line)
    returns = list(_returns(rest))
    names = Names(source, function)
    is_early, value = names.fresh("is_early"), names.fresh("early_value")
    lines = [
        line_of(_assigned(is_early, as_boolean_tensor(statement.test, names)), Comments()),
        line_of(_assigned(value, early.value), early.comments),
    ]
    changes: list[Change] = []
    for found in returns:
        late = found.value
        if late is None:
            raise DeclinedError("a later `return` returns nothing")
        refuse_unless_tensor(late)
        chosen = torch_call("where", [cst.Name(is_early), cst.Name(value), without_parentheses(late.deep_clone())])
        changes.append((late, chosen))
    first = lines[0].with_changes(leading_lines=[line.deep_clone() for line in statement.leading_lines])
    refuse_lost_comments([statement], [first, lines[1]])
    content = source.replaced((statement, cst.FlattenSentinel([first, lines[1]])), *changes, imports=("torch",))
    return Edit(
        title="Compute the rest in any case, and choose what is returned with `torch.where`",
        content=content,
        is_safe=False,
    )


def _early(statement: cst.If) -> Step:
    if statement.orelse is not None:
        raise DeclinedError("the `if` has another branch")
    branch = branch_of_body(statement.body)
    decline_if(len(branch.steps) != 1 or not branch.is_returning, "the branch does more than return")
    refuse_unless_tensor(branch.steps[0].value)
    return branch.steps[0]


def _rest(source: SourceFile, statement: cst.If, function: cst.FunctionDef) -> Sequence[cst.BaseStatement]:
    """The lines of the function after the ``if``, the last one a ``return``."""
    if next(source.parents(statement)) is not function.body or not isinstance(function.body, cst.IndentedBlock):
        raise DeclinedError("the early `return` is inside another block")
    at = next(number for number, line in enumerate(function.body.body) if line is statement)
    rest = function.body.body[at + 1 :]
    last = rest[-1] if rest else None
    if not isinstance(last, cst.SimpleStatementLine) or not isinstance(last.body[-1], cst.Return):
        raise DeclinedError("the function doesn't end with a `return`")
    return rest


def _returns(nodes: Sequence[cst.CSTNode]) -> Iterator[cst.Return]:
    """The ``return`` statements in some lines, without those of inner functions."""
    for node in nodes:
        if isinstance(node, cst.Return):
            yield node
        elif not isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            yield from _returns(node.children)


def _refuse_effects(source: SourceFile, line: cst.CSTNode) -> None:
    """Decline if a line that would now always run does more than compute and report."""
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
    decline_if(any("." in path for path in touched(line, "self").changed), "the rest of the function changes an object")


def _assigned(name: str, value: cst.BaseExpression) -> cst.Assign:
    return cst.Assign([cst.AssignTarget(cst.Name(name))], without_parentheses(value))
