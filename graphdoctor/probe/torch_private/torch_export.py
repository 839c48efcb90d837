"""What torch.export has no public name for.

``torch/export/exported_program.py``, ``torch/_export/non_strict_utils.py``,
``torch/fx/experimental/symbolic_shapes.py``, 2.13 and 2.15.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from traceback import FrameSummary, walk_tb
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import torch

from .torch_trace import TraceLooker, interned_by_number

_SPECIALIZATION = "symbolic_shape_specialization"
_BY_ANOTHER = "find"
"""torch's reason for a symbol that equals one that is a constant already."""

Shape = tuple[Any, ...]

Sizes = Mapping[Any, int]
"""Sizes by torch's symbols."""


def input_shapes(program: Any) -> list[Shape]:
    """List the shape of each of an exported program's own inputs, in order; empty without one."""
    specs = program.graph_signature.input_specs
    placeholders = (node for node in program.graph.nodes if node.op == "placeholder")
    values = {node.name: node.meta.get("val") for node in placeholders}
    names = (spec.arg.name for spec in specs if spec.kind.name == "USER_INPUT")
    return [tuple(getattr(values.get(name), "shape", ())) for name in names]


def dim_range(program: Any, size: Any) -> tuple[int | None, int | None]:
    """Return the smallest and the largest size of a dynamic dim that an exported program takes;
    None if there is no limit.
    """
    return _range(program, size.node.expr)


def size_under(size: Any, sizes: Sizes) -> int:
    """Compute a dim's size if symbols have other sizes."""
    return int(size.node.expr.subs(dict(sizes))) if expression_of(size) is not None else int(size)


def expression_of(size: Any) -> str | None:
    """Print the expression that stands for a dynamic size; None for a constant."""
    # A symbol that became a constant while the program was traced is a SymInt still.
    is_dynamic = isinstance(size, torch.SymInt) and size.node.expr.free_symbols
    return str(size.node.expr) if is_dynamic else None


def other_sizes(program: Any, shapes: Iterable[Shape], sizes: Mapping[str, int]) -> Iterator[Sizes]:
    """Choose sizes within their ranges for the symbols of an exported program's inputs, in several
    ways.
    """
    dynamic = (size for shape in shapes for size in shape if expression_of(size) is not None)
    symbols = {symbol for size in dynamic for symbol in size.node.expr.free_symbols}
    if any(str(symbol) not in sizes for symbol in symbols):
        return
    now = {symbol: sizes[str(symbol)] for symbol in symbols}
    for change in _CHANGES:
        chosen = {}
        for symbol, size in now.items():
            low, high = _range(program, symbol)
            least, most = max(low or 0, 2), math.inf if high is None else high
            chosen[symbol] = next((n for n in change(size) if least <= n <= most), size)
        if chosen != now:
            yield chosen


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
    limits = program.range_constraints.get(expression)
    return (None, None) if limits is None else (_number(limits.lower), _number(limits.upper))


def passes(guards: Iterable[str], arguments: Mapping[str, Any]) -> bool:
    """Whether arguments pass the conditions on sizes of an exported program; one that can't be
    computed is passed.

    ``arguments``: what torch calls ``L``: values by name, and under ``flat_args`` all leaves.
    """
    for guard in guards:
        with suppress(Exception):
            if not eval(guard, {"L": arguments, "torch": torch, "math": math}):
                return False
    return True


def _number(bound: Any) -> int | None:
    try:
        return int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None


def guards_of(program: Any) -> list[str]:
    """List conditions on sizes that an exported program checks, in Python (``_guards_code``, 2.13);
    else none.
    """
    return [str(guard) for guard in getattr(program, "_guards_code", None) or ()]


def asks_for_truth(raised: TracebackType, is_user_file: Callable[[str], bool]) -> bool:
    """Whether an exception was raised because the program asked whether a tensor is true.

    Non-strict export sees ``if tensor:`` as ``Tensor.__bool__``
    (``torch/_export/non_strict_utils.py``, 2.13).
    """
    after: FrameType | None = None
    is_user = False
    for frame, _ in walk_tb(raised):
        was_user, is_user = is_user, is_user_file(frame.f_code.co_filename)
        after = None if is_user else frame if was_user else after
    return after is not None and after.f_locals.get("func") is torch.Tensor.__bool__


class Specialization(NamedTuple):
    """A dim that torch made a constant."""

    stack: list[FrameSummary]
    is_by_another: bool


class Specializations(TraceLooker):
    """Keeps which dims torch makes constants while it exports, and where, from its structured
    trace.
    """

    def __init__(self, user_stack: Callable[[], list[FrameSummary]]) -> None:
        super().__init__()
        self._user_stack = user_stack
        self.by_source: dict[str, Specialization] = {}

    def look_at(self, metadata: dict[str, Any], _payload: str | None) -> None:
        """Note a dim."""
        value = metadata.get(_SPECIALIZATION)
        if isinstance(value, dict):
            names = interned_by_number()
            stack = [
                FrameSummary(names[at["filename"]], at["line"], at["name"], lookup_line=False)
                for at in value.get("user_stack") or ()
                if at.get("filename") in names
            ]
            is_by_another = value.get("reason") == _BY_ANOTHER
            dim = Specialization(stack or self._user_stack(), is_by_another)
            for source in value.get("sources") or ():
                self.by_source.setdefault(str(source), dim)
