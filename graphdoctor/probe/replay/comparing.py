"""How the results of two replays differ, by kind: by more than ``torch.testing.assert_close`` or
rounding allows.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch

from ...facts.trials import Comparison, Difference, MissingLines, ResultKind, TextChange
from ..record.describe import value_text
from .arguments import has_strides
from .results import AFTER_CALLS, COMPUTED, KINDS, STRUCTURE, TEXTS, Results
from .rounding import Rounding, distance, is_nearly

_SIZE = re.compile(r"(list|tuple|dict) of (\d+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def compared(mine: Results, reference: Results, rounding: Rounding | None = None) -> Comparison:
    """How results differ from those of a reference."""
    kinds, found = list[ResultKind](), list[Difference]()
    zeros: list[str] = []
    first_omitted = min(
        (n for n in (mine.omitted_from, reference.omitted_from) if n is not None), default=None
    )
    for kind in KINDS:
        values, others = mine.values[kind], reference.values[kind]
        if kind == "gradients" and (
            zeros := [name for name in values if _is_zero_of_none(values, others, name)]
        ):
            values = {
                name: others.get(name) if name in zeros else value for name, value in values.items()
            }
            others = {**dict.fromkeys(zeros), **others}
        if first_omitted is not None:
            both = values.keys() & others.keys()
            values, others = ({k: v for k, v in of.items() if k in both} for of in (values, others))
        # The structure of outputs that were too large isn't what they are.
        if any(
            first_omitted is None or not name.endswith(STRUCTURE) for name in (*values, *others)
        ):
            kinds.append(kind)
        if kind in TEXTS:
            found += _text_differences(kind, values, others)
        elif differing := list(_differences(kind, values, others, rounding)):
            # The first without a number (another shape or type); what may be rounding is never
            # worse than what can't.
            unlike = (each for each in differing if each.largest is None)
            worst = next(unlike, None) or max(
                differing, key=lambda each: (not each.may_be_rounding, each.largest or 0)
            )
            if kind == "state":
                change = _state_change(
                    [difference.where for difference in differing], values, others
                )
                worst = worst.replace(change=change)
            found.append(worst)
    return Comparison(
        kinds=tuple(kinds),
        differences=tuple(found),
        is_bitwise_equal=all(
            _is_bitwise_equal(kind, mine.values[kind], reference.values[kind]) for kind in COMPUTED
        ),
        zero_gradients=tuple(zeros),
        note=None
        if first_omitted is None
        else f"from call {first_omitted} on, values are too large to compare",
    )


def _is_zero_of_none(mine: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    value = mine[name]
    return other.get(name) is None and isinstance(value, torch.Tensor) and not value.count_nonzero()


def differing_names(
    kind: ResultKind, mine: Mapping[str, Any], other: Mapping[str, Any]
) -> list[str]:
    """Names of the values of one kind that differ."""
    return [found.where for found in _differences(kind, mine, other, None)]


def _is_bitwise_equal(kind: str, mine: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    names = _names(kind, mine, other)
    return all(
        name in mine and name in other and _has_same_bits(mine[name], other[name]) for name in names
    )


def _has_same_bits(value: object, wanted: object) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return _is_close(value, wanted)
    if (value.shape, value.dtype, value.layout) != (wanted.shape, wanted.dtype, wanted.layout):
        return False
    if value.layout is not torch.strided or value.is_quantized:
        return _is_close(value, wanted)
    # As integers: 0.0 and -0.0 aren't the same, and NaN is.
    return torch.equal(*(one.contiguous().reshape(-1).view(torch.uint8) for one in (value, wanted)))


def _differences(
    kind: ResultKind, mine: Mapping[str, Any], other: Mapping[str, Any], rounding: Rounding | None
) -> Iterator[Difference]:
    for name in _names(kind, mine, other):
        if name not in mine or name not in other:
            presence: Literal["missing", "new"] = "missing" if name not in mine else "new"
            yield Difference(kind=kind, where=name, presence=presence)
        elif not _is_same(kind, name, mine[name], other[name], rounding):
            is_small = is_nearly(mine[name], other[name])
            may_be_rounding = (
                is_small if rounding is None else rounding.may_allow(kind, name, mine[name])
            )
            yield Difference(
                kind=kind,
                where=name,
                may_be_rounding=may_be_rounding,
                **_difference(mine[name], other[name]),
            )


def _is_same(
    kind: str, name: str, value: object, wanted: object, rounding: Rounding | None
) -> bool:
    if rounding is not None and (rounding.decides(kind, name) or not _is_close(value, wanted)):
        return rounding.allows(kind, name, value)
    return _is_close(value, wanted)


def _names(kind: str, mine: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of the values to compare, without new attributes: torch marks modules, and an edit may
    keep one in them.
    """
    new = [name for name in mine if name not in other]
    if kind == "state":
        attributes = {attribute_of(name) for name in other}
        new = [
            name
            for name in new
            if not name.endswith(AFTER_CALLS) or attribute_of(name) in attributes
        ]
    return [*other, *new]


