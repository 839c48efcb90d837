"""A branch that sets several names at once, such as a swap: choose each with ``torch.where``."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.branches import refuse_lost_comments
from graphdoctor.fixes.syntax.conditions import as_boolean_tensor, torch_call, without_parentheses
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import Names
from graphdoctor.fixes.syntax.operations import refuse_unless_tensor
from graphdoctor.fixes.syntax.place import Place, tested_at


class TupleWhere(Recipe):
    """``if low > high: low, high = high, low`` becomes ``low, high = torch.where(…), torch.where(…)``.

    Python computes all values before it sets the first name, and so do the calls. Unsafe: both ways are computed, so
    the one that isn't taken may fail or put NaN into gradients.
    """

    name: ClassVar = "tuple-where"
    codes: ClassVar = frozenset({"GD102"})

    def edit(self, place: Place) -> Edit:
        """Each name with the value of the way that is taken.

        Raises:
            DeclinedError: The branch does anything else.
        """
        source, choice = place.source, tested_at(place)
        if not isinstance(choice, cst.If) or choice.orelse is not None:
            raise DeclinedError("it isn't an `if` with a single branch")
        if isinstance(next(source.parents(choice)), cst.If):
            raise DeclinedError("it isn't an `if` with a single branch")
        function = source.function_of(choice)
        if function is None:
            raise DeclinedError("the branch isn't in a function")
        names = Names(source, function)
        line, targets, values = _assigned(choice)
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


def _assigned(choice: cst.If) -> tuple[cst.SimpleStatementLine, list[str], list[cst.BaseExpression]]:
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
