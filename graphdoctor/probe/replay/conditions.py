"""How far a call is from taking the other way at each condition of the program's own code.

Just before a line with an ``if``, ``while``, ``assert`` or conditional expression runs, the parts
of its condition are computed once more, as far as that has no effect. ``y.min() == y.max()`` is as
far from being true as the two sides are apart; a search makes inputs for which the distance is 0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from types import FrameType

import torch
from torch import Tensor

from .looking import Looker, is_pure, value_in

_PURE = re.compile(
    "abs|all|amax|amin|any|argmax|bool|count_nonzero|cpu|detach|diff|dim|exp|flatten|float|int|"
    "isfinite|isinf|isnan|item|len|log|logical_and|logical_not|logical_or|long|max|mean|min|norm|"
    "numel|prod|size|sqrt|square|std|sum|to|type_as|var"
)
"""Functions that have no effect, by name."""
_CONDITIONAL = (ast.If, ast.While, ast.IfExp, ast.Assert)
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
_STEPS = 8

Outcome = tuple[str, int, int, bool]
"""File, line and column of a condition, and what it is."""


class Conditions(Looker[ast.expr]):
    """What conditions were in the calls so far, and how far each call was from others."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[Outcome] = set()
        self.near: dict[Outcome, float] = {}
        """How far the last calls were from each outcome."""
        self.constants: dict[Outcome, list[float]] = {}
        """The numbers that a condition names."""

    def find(self, tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
        """See ``Looker``."""
        for node in ast.walk(tree):
            if isinstance(node, _CONDITIONAL) and is_pure(node.test, _PURE):
                yield node.test.lineno, node.test

    def look(self, frame: FrameType) -> None:
        """Note the conditions of the line that is about to run."""
        for test in self.sites(frame):
            try:
                far = {outcome: _distance(test, frame, outcome) for outcome in (True, False)}
            except Exception:  # noqa: BLE001 - the program raises it itself, or doesn't get there
                continue
            for outcome, distance in far.items():
                key = (frame.f_code.co_filename, test.lineno, test.col_offset, outcome)
                self.constants[key] = _numbers_in(test)
                self.near[key] = min(distance, self.near.get(key, distance))

    def settle(self, *, is_accepted: bool) -> None:
        """After calls: keep what conditions were in them, unless the program refused one."""
        if is_accepted:
            self.seen.update(outcome for outcome, distance in self.near.items() if distance == 0)

    def missing(self) -> list[Outcome]:
        """List what conditions that were reached never were."""
        keys = {key[:3] for key in self.seen}
        both = [(*key, outcome) for key in sorted(keys) for outcome in (True, False)]
        return [key for key in both if key not in self.seen]


def _numbers_in(test: ast.expr) -> list[float]:
    values = [part.value for part in ast.walk(test) if isinstance(part, ast.Constant)]
    return sorted({float(value) for value in values if isinstance(value, (int, float))})


def _distance(node: ast.expr, frame: FrameType, wanted: bool) -> float:
    """Measure how far an expression is from being true, or false."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _distance(operand, frame, not wanted)
        case ast.BoolOp(op=operator, values=parts):
            distances = [_distance(part, frame, wanted) for part in parts]
            is_all = isinstance(operator, ast.And) == wanted
            return sum(distances) if is_all else min(distances)
        case (
            ast.Call(func=ast.Name(id="bool"), args=[inner])
            | ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[])
        ):
            return _distance(inner, frame, wanted)
        case ast.Call(func=ast.Attribute(value=inner, attr="any" | "all" as name), args=[]):
            is_any, apart = name == "any", _apart(inner, frame, wanted)
        case ast.Compare():
            is_any, apart = True, _apart(node, frame, wanted)
        case _:
            return float(bool(value_in(frame, node)) != wanted)
    if not apart.numel():
        return float(wanted == is_any)
    return float(apart.min() if is_any == wanted else apart.max())


def _apart(node: ast.expr, frame: FrameType, wanted: bool) -> Tensor:
    """Measure how far the elements of a comparison, or of a value, are from what is wanted."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            one, other = (torch.as_tensor(value_in(frame, it)).double() for it in (left, right))
        case _:
            return (torch.as_tensor(value_in(frame, node)).bool() != wanted).double()
    # KeyError for what no distance is known of, such as `in`.
    opposite = _OPPOSITES[type(operator)]
    kind = type(operator) if wanted else opposite
    if kind is ast.NotEq:
        return (one == other).double()
    far = (other - one) if kind in (ast.Gt, ast.GtE) else (one - other)
    far = far.abs() if kind is ast.Eq else far.clamp(min=0)
    if kind in (ast.Lt, ast.Gt):
        far = torch.where(one == other, 1e-9, far)
    return far.nan_to_num(nan=1e30, posinf=1e30)


def searched(distance: Callable[[str], float | None], constants: list[float]) -> str | None:
    """Search a change of a tensor, as code, with which a condition is what it wasn't; None if none
    is found.

    Args:
        distance: Makes a call with a change; how far that is from the outcome, or None if the call
            doesn't get there.
        constants: The numbers that the condition names.
    """
    near = [n + d for n in constants for d in (1, -1)]
    for number in dict.fromkeys([*constants, 0.0, 1.0, *near]):
        code = f"{{}}.data.fill_({number!r})"
        if distance(code) == 0:
            return code
    known: dict[float, float] = {}
    for factor in (1.0, -1.0, 0.1, 2.0, 10.0, 1e3):
        if (far := distance(_scaled(factor))) is not None:
            known[factor] = far
    for _ in range(_STEPS):
        best, *others = sorted(known, key=known.__getitem__)[:2] or [0.0]
        if known.get(best) == 0:
            return _scaled(best)
        if not others or known[best] == known[others[0]]:
            break
        # Where the line through both is 0, or the middle where that is known.
        slope = (known[others[0]] - known[best]) / (others[0] - best)
        factor = best - known[best] / slope
        factor = (best + others[0]) / 2 if factor in known else factor
        far = None if factor in known else distance(_scaled(factor))
        if far is None:
            break
        known[factor] = far
    return None


def _scaled(factor: float) -> str:
    return f"{{}}.data.mul_({factor!r})"
