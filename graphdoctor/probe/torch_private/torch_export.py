"""What torch.export knows and has no public name for.

``torch/export/exported_program.py``, ``torch/_export/non_strict_utils.py``,
``torch/fx/experimental/symbolic_shapes.py``, 2.13 and 2.15.
"""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import torch

from .torch_trace import TraceLooker, interned_by_number

_SPECIALIZATION = "symbolic_shape_specialization"
_BY_ANOTHER = "find"
"""torch's reason for a symbol that equals one that is a constant already."""


class DimRange(NamedTuple):
    """What the exported program takes for a dim; ``high``: the largest size, None if there is no
    limit.
    """

    expression: str
    low: int | None
    high: int | None


Sizes = Mapping[Any, int]
"""Sizes by torch's symbols."""


def input_shapes(program: Any) -> dict[str, tuple[Any, ...]]:
    """The shape of each tensor among an exported program's own inputs, by the input's name, in
    order.
    """
    wanted = [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "USER_INPUT"
    ]
    values = {
        node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"
    }
    return {name: tuple(getattr(values.get(name), "shape", ())) for name in wanted}


def dim_range(program: Any, size: Any) -> DimRange | None:
    """What an exported program takes for one dim; None if the dim is a constant."""
    # A symbol that became a constant while the program was traced is a SymInt still.
    expression = expression_of(size)
    return None if expression is None else DimRange(expression, *_range(program, size.node.expr))


def size_under(size: Any, sizes: Sizes) -> int:
    """A dim's size if symbols have other sizes."""
    return int(size.node.expr.subs(dict(sizes))) if expression_of(size) is not None else int(size)


def expression_of(size: Any) -> str | None:
    """The expression that stands for a dynamic size; None for a constant."""
    return (
        str(size.node.expr)
        if isinstance(size, torch.SymInt) and size.node.expr.free_symbols
        else None
    )


def other_sizes(
    program: Any, shapes: Iterable[tuple[Any, ...]], sizes: Mapping[str, int]
) -> Iterator[Sizes]:
    """Sizes within their ranges for the symbols of an exported program's inputs, in several
    ways.
    """
    dynamic = (size for shape in shapes for size in shape if expression_of(size) is not None)
    symbols = {symbol for size in dynamic for symbol in size.node.expr.free_symbols}
    if any(str(symbol) not in sizes for symbol in symbols):
        return
    now = {symbol: sizes[str(symbol)] for symbol in symbols}
    for change in _CHANGES:
        found = {}
        for symbol, size in now.items():
            low, high = _range(program, symbol)
            fitting = (
                other
                for other in change(size)
                if other >= max(low or 0, 2) and (high is None or other <= high)
            )
            found[symbol] = next(fitting, size)
        if found != now:
            yield found


_CHANGES: tuple[Callable[[int], tuple[int, ...]], ...] = (
    # Twice the size is divisible by whatever the size is.
    lambda size: (2 * size, size + 1, size - 1),
    # A program may refuse a larger one, and take a larger one only where the size is small.
    lambda size: (size // 2, size - 1, size + 1),
    lambda size: (size + 2, size - 2),
    lambda size: (size - 1, size + 1),
    lambda size: (size + 1,),
)


def _range(program: Any, expression: Any) -> tuple[int | None, int | None]:
    known = program.range_constraints.get(expression)
    return (None, None) if known is None else (_number(known.lower), _number(known.upper))


def passes(guards: Iterable[str], arguments: Mapping[str, Any]) -> bool:
    """Whether arguments pass the conditions on sizes of an exported program; one that can't be
    computed is passed.

    ``arguments``: what torch calls ``L``: values by name, and under ``flat_args`` all leaves.
    """
    for guard in guards:
        with contextlib.suppress(Exception):
            if not eval(guard, {"L": arguments, "torch": torch, "math": math}):
                return False
    return True


def _number(bound: Any) -> int | None:
    try:
        return int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None


def guards_of(program: Any) -> list[str]:
    """Conditions on sizes that an exported program checks, in Python (``_guards_code``, 2.13); else
    none.
    """
    return [str(guard) for guard in getattr(program, "_guards_code", None) or ()]


def asks_for_truth(raised: TracebackType, is_user_file: Callable[[str], bool]) -> bool:
    """Whether an exception was raised because the program asked whether a tensor is true.

    Non-strict export sees ``if tensor:`` as ``Tensor.__bool__``
    (``torch/_export/non_strict_utils.py``, 2.13).
    """
    after: FrameType | None = None
    is_user = False
    for frame, _ in traceback.walk_tb(raised):
        was_user, is_user = is_user, is_user_file(frame.f_code.co_filename)
        after = None if is_user else frame if was_user else after
    return after is not None and after.f_locals.get("func") is torch.Tensor.__bool__


class Specialization(NamedTuple):
    """A dim that torch made a constant."""

    source: str
    stack: list[Any]
    is_by_another: bool


class Specializations(TraceLooker):
    """Keeps which dims torch makes constants while it exports, and where, from its structured
    trace.
    """

    def __init__(self, user_stack: Callable[[], list[Any]]) -> None:
        super().__init__()
        self._user_stack = user_stack
        self.found: dict[str, Specialization] = {}

    def look_at(self, metadata: dict[str, Any], _payload: str | None) -> None:
        """Note a dim."""
        value = metadata.get(_SPECIALIZATION)
        if isinstance(value, dict):
            stack = _recorded(value.get("user_stack") or ()) or self._user_stack()
            for source in value.get("sources") or ():
                found = Specialization(str(source), stack, value.get("reason") == _BY_ANOTHER)
                self.found.setdefault(found.source, found)


def _recorded(stack: Iterable[dict[str, Any]]) -> list[Any]:
    names = interned_by_number()
    return [
        traceback.FrameSummary(
            names[line["filename"]], line["line"], line["name"], lookup_line=False
        )
        for line in stack
        if line.get("filename") in names
    ]
