"""How the results of two replays differ, kind by kind.

Values are the same within the tolerances of ``torch.testing.assert_close``. Where a float64 run of the program is
known, a value may also be as far from that as other runs of the untouched program are, times two: that is rounding.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ..record.describe import value_text
from ..wire import ComparisonRecord, DifferenceRecord, TextChange
from .results import AFTER_CALLS, KINDS, TEXTS, Results

_FACTOR = 2
"""How much farther from a float64 run a value may be than those of the untouched program."""

_SIZE = re.compile(r"(list|tuple|dict) of (\d+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


class Rounding:
    """How far from a float64 run values may be.

    That run is only used for values that the program without torch.compile computes nearly the same: to half the digits
    of their dtype, or to three quarters of those of the largest value of their kind (a gradient that is 0 but for
    rounding). Elsewhere it took another way, such as with other random numbers.

    Args:
        precise: The float64 run.
        eager: The untouched program without torch.compile.
        others: More runs of the untouched program, with torch.compile and without.
        is_untouched: The values to judge are the untouched program's own: what is nearly the same is rounding.
    """

    def __init__(self, precise: Results, eager: Results, others: Sequence[Results], *, is_untouched: bool) -> None:
        self._precise = precise
        self._eager = eager
        self._others = others
        self._is_untouched = is_untouched
        self._scales: dict[str, float] = {}

    def allows(self, kind: str, name: str, value: object) -> bool:
        """Whether a value of a kind differs from the untouched program's by rounding only."""
        precise = _number(self._precise.values[kind].get(name))
        eager, mine = _number(self._eager.values[kind].get(name)), _number(value)
        if precise is None or eager is None or mine is None or mine.dtype != eager.dtype:
            return False
        most = self._most(kind, precise, eager.dtype)
        distance = _distance(eager, precise)
        if distance > most:
            return False
        if self._is_untouched:
            return _distance(mine, precise) <= most
        known = [_number(other.values[kind].get(name)) for other in self._others]
        distances = [_distance(other, precise) for other in known if other is not None]
        return _distance(mine, precise) <= _FACTOR * max([distance, *(one for one in distances if one <= most)])

    def _most(self, kind: str, precise: torch.Tensor, dtype: torch.dtype) -> float:
        if kind not in self._scales:
            found = map(_number, self._precise.values[kind].values())
            self._scales[kind] = max((_largest(value) for value in found if value is not None), default=0.0)
        eps = torch.finfo(dtype).eps
        return max(eps**0.5 * _largest(precise), eps**0.75 * self._scales[kind])


def _number(value: object) -> torch.Tensor | None:
    """A floating-point value as a tensor; a Python number was read from one, as a rule of float32."""
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float32)
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_quantized:
        return None
    return value if value.is_floating_point() or value.is_complex() else None


def _largest(value: torch.Tensor) -> float:
    size = value.to(torch.complex128).abs().nan_to_num(nan=0.0, posinf=0.0)
    return float(size.max()) if size.numel() else 0.0


def _distance(value: torch.Tensor, precise: torch.Tensor) -> float:
    """The largest absolute difference; infinite if they can't be compared."""
    if value.shape != precise.shape:
        return float("inf")
    mine, other = value.to(torch.complex128), precise.to(torch.complex128)
    apart = torch.where((mine == other) | (mine.isnan() & other.isnan()), 0.0, (mine - other).abs())
    return float(apart.nan_to_num(nan=float("inf")).max()) if apart.numel() else 0.0


def compared(mine: Results, reference: Results, rounding: Rounding | None = None) -> ComparisonRecord:
    """How results differ from those of a reference.

    Args:
        mine: The results.
        reference: The reference's.
        rounding: What counts as rounding; None without a float64 run.

    Returns:
        The kinds with something to compare, and the worst difference of each kind that differs.
    """
    notes = []
    first_omitted = min((n for n in (mine.omitted_from, reference.omitted_from) if n is not None), default=None)
    if first_omitted is not None:
        notes.append(f"from call {first_omitted} on, values are too large to compare")
    found = []
    for kind in KINDS:
        values, others = mine.values[kind], reference.values[kind]
        if first_omitted is not None:
            both = values.keys() & others.keys()
            values, others = ({k: v for k, v in of.items() if k in both} for of in (values, others))
        is_text = kind in TEXTS
        differing = [
            *(_text_differences(kind, values, others) if is_text else _differences(kind, values, others, rounding))
        ]
        worst = _worst(iter(differing))
        if worst is not None and kind == "state":
            worst["change"] = _state_change([difference["where"] for difference in differing], values, others)
        if worst is not None:
            found.append(worst)
    return ComparisonRecord(
        kinds=[kind for kind in KINDS if reference.values[kind] or mine.values[kind]],
        differences=found,
        note="; ".join(notes) or None,
    )


