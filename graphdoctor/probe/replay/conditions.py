"""How far a call is from taking the other way at each condition of the program's own code.

Just before a line with an ``if``, ``while``, ``assert`` or conditional expression runs, the parts
of its condition are computed once more, as far as that has no effect. ``y.min() == y.max()`` is as
far from being true as the two sides are apart; a search makes inputs for which the distance is 0.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor

_PURE = frozenset(
    [
        "abs",
        "all",
        "amax",
        "amin",
        "any",
        "argmax",
        "bool",
        "count_nonzero",
        "cpu",
        "detach",
        "diff",
        "dim",
        "exp",
        "flatten",
        "float",
        "int",
        "isfinite",
        "isinf",
        "isnan",
        "item",
        "len",
        "log",
        "logical_and",
        "logical_not",
        "logical_or",
        "long",
        "max",
        "mean",
        "min",
        "norm",
        "numel",
        "prod",
        "size",
        "sqrt",
        "square",
        "std",
        "sum",
        "to",
        "type_as",
        "var",
    ]
)
_PLAIN = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp,
    ast.BinOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.operator, ast.unaryop,
    ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_STEPS = 8

Outcome = tuple[str, int, int, bool]
"""File, line and column of a condition, and what it is."""

_Distance = Callable[[FrameType, bool], float]


class _Site(NamedTuple):
    column: int
    distance: _Distance
    constants: tuple[float, ...]


@dataclass
class Conditions:
    """What conditions were in the calls so far, and how far each call was from others."""

    seen: set[Outcome] = field(default_factory=set)
    near: dict[Outcome, float] = field(default_factory=dict)
    """How far the last calls were from each outcome."""
    constants: dict[Outcome, tuple[float, ...]] = field(default_factory=dict)
    """The numbers that a condition names."""
    _sites: dict[str, dict[int, list[_Site]]] = field(default_factory=dict)

    def has_sites(self, code: CodeType) -> bool:
        """Return whether lines of a function are worth looking at."""
        file = code.co_filename
        if file not in self._sites:
            self._sites[file] = _sites_in(file)
        return any(line in self._sites[file] for _, _, line in code.co_lines())

    def look(self, frame: FrameType) -> None:
        """Note the conditions of the line that is about to run."""
        file = frame.f_code.co_filename
        for site in self._sites[file].get(frame.f_lineno, ()):
            try:
                far = {outcome: site.distance(frame, outcome) for outcome in (True, False)}
            except Exception:  # noqa: BLE001 - the program raises it itself, or doesn't get there
                continue
            for outcome, distance in far.items():
                key = (file, frame.f_lineno, site.column, outcome)
                self.constants[key] = site.constants
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


def _sites_in(file: str) -> dict[int, list[_Site]]:
    sites: dict[int, list[_Site]] = {}
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return sites
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)) and _is_pure(node.test):
            test = node.test
            values = [part.value for part in ast.walk(test) if isinstance(part, ast.Constant)]
            numbers = {float(value) for value in values if isinstance(value, (int, float))}
            site = _Site(test.col_offset, _distance(test), tuple(sorted(numbers)))
            sites.setdefault(test.lineno, []).append(site)
    return sites


def _is_pure(expression: ast.expr) -> bool:
    names = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(expression)
        if isinstance(node, ast.Call)
    )
    is_plain = all(isinstance(node, _PLAIN) for node in ast.walk(expression))
    return is_plain and all(name in _PURE for name in names)


def _value(node: ast.expr) -> Callable[[FrameType], Any]:
    code = compile(ast.Expression(node), "<condition>", "eval")
    return lambda frame: eval(code, frame.f_globals, frame.f_locals)


def _distance(node: ast.expr) -> _Distance:
    """Return what measures how far an expression is from being true, or false."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _distance(operand)
            return lambda frame, wanted: inner(frame, not wanted)
        case ast.BoolOp(op=operator, values=values):
            parts, is_and = [*map(_distance, values)], isinstance(operator, ast.And)

            def of_parts(frame: FrameType, wanted: bool) -> float:
                distances = [part(frame, wanted) for part in parts]
                return sum(distances) if is_and == wanted else min(distances)

            return of_parts
        case ast.Call(func=ast.Attribute(value=inner, attr="any" | "all" as name), args=[]):
            return _of_elements(inner, is_any=name == "any")
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return _distance(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[]):
            return _distance(inner)
        case ast.Compare():
            return _of_elements(node, is_any=True)
    value = _value(node)
    return lambda frame, wanted: float(bool(value(frame)) != wanted)


def _of_elements(node: ast.expr, *, is_any: bool) -> _Distance:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            sides = _value(left), _value(right)

            def apart(frame: FrameType, wanted: bool) -> Tensor:
                one, other = (torch.as_tensor(side(frame)).double() for side in sides)
                return _apart(operator, one, other, wanted)

        case _:
            value = _value(node)

            def apart(frame: FrameType, wanted: bool) -> Tensor:
                return (torch.as_tensor(value(frame)).bool() != wanted).double()

    def of_all(frame: FrameType, wanted: bool) -> float:
        distances = apart(frame, wanted)
        if not distances.numel():
            return float(wanted == is_any)
        return float(distances.min() if is_any == wanted else distances.max())

    return of_all


def _apart(operator: ast.cmpop, one: Tensor, other: Tensor, wanted: bool) -> Tensor:
    """How far the elements of two sides are from what is wanted of a comparison."""
    match operator, wanted:
        case (ast.Eq(), True) | (ast.NotEq(), False):
            far = (one - other).abs()
        case (ast.Eq(), False) | (ast.NotEq(), True):
            far = (one == other).double()
        case (ast.Lt() | ast.LtE(), True) | (ast.Gt() | ast.GtE(), False):
            far = (one - other).clamp(min=0)
        case (ast.Gt() | ast.GtE(), True) | (ast.Lt() | ast.LtE(), False):
            far = (other - one).clamp(min=0)
        case _:
            raise TypeError(operator)
    is_strict = isinstance(operator, (ast.Lt, ast.Gt)) == wanted
    is_order = not isinstance(operator, (ast.Eq, ast.NotEq))
    far = torch.where((one == other) & (is_strict and is_order), 1e-9, far)
    return far.nan_to_num(nan=1e30, posinf=1e30)


def searched(distance: Callable[[str], float | None], constants: tuple[float, ...]) -> str | None:
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
    factor = 1.0
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
