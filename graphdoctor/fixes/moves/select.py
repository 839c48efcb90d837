"""Chooses with ``torch.where`` what a branch on a tensor's value chose: every way is computed, and
a name, an attribute, an item, a tensor changed in place or a result takes the value of the way that
would have been taken.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from libcst import (
    AnnAssign,
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseStatement,
    BinaryOperation,
    BooleanOperation,
    Break,
    Continue,
    CSTNode,
    For,
    FunctionDef,
    If,
    IfExp,
    IndentedBlock,
    ListComp,
    Name,
    Or,
    SimpleStatementLine,
    Subscript,
    UnaryOperation,
)

from graphdoctor.fixes.moves.choosing import (
    Values,
    choose,
    choose_each,
    columns_of,
    in_numpy,
    needed,
    numpy_of,
    refuse_parts,
    rows_of,
)
from graphdoctor.fixes.moves.leaving import choose_at_return
from graphdoctor.fixes.moves.nested import Nested
from graphdoctor.fixes.moves.steps import (
    RETURNED,
    UNPACKED,
    Body,
    Branch,
    Row,
    Step,
    branch_of,
    ends_with_return,
    gives,
    last_of,
    leaves,
    lines_in,
)
from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import (
    as_boolean_tensor,
    condition_of,
    guarded,
    is_evaluated_alike,
    is_harmless,
    is_literal_number,
    is_of_python,
    is_one_number,
    operands,
    refuse_effects,
    refuse_sizes,
    tests_for_finite,
    without_python,
)
from graphdoctor.fixes.source.nodes import (
    Comments,
    Names,
    assigned,
    bracketed,
    called,
    calls_in,
    comments_in,
    is_elif,
    line_of,
    lines_for,
    lines_of,
    method_call,
    name_set,
    refuse_lost_comments,
    set_names,
)
from graphdoctor.fixes.source.torch_names import REDUCED, draws_random, words
from graphdoctor.fixes.source.tree import SourceFile, decline_if, dotted, find, names_in, need
from graphdoctor.wording import listed

_WITHOUT_WORDS = (Assign, AugAssign, AnnAssign, Arg, Attribute, BinaryOperation, Subscript)
"""Nodes that never put a keyword directly before an expression."""


_UNUSED = "no branch assigns a name that is used later"


@recipe("GD102")
def select(place: Place) -> Edit:
    """``if c: x = f(x)`` becomes ``x = torch.where(c, f(x), x)``.

    Also ``elif``, ``else``, nested ``if``, ``return`` in every branch or an early one, ``a if c
    else b``; names, several at once, attributes, items and in-place changes, which get an amount
    that changes nothing; ``continue`` in a ``for``. What a condition asks Python
    first (``mask is not None``, ``self.training``) stays an ``if``. Safe if one number decides and
    all ways compute every element from the same floating-point tensors with operations that are
    defined for every number and have finite gradients. Otherwise unsafe: every way is computed, so
    one that isn't taken may fail, take time or have another shape.
    """
    names = Names(place.source, place.scope)
    refuse_sizes(place.tested.test)
    if isinstance(place.tested, IfExp):
        return _choose_expression(place, place.tested, names)
    statement = need(place.tested, If, "an assertion doesn't choose between values")
    if (apart := _python_apart(place, statement)) is not None:
        return select.edit(apart)
    ends = isinstance(last_of(statement.body), Break)
    decline_if(ends, "a tensor decides in which turn a loop ends")
    selection = _Selection(place, statement, names)
    return selection.edit() if selection.is_whole else choose_at_return(place, statement, names)


def _python_apart(place: Place, statement: If) -> Place | None:
    """Write ``if best is None or x < best:`` as two branches, and return the place of the one on a
    tensor; None if Python is asked nothing first.
    """
    source = place.source
    match statement:
        case If(test=BooleanOperation(operator=Or(), left=first, right=test), orelse=None) if (
            is_of_python(first, source) and not is_elif(source, statement)
        ):
            other = statement.deep_clone().with_changes(test=test.deep_clone(), leading_lines=())
            both = statement.deep_clone().with_changes(test=first.deep_clone(), orelse=other)
            changed = source.changed((statement, both))
            at = find(source.tree, If).index(statement) + 1
            again = find(changed.tree, If)
            inner = next(node for node in again[at:] if is_elif(changed, node))
            return place.moved(changed, changed.start(inner)[0])
    return None


def _choose_expression(place: Place, choice: IfExp, names: Names) -> Edit:
    source, sides = place.source, [choice.body, choice.orelse]
    refuse_parts(sides)
    for value in sides:
        refuse_effects(value, source)
    first, test = without_python(choice.test, source)
    numpy = numpy_of([test], source)
    call = in_numpy(choose([as_boolean_tensor(test, source)], sides), numpy)
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
        bodies: list[tuple[Body, tuple[str, ...]]] = []
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
        run = [line for body, _ in bodies for line in lines_in(body)]
        self._redraws = _draws([*_origins(self._tests, self._source)]) and _draws(run)
        """Whether a draw decides if more is drawn: numbers are random in any case, then."""

    def _lines_after(self, bodies: Sequence[Body]) -> Sequence[BaseStatement]:
        """Return the lines that run only if no branch leaves; they are the last branch."""
        if not any(map(gives, bodies)):
            return ()
        block = self._source.parent(self._statement)
        lines = lines_of(block) if isinstance(block, IndentedBlock) else []
        lines = lines[lines.index(self._statement) + 1 :] if lines else []
        ends = (at for at, line in enumerate(lines) if ends_with_return(line))
        stop = next(ends, None)
        return lines[: stop + 1] if stop is not None else ()

    @property
    def is_whole(self) -> bool:
        """Check whether either no branch returns, or all of them do and only set names before."""
        returning = [body for body, _ in self._bodies if gives(body)]
        if not returning or self._outer is not None:
            return not returning
        return len(returning) == len(self._bodies) and self._is_flat

    @property
    def _is_flat(self) -> bool:
        lines = [line for body, _ in self._bodies for line in lines_in(body)]
        return all(isinstance(line, SimpleStatementLine) for line in lines)

    def edit(self) -> Edit:
        hoisted = [] if self._is_flat else self._hoisted()
        if not self._is_flat or any(leaves(body) for body, _ in self._bodies):
            return self._nested()
        source = self._source
        region = [self._statement, *self._rest]
        branches = [branch_of(body, source, region, above) for body, above in self._bodies]
        decline_if(
            len({branch.is_returning for branch in branches}) > 1,
            "one branch returns and another doesn't",
        )
        rows = self._rows(branches)
        chosen_of = [row.steps for row in rows if row.owner is None]
        if any(step and step.is_unpacking for step in itertools.chain.from_iterable(chosen_of)):
            decline_if(any(branch.is_returning for branch in branches), UNPACKED)
            return self._nested()
        lines, conditions = self._conditions(rows)
        numpy = numpy_of(self._tests, source)
        kept: list[Values] = []
        for row in rows:
            comments = Comments()
            for step in row.steps:
                comments = comments.joined(step.comments) if step is not None else comments
            for name in row.first.target.split(", "):
                decline_if(self._names.is_declared(name), f"`{name}` isn't a local name")
            values = row.values
            columns = columns_of(values)
            for column in columns if row.owner is None else ():
                refuse_parts(column, is_stored=not row.first.is_name)
            for value in values:
                refuse_effects(value, source)
            kept += columns
            if row.owner is not None:
                chosen = needed(values[0], conditions, row.owner)
            else:
                chosen = choose_each(conditions, values, columns)
            lines.append(line_of(row.first.write(in_numpy(chosen, numpy)), comments))
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
        lines = list(lines_in(body))
        count = max((at + 1 for at, line in enumerate(lines) if isinstance(line, If)), default=0)
        tests = [line.test for line in lines[:count] if isinstance(line, If)]
        is_decided = all(is_of_python(test, self._source) for test in tests)
        names = set_names(*lines[:count])
        if not is_decided or not all(self._names.is_only_in(name, lines) for name in names):
            return []
        nested, condition = Nested(self._source, self._names, [self._statement]), "condition"
        hoisted = nested.lines(lines[:count], [Name(condition)])
        if nested.steps or condition in name_set(*hoisted):
            return []
        self._bodies[0] = lines[count:], above
        return hoisted

    def _refuse_first_run(self, steps: Sequence[Step]) -> None:
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
        self, lines: list[BaseStatement], steps: Sequence[Step], where: str, *, is_safe: bool
    ) -> Edit:
        """Write lines in place of the ``if``, and of the lines that are its last branch."""
        self._refuse_first_run(steps)
        targets = dict.fromkeys(name for step in steps for name in step.target.split(", "))
        shown = ["the result" if target == RETURNED else f"`{target}`" for target in targets]
        what = "what is returned" if [*targets] == [RETURNED] else listed(shown)
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

    def _rows(self, branches: Sequence[Branch]) -> list[Row]:
        """The steps by line: what several branches change is chosen in one line, unless they change
        things in another order.

        A branch's steps see what its earlier steps did: a name that was chosen has that branch's
        value whenever the branch is the one that is taken.
        """
        waiting = [list(branch.steps) for branch in branches]
        rows: list[Row] = []
        while any(waiting):
            heads = {at: steps[0] for at, steps in enumerate(waiting) if steps}
            own = [at for at in heads if self._is_own(heads[at], at, branches)]
            if own:
                rows.append(Row((waiting[own[0]].pop(0),), own[0]))
                continue
            targets = [head.target for head in heads.values()]
            blocked = {
                step.target
                for steps in waiting
                for step in steps[1:]
                if step.target != steps[0].target
            }
            free = [target for target in targets if target not in blocked]
            target = next(iter(free or [target for target in targets if target != RETURNED]))
            turn = [at for at, head in heads.items() if head.target == target]
            turn = turn if free else turn[:1]
            steps = (waiting[at].pop(0) if at in turn else None for at in range(len(waiting)))
            rows.append(Row(tuple(steps)))
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

    def _is_own(self, step: Step, at: int, branches: Sequence[Branch]) -> bool:
        """Check whether only its own branch needs what a step sets."""
        branch, names = branches[at], step.target.split(", ")
        if not step.is_name or step.target == RETURNED:
            return False
        read = set[str]().union(*(other.read for other in branches if other is not branch))
        # After a `return`, nothing else reads it.
        if read & {*names} or branch.is_returning:
            return not read & {*names}
        ask = self._names.is_only_in if self._is_live else self._is_dead_after
        return all(ask(name, branch.nodes) for name in names)

    def _is_dead_after(self, name: str, nodes: Sequence[CSTNode]) -> bool:
        return not self._names.is_read_after(name, nodes)

    def _conditions(self, rows: Sequence[Row]) -> tuple[list[BaseStatement], Values]:
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
        bodies = [lines_in(body) for body, _ in self._bodies]
        self._rest = self._rest_of_block() if any(map(leaves, bodies)) else ()
        used = [name for part in (*bodies, self._rest) for name in name_set(*part)]
        shared = {name for name in used if used.count(name) > 1}
        nested = Nested(self._source, self._names, [self._statement, *self._rest], shared)
        choice = self._statement.with_changes(test=self._tests[0], leading_lines=())
        lines = nested.lines([choice, *self._rest], ())
        decline_if(not nested.steps, _UNUSED)
        return self._put(_inlined(lines), nested.steps, "torch", is_safe=False)

    def _rest_of_block(self) -> Sequence[BaseStatement]:
        """Return the lines after the ``if`` of a turn of a loop, or of a function."""
        leaving = [last_of(body) for body, _ in self._bodies if leaves(body)]
        kind = For if isinstance(leaving[0], Continue) else FunctionDef
        block = self._source.parent(self._statement)
        is_whole = isinstance(block, IndentedBlock) and isinstance(self._source.parent(block), kind)
        is_whole = is_whole and len({type(small) for small in leaving}) == 1
        word = "continue" if kind is For else "return"
        decline_if(not is_whole, f"the `{word}` is inside another block")
        lines = lines_of(need(block, IndentedBlock))
        rest = lines[lines.index(self._statement) + 1 :]
        return rest[:-1] if rest and leaves(rest[-1:]) else rest


_SAMPLER = re.compile("(?<!up)(?<!down)(?<!re)(?<!grid_)sampl(e|ing)")
"""In the name of a program's own function that draws."""