def is_different(kind: str, mine: Results, reference: Results, rounding: Rounding | None, *, call: int) -> bool:
    """Whether the results of one call differ.

    Args:
        kind: Which results.
        mine: The results.
        reference: Those to compare with.
        rounding: What counts as rounding; None without a float64 run.
        call: The call's number, from 1.
    """
    begin = f"call {call}, "
    values, others = (
        {name: value for name, value in of.values[kind].items() if name.startswith(begin)} for of in (mine, reference)
    )
    if mine.omitted_from is not None or reference.omitted_from is not None:
        return False
    return any(_differences(kind, values, others, rounding))


def _worst(differences: Iterator[DifferenceRecord]) -> DifferenceRecord | None:
    """The first without a number (another shape or type), otherwise the one with the largest number."""
    worst: DifferenceRecord | None = None
    for found in differences:
        if found["largest"] is None:
            return found
        if worst is None or found["largest"] > (worst["largest"] or 0.0):
            worst = found
    return worst


def _differences(
    kind: str, mine: Mapping[str, Any], other: Mapping[str, Any], rounding: Rounding | None
) -> Iterator[DifferenceRecord]:
    attributes = {_attribute(name) for name in other}
    for name in (*other, *(name for name in mine if name not in other)):
        # torch marks modules, and an edit may keep something in one.
        if kind == "state" and name not in other and name.endswith(AFTER_CALLS) and _attribute(name) not in attributes:
            continue
        if name not in mine or name not in other:
            detail = "is missing" if name not in mine else "is new"
            yield DifferenceRecord(kind=kind, where=name, largest=None, detail=detail, change=None)
        elif not _is_close(mine[name], other[name]) and not (rounding and rounding.allows(kind, name, mine[name])):
            largest, text = _difference(mine[name], other[name])
            yield DifferenceRecord(kind=kind, where=name, largest=largest, detail=text, change=None)


def _state_change(names: Sequence[str], mine: Mapping[str, Any], other: Mapping[str, Any]) -> TextChange:
    """How Python numbers that modules keep differ; ``other`` if anything else differs too."""
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


def _attribute(name: str) -> str:
    """The attribute that a state's value is in."""
    return name.removesuffix(AFTER_CALLS).partition("[")[0]


def _difference(value: object, wanted: object) -> tuple[float | None, str | None]:
    """The largest absolute difference, or a detail where there is no number."""
    if not isinstance(value, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return None, f"{_short(value)} instead of {_short(wanted)}"
    if value.shape != wanted.shape or value.dtype != wanted.dtype or value.layout != wanted.layout:
        return None, f"{value_text(value)} instead of {value_text(wanted)}"
    if value.numel() == 0 or value.is_quantized or value.layout is not torch.strided:
        return None, None
    apart = (value.to(torch.complex128) - wanted.to(torch.complex128)).abs()
    largest = float(apart.nan_to_num(nan=float("inf")).max())
    return (None, "NaN or infinity") if largest == float("inf") else (largest, None)


def _short(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 80 else value_text(value)


def _is_close(value: object, wanted: object) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        if type(value) is not type(wanted):
            return False
        return bool(value == wanted) or (value != value and wanted != wanted)  # noqa: PLR0124 - NaN
    try:
        torch.testing.assert_close(value, wanted, equal_nan=True)
    except AssertionError:
        return False
    return True


_PLACES = {"stdout": "printed text", "logs": "logged text", "stderr": "standard error"}


def _text_differences(kind: str, mine: Mapping[str, str], other: Mapping[str, str]) -> Iterator[DifferenceRecord]:
    text, wanted = mine.get("text", ""), other.get("text", "")
    lines, wanted_lines = text.splitlines(), wanted.splitlines()
    if lines != wanted_lines:
        detail, change = _text_detail(lines, wanted_lines), _text_change(lines, wanted_lines)
        yield DifferenceRecord(kind=kind, where=_PLACES[kind], largest=None, detail=detail, change=change)


def _text_detail(lines: Sequence[str], wanted: Sequence[str]) -> str:
    if len(lines) < len(wanted):
        missing = next((line for line in wanted if line not in lines), wanted[-1])
        return f"{len(lines)} of {len(wanted)} lines; the first missing one: {missing[:80]!r}"
    pairs = itertools.zip_longest(lines, wanted, fillvalue="")
    changed = next(pair for pair in pairs if pair[0] != pair[1])
    return f"{changed[0][:80]!r} instead of {changed[1][:80]!r}"


def _text_change(lines: Sequence[str], wanted: Sequence[str]) -> TextChange:
    masked, wanted_masked = ([_NUMBER.sub("#", line) for line in of] for of in (lines, wanted))
    if masked == wanted_masked:
        return "numbers"
    if _is_part(lines, wanted):
        return "fewer"
    return "fewer_and_numbers" if _is_part(masked, wanted_masked) else "other"


def _is_part(lines: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether lines are some of the wanted ones, in their order."""
    rest = iter(wanted)
    return all(line in rest for line in lines)