def _state_change(
    names: Sequence[str], mine: Mapping[str, Any], other: Mapping[str, Any]
) -> TextChange:
    changes = {_number_change(mine.get(name), other.get(name)) for name in names}
    if changes == {"fewer", "numbers"}:
        return "fewer_and_numbers"
    return changes.pop() if len(changes) == 1 else "other"


def _number_change(value: object, wanted: object) -> TextChange:
    if type(wanted) in (int, float):
        return "numbers" if type(value) is type(wanted) else "fewer" if value is None else "other"
    # A container is kept as its type and size.
    sizes = [_SIZE.fullmatch(text) if isinstance(text, str) else None for text in (value, wanted)]
    if sizes[0] is None or sizes[1] is None or sizes[0][1] != sizes[1][1]:
        return "other"
    return "fewer" if int(sizes[0][2]) < int(sizes[1][2]) else "other"


def attribute_of(name: str) -> str:
    """The attribute that a state's value is in."""
    return name.removesuffix(AFTER_CALLS).partition("[")[0]


def _difference(value: object, wanted: object) -> dict[str, Any]:
    """Fields of a difference."""
    if (
        not isinstance(value, torch.Tensor)
        or not isinstance(wanted, torch.Tensor)
        or (value.shape, value.dtype, value.layout) != (wanted.shape, wanted.dtype, wanted.layout)
    ):
        return {"value": _short(value), "reference": _short(wanted)}
    if value.numel() == 0 or value.is_quantized or value.layout is not torch.strided:
        return {}
    largest = distance(value, wanted)
    return {"largest": largest} if math.isfinite(largest) else {"is_finite": False}


def _short(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 80 else value_text(value)


def _is_close(value: object, wanted: object) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        if type(value) is not type(wanted):
            return False
        return bool(value == wanted) or (value != value and wanted != wanted)  # noqa: PLR0124 - NaN
    is_plain = has_strides(value) and has_strides(wanted) and _kind_of(value) == _kind_of(wanted)
    if is_plain and torch.equal(value, wanted):
        # as most of a program's state is; ``assert_close`` takes many times as long to say so
        return True
    try:
        torch.testing.assert_close(value, wanted, equal_nan=True)
    except AssertionError:
        return False
    return True


def _kind_of(value: torch.Tensor) -> tuple[object, ...]:
    return value.shape, value.dtype, value.device


_PLACES = {"stdout": "printed text", "logs": "logged text", "stderr": "standard error"}


def _text_differences(
    kind: ResultKind, mine: Mapping[str, str], other: Mapping[str, str]
) -> Iterator[Difference]:
    text, wanted = mine.get("text", ""), other.get("text", "")
    lines, wanted_lines = text.splitlines(), wanted.splitlines()
    if lines != wanted_lines:
        change = _text_change(lines, wanted_lines)
        detail = _text_difference(lines, wanted_lines)
        yield Difference(kind=kind, where=_PLACES[kind], change=change, **detail)


def _text_difference(lines: Sequence[str], wanted: Sequence[str]) -> dict[str, Any]:
    """Fields of a difference."""
    if len(lines) < len(wanted):
        first = next((line for line in wanted if line not in lines), wanted[-1])
        count, reference_count = len(lines), len(wanted)
        return {
            "lines": MissingLines(
                count=count, reference_count=reference_count, first=repr(first[:80])
            )
        }
    pairs = itertools.zip_longest(lines, wanted, fillvalue="")
    changed = next(pair for pair in pairs if pair[0] != pair[1])
    return {"value": repr(changed[0][:80]), "reference": repr(changed[1][:80])}


def _text_change(lines: Sequence[str], wanted: Sequence[str]) -> TextChange:
    masked, wanted_masked = ([_NUMBER.sub("#", line) for line in of] for of in (lines, wanted))
    if masked == wanted_masked:
        return "numbers"
    if _is_part(lines, wanted):
        return "fewer"
    return "fewer_and_numbers" if _is_part(masked, wanted_masked) else "other"


def _is_part(lines: Sequence[str], wanted: Sequence[str]) -> bool:
    rest = iter(wanted)
    return all(line in rest for line in lines)