def _draws(nodes: Sequence[CSTNode]) -> bool:
    names = [called(call) for call in calls_in(*nodes)]
    return any(draws_random(name) or _SAMPLER.search(name) for name in names)


def _origins(values: Values, source: SourceFile) -> set[BaseExpression]:
    """Return values, and all that the variables in them were set to."""
    origins, waiting = set[BaseExpression](), [*values]
    while waiting:
        origins.add(value := waiting.pop())
        bound = [part for name in names_in(value) for part in source.bound_to(name)]
        waiting += [part for part in bound if part is not None and part not in origins]
    return origins


def _is_early(line: BaseStatement) -> bool:
    """Check for another early ``return``."""
    return isinstance(line, If) and line.orelse is None and gives(line.body)


def _is_truth(test: BaseExpression) -> bool:
    """Check whether a test is the truth of a tensor of any shape: ``self.ready``."""
    inner = test.expression if isinstance(test, UnaryOperation) else test
    return isinstance(inner, Name | Attribute)


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


def _is_repeated(row: Row) -> bool:
    """Check whether the chosen values contain the condition more than once."""
    values = row.values
    is_each = rows_of(values) is not None or (len(values) > 1 and len(columns_of(values)) > 1)
    return is_each or any(
        not guarded(value, Name("condition"), is_if=True).deep_equals(value) for value in values
    )


def _is_safe(names: Names, tests: Values, rows: Sequence[Values]) -> bool:
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
