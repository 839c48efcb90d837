"""How the results of two replays differ, by kind: by more than ``torch.testing.assert_close`` or
rounding allows.

Rounding is how far a value may be from a run of the program in float64. PyTorch's own benchmark
runner compares a compiled model's distance from it with eager mode's (``same`` in
``torch/_dynamo/utils.py``, 2.13: the root mean square, two or three times that of eager mode, ten
times for small tensors, and anything within an absolute 1e-4 or more). Here it is the largest
distance, because few wrong elements of many hardly show in a mean, and relative to the largest
element, because gradients may be small.

Neither holds where numbers cancel, which leaves no size to compare with, nor where a program has
steps: if the input of a ReLU is 0 but for rounding, its gradient is there or isn't. Eager mode has
drawn once, and may have been lucky. ``Shaken`` makes it draw again, with other last digits. Of a
ResNet in training mode (transformers, 4 images of 64 × 64, float32 on a CPU, torch 2.13),
Inductor's gradients are 3.7% off where eager mode's are 0.0003% off, and ``same`` refuses five of
them. One of four runs of eager mode that begin with one unit changed in the last place is 3.7% off
too, in as many.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...facts.base import Fields
from ...facts.trials import (
    FORMS,
    THE_CALL,
    Comparison,
    Difference,
    Judged,
    MissingLines,
    ResultError,
    ResultKind,
    TextChange,
)
from ...wording import shortened
from ..record.describe import value_text
from .arguments import has_strides
from .results import AFTER_CALLS, COMPUTED, DRAWN, KINDS, STRUCTURE, TEXTS, Results
from .shaking import last_digits

_Values = Mapping[str, Any]

_MAX_ERROR = 200
_SIZE = re.compile(r"(list|tuple|dict) of (\d+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_PLACES = {
    "stdout": "printed text",
    "logs": "logged text",
    "warnings": "warnings",
    "files": "changed files",
    "stderr": "standard error",
}


def compared(mine: Results, reference: Results, rounding: Rounding | None = None) -> Comparison:
    """Compare results with those of a reference."""
    raised, end = _exceptions(mine, reference)
    if end is not None:
        mine, reference = mine.before(end), reference.before(end)
    differences: list[Difference] = []
    zeros: list[str] = []
    counts: dict[ResultKind, int] = {}
    rounded: list[ResultKind] = []
    omitted = [at for at in (mine.omitted_from, reference.omitted_from) if at is not None]
    for kind in KINDS:
        values, others = mine.values[kind], reference.values[kind]
        if kind in COMPUTED and not _have_same_bits(kind, values, others):
            rounded.append(kind)
        if kind == "gradients":
            # A gradient of zeros where the reference has none is the same.
            zeros = [name for name in values if others.get(name) is None and _is_zero(values[name])]
            values, others = {**values, **dict.fromkeys(zeros)}, {**dict.fromkeys(zeros), **others}
        if omitted:
            both = values.keys() & others.keys()
            values, others = ({k: v for k, v in of.items() if k in both} for of in (values, others))
        # The structure of outputs that were too large isn't what they are.
        if any(not omitted or not name.endswith(STRUCTURE) for name in (*values, *others)):
            counts[kind] = sum(not name.endswith(STRUCTURE) for name in others)
        if kind == "exceptions":
            differences += [] if raised is None else [raised]
        elif kind in TEXTS:
            differences += _text_differences(kind, values, others)
        elif differing := list(_differences(kind, values, others, rounding)):
            # The first without a number (another shape or type); what may be rounding is never
            # worse than what can't.
            unlike = (difference for difference in differing if difference.largest is None)
            worst = next(unlike, None) or max(
                differing, key=lambda it: (not it.may_be_rounding, it.largest or 0)
            )
            if kind == "state":
                worst = worst.replace(change=_state_change(differing, values, others))
            clear = [it.where for it in differing if it.may_be_rounding == worst.may_be_rounding]
            numbers = {**reference.calls, **mine.calls}
            calls = [numbers[name] for name in clear if name in numbers]
            differences.append(worst.replace(call=min(calls, default=None)))
    return Comparison(
        kinds=tuple(counts),
        differences=tuple(differences),
        is_bitwise_equal=not rounded,
        counts=tuple(counts.items()),
        rounded=tuple(rounded),
        zero_gradients=tuple(zeros),
        retyped=_retyped(mine.values["state"], reference.values["state"]),
        note=f"from call {min(omitted)} on, values are too large to compare" if omitted else None,
    )


def _exceptions(mine: Results, reference: Results) -> tuple[Difference | None, int | None]:
    """Return how exceptions differ, and the call that only one of both raised in, so that the other
    made more.
    """
    values, others = (of.values["exceptions"] for of in (mine, reference))
    name = next((name for name in values if values[name] != others.get(name, "")), None)
    if name is None:
        return None, None
    value, expected = (shortened(of.get(name, ""), _MAX_ERROR) or None for of in (values, others))
    call = mine.calls[name]
    difference = Difference(
        kind="exceptions", where=THE_CALL, call=call, value=value, reference=expected
    )
    return difference, call if value is None or expected is None else None


def differing_values(
    kind: ResultKind, mine: Results, reference: Results, rounding: Rounding
) -> list[Difference]:
    """List the values of a kind that differ by more than rounding."""
    return list(_differences(kind, mine.values[kind], reference.values[kind], rounding))


def differing_attributes(mine: _Values, other: _Values) -> list[str]:
    """Name the attributes in which states differ."""
    differing = _differences("state", mine, other, None)
    return sorted({_attribute_of(difference.where) for difference in differing})


def _attribute_of(name: str) -> str:
    return name.removesuffix(AFTER_CALLS).partition("[")[0]


def _names(kind: str, mine: _Values, other: _Values) -> list[str]:
    """Names of the values to compare, without new attributes: torch marks modules, and an edit may
    keep one in them.
    """
    new = [name for name in mine if name not in other]
    if kind in FORMS:
        # What has no counterpart is among the outputs.
        return [name for name in other if name in mine]
    if kind == "state":
        attributes = {_attribute_of(name) for name in other}
        new = [n for n in new if not n.endswith(AFTER_CALLS) or _attribute_of(n) in attributes]
    return [*other, *new]


def _are_alike(value: object, reference: object) -> bool:
    if not isinstance(value, Tensor) or not isinstance(reference, Tensor):
        return False
    forms = ((it.shape, it.dtype, it.layout) for it in (value, reference))
    return next(forms) == next(forms)


def _is_zero(value: object) -> bool:
    return isinstance(value, Tensor) and not value.count_nonzero()


def _have_same_bits(kind: str, mine: _Values, other: _Values) -> bool:
    return all(
        name in mine and name in other and _has_same_bits(mine[name], other[name])
        for name in _names(kind, mine, other)
    )


def _has_same_bits(value: Any, reference: Any) -> bool:
    if not _are_alike(value, reference):
        return not isinstance(value, Tensor) and _is_close(value, reference)
    if value.layout is not torch.strided or value.is_quantized:
        return _is_close(value, reference)
    values, others = (tensor.contiguous().reshape(-1) for tensor in (value, reference))
    # As integers: 0.0 and -0.0 aren't the same.
    if torch.equal(values.view(torch.uint8), others.view(torch.uint8)):
        return True
    if not (value.is_floating_point() or value.is_complex()) or value.itemsize == 1:
        return False
    # A NaN is one, whatever its sign and payload.
    parts = (
        torch.view_as_real(it).reshape(-1) if it.is_complex() else it for it in (values, others)
    )
    kept = [(it.masked_fill(it.isnan(), 0).view(torch.uint8), it.isnan()) for it in parts]
    return all(map(torch.equal, *kept))


def _is_close(value: Any, reference: Any) -> bool:
    if not isinstance(value, Tensor) or not isinstance(reference, Tensor):
        if type(value) is not type(reference):
            return False
        return bool(value == reference) or (value != value and reference != reference)  # noqa: PLR0124 - NaN
    # Most of a program's state is the same; ``assert_close`` takes many times as long to say so.
    has_values = has_strides(value) and has_strides(reference) and value.device == reference.device
    if has_values and _are_alike(value, reference) and torch.equal(value, reference):
        return True
    try:
        torch.testing.assert_close(value, reference, equal_nan=True)
    except AssertionError:
        return False
    return True


def _is_tensor_of(value: object, number: object) -> bool:
    """Check for a tensor that is kept in place of a number: what reads it there can convert it to
    the same kind of number.
    """
    if not isinstance(value, Tensor) or value.dim() or value.is_complex():
        return False
    kind = float if value.is_floating_point() else bool if value.dtype is torch.bool else int
    return type(number) is kind and _is_close(value, torch.full_like(value, number))


def _retyped(mine: _Values, other: _Values) -> Difference | None:
    for name, number in other.items():
        if _is_tensor_of(value := mine.get(name), number):
            kept, was = value_text(value), type(number).__name__
            return Difference(kind="state", where=name, value=kept, reference=was)
    return None


def _differences(
    kind: ResultKind, mine: _Values, other: _Values, rounding: Rounding | None
) -> Iterator[Difference]:
    for name in _names(kind, mine, other):
        if name not in mine or name not in other:
            is_missing = name not in mine
            yield Difference(kind=kind, where=name, presence="missing" if is_missing else "new")
            continue
        value, reference = mine[name], other[name]
        if kind == "state" and _is_tensor_of(value, reference):
            continue
        if (rounding is None or not rounding.decides(kind, name)) and _is_close(value, reference):
            continue
        is_rounding = may_be_rounding = False
        # What reads a number may not take a tensor, however close.
        if isinstance(value, Tensor) is isinstance(reference, Tensor):
            if rounding is None:
                may_be_rounding = _is_nearly(value, reference)
            else:
                is_rounding, may_be_rounding = rounding.allows(kind, name, value)
        if not is_rounding:
            detail = {} if name.startswith(DRAWN) else _detail(value, reference)
            yield Difference(kind=kind, where=name, may_be_rounding=may_be_rounding, **detail)


def _detail(value: Any, reference: Any) -> Fields:
    """Describe how two values differ: their texts, or by how much."""
    if not _are_alike(value, reference):
        texts = (
            it if isinstance(it, str) and len(it) <= 80 else value_text(it)
            for it in (value, reference)
        )
        return dict(zip(("value", "reference"), texts, strict=True))
    if not value.numel() or value.is_quantized or value.layout is not torch.strided:
        return {}
    largest = distance(value, reference)
    if not math.isfinite(largest):
        return {"is_finite": False}
    return {"largest": largest, "spacings": _spacings(value, reference)}


def _state_change(differing: Iterable[Difference], mine: _Values, other: _Values) -> TextChange:
    changes = {_change_of(mine.get(it.where), other.get(it.where)) for it in differing}
    if changes == {"fewer", "numbers"}:
        return "fewer_and_numbers"
    return changes.pop() if len(changes) == 1 else "other"


def _change_of(value: object, reference: object) -> TextChange:
    if type(reference) in (int, float):
        if type(value) is type(reference):
            return "numbers"
        return "fewer" if value is None else "other"
    if isinstance(value, str) and isinstance(reference, str):
        # A container is kept as its type and size.
        size, expected = _SIZE.fullmatch(value), _SIZE.fullmatch(reference)
        if size and expected and size[1] == expected[1] and int(size[2]) < int(expected[2]):
            return "fewer"
    return "other"


def _text_differences(kind: ResultKind, mine: _Values, other: _Values) -> Iterator[Difference]:
    lines, expected = (of.get("text", "").splitlines() for of in (mine, other))
    if lines == expected:
        return

    def is_part(some: Sequence[str], whole: Sequence[str]) -> bool:
        rest = iter(whole)
        return all(line in rest for line in some)

    masked, masked_expected = ([_NUMBER.sub("#", line) for line in of] for of in (lines, expected))
    change: TextChange = "other"
    if masked == masked_expected:
        change = "numbers"
    elif is_part(lines, expected):
        change = "fewer"
    elif is_part(masked, masked_expected):
        change = "fewer_and_numbers"
    detail: Fields
    if (count := len(lines)) < len(expected):
        first = next((line for line in expected if line not in lines), expected[-1])
        missing = MissingLines(count=count, reference_count=len(expected), first=repr(first[:80]))
        detail = {"lines": missing}
    else:
        pairs = itertools.zip_longest(lines, expected, fillvalue="")
        value, reference = next(pair for pair in pairs if pair[0] != pair[1])
        detail = {"value": repr(value[:80]), "reference": repr(reference[:80])}
    yield Difference(kind=kind, where=_PLACES[kind], change=change, **detail)


# Rounding.

_FACTOR = 2
"""How much farther from a float64 run a value may be than those of the untouched program."""

_NEAR = 0.1
"""The most that a program's own rounding makes of a value. Its dtype doesn't tell: matrix products
may be computed in bfloat16 or TF32 and give float32."""


class _Pair(NamedTuple):
    """One value of the float64 run and of eager mode; the rest is about where both have it."""

    precise: Tensor | None
    eager: Tensor | None
    apart: float = math.inf
    size: float = 0.0
    least: float = 0.0
    """What is rounding whatever eager mode's was."""
    is_alike: bool = False
    """The float64 run computed it in the same way."""


class Rounding:
    """How far from a float64 run values may be.

    That run (None if the program doesn't run so) is only used for values that the program without
    torch.compile computes nearly the same. Elsewhere it took another way. If the program draws
    random numbers, which may be others in float64, it has to agree to half the digits of the dtype.

    ``judged``: of the untouched program as it was run before, half the digits are enough. In a
    ``variant``, compiled as no other run was, what is 0 but for rounding (the gradient of a bias
    before a batch norm) is as large as other kernels make it, and a single number may have the
    typical error of all. ``is_shaken``: some of the ``others`` are, and what they don't explain is
    wrong.
    """

    def __init__(
        self,
        precise: Results | None,
        eager: Results,
        others: Sequence[Results],
        *,
        judged: Judged,
        is_shaken: bool = False,
    ) -> None:
        self._precise = precise or Results()
        self._eager = eager
        self._others = others
        self._is_variant = judged == "variant"
        self._is_untouched = judged == "untouched"
        self._is_shaken = is_shaken
        self._pair = cache(self._look)

    def _look(self, kind: str, name: str) -> _Pair:
        precise, eager = (_number(of.values[kind].get(name)) for of in (self._precise, self._eager))
        if precise is None or eager is None:
            return _Pair(precise, eager)
        apart = distance(eager, precise)
        size = _largest(precise)
        half = _half(eager.dtype)
        least = max(half * size, half**1.5 * self._largest_of[kind])
        most = least if self._eager.draws_random else max(least, _NEAR * size)
        return _Pair(precise, eager, apart, size, least, apart <= most)

    @cached_property
    def _largest_of(self) -> dict[str, float]:
        numbers = {kind: map(_number, self._precise.values[kind].values()) for kind in COMPUTED}
        return {
            kind: max((_largest(value) for value in values if value is not None), default=0.0)
            for kind, values in numbers.items()
        }

    def decides(self, kind: str, name: str) -> bool:
        """Return whether only the distance from the float64 run counts.

        ``assert_close`` allows wrong gradients of 1e-6.
        """
        return self._is_variant and self._pair(kind, name).is_alike

    def allows(self, kind: str, name: str, value: object) -> tuple[bool, bool]:
        """Return whether a value differs from eager mode's by rounding only, and whether it may."""
        pair = self._pair(kind, name)
        mine = _number(value)
        tolerance = None
        if pair.eager is not None and mine is not None and mine.dtype == pair.eager.dtype:
            tolerance = self._tolerance(kind, name, pair, pair.eager)
        if tolerance is None or mine is None:
            return False, _is_nearly(value, self._eager.values[kind].get(name))
        center, allowed, doubtful = tolerance
        apart = distance(mine, center)
        if apart <= allowed or (apart <= doubtful and math.isfinite(apart)):
            return apart <= allowed, True
        # A step may change one element of many altogether.
        return False, self._is_variant and not self._is_shaken and _is_small(mine, center)

    def _tolerance(
        self, kind: str, name: str, pair: _Pair, eager: Tensor
    ) -> tuple[Tensor, float, float] | None:
        """Return a center, and the distances from it that are allowed and doubtful."""
        center = pair.precise if pair.is_alike and pair.precise is not None else eager
        runs = [_number(other.values[kind].get(name)) for other in self._others]
        others = [distance(run, center) for run in runs if run is not None]
        apart, size, least = (pair.apart, pair.size, pair.least) if pair.is_alike else (0.0, 0, 0)
        if self._is_untouched:
            return (center, max(least, _FACTOR * apart), 0.0) if pair.is_alike else None
        if not self._is_variant:
            most = max(apart, *(it for it in others if it <= least), 0.0)
            return (center, _FACTOR * most, 0.0) if pair.is_alike else None
        own = max(apart, self._typical * size)
        size = size or _largest(eager)
        most = max(_NEAR * size, least)
        moved = max((it for it in others if math.isfinite(it)), default=0.0)
        # What is 0 but for rounding (the gradient of a bias before a batch norm) has no size.
        is_noise = pair.apart > _NEAR * size
        is_measured = pair.is_alike and eager.dtype is not torch.float64 and not is_noise
        # Numbers that cancel have no size that says how far they may move.
        has_size = is_measured or moved < size
        allowed = _FACTOR * max(own, min(moved, most) if has_size else moved)
        allowed = max(allowed, last_digits(eager.dtype) * size)
        if self._is_shaken:
            return center, allowed, max(_FACTOR * moved, 0.0 if pair.is_alike else most)
        return center, allowed, _FACTOR * most if is_measured else math.inf

    @cached_property
    def _typical(self) -> float:
        """The median relative error of eager mode's values. One number alone may be right by
        chance.
        """
        pairs = [self._pair(kind, name) for kind in COMPUTED for name in self._eager.values[kind]]
        errors = [pair.apart / pair.size for pair in pairs if pair.size]
        return statistics.median([error for error in errors if error <= _NEAR] or [0.0])

    def kinds_apart(self) -> tuple[ResultKind, ...]:
        """List the kinds of results of which the float64 run computed a value in another way."""
        pairs = [(kind, self._pair(kind, n)) for kind in COMPUTED for n in self._eager.values[kind]]
        apart = (kind for kind, it in pairs if it.eager is not None and not it.is_alike)
        return tuple(dict.fromkeys(apart))

    def errors(self, mine: Results) -> tuple[ResultError, ...]:
        """Compute how far results are from the float64 run, next to eager mode's: the largest
        relative error of both, of the values of which the float64 run says something.
        """
        largest: dict[ResultKind, tuple[float, float]] = {}
        for kind in COMPUTED:
            for name in self._precise.values[kind]:
                pair = self._pair(kind, name)
                value = _number(mine.values[kind].get(name))
                precise = pair.precise
                eager = pair.eager
                if precise is None or eager is None or value is None:
                    continue
                if not precise.shape == eager.shape == value.shape:
                    continue
                size, error, eager_error = map(_root_mean_square, _distances(precise, value, eager))
                # A value that is 0 but for rounding has no relative error, and no number is far
                # from infinity.
                most = _half(eager.dtype) if self._eager.draws_random else _NEAR
                is_near = 0 < size < math.inf and eager_error <= most * size
                if is_near and math.isfinite(error):
                    before = largest.get(kind, (0.0, 0.0))
                    largest[kind] = max(before[0], error / size), max(before[1], eager_error / size)
        return tuple(
            ResultError(kind=kind, variant=variant, eager=eager)
            for kind, (variant, eager) in largest.items()
        )


def _is_nearly(value: object, reference: object) -> bool:
    """Return whether two values agree to half of their digits."""
    mine = _number(value)
    other = _number(reference)
    if mine is None or other is None or mine.dtype != other.dtype:
        return False
    return distance(mine, other) <= _half(mine.dtype) * _largest(other)


def _number(value: object) -> Tensor | None:
    """A floating-point value as a tensor; a Python number was read from one, as a rule of
    float32.
    """
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float32, device="cpu")
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_quantized:
        return None
    return value if value.is_floating_point() or value.is_complex() else None


def _half(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps ** 0.5)


def _distances(precise: Tensor, *values: Tensor) -> list[Tensor]:
    """Return a value where it is finite, and how far others are from it there."""
    exact = _exact(precise)
    errors = [exact, *(_exact(value) - exact for value in values)]
    where = exact.isfinite()
    # Choosing elements takes several times as long as all else.
    return errors if where.all() else [error[where] for error in errors]


def _exact(value: Tensor) -> Tensor:
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def _root_mean_square(value: Tensor) -> float:
    """Infinite or NaN if one of the elements is; 0 if there are none."""
    return float(value.abs().square().mean().sqrt()) if value.numel() else 0.0


def _is_small(value: Tensor, precise: Tensor) -> bool:
    if value.shape != precise.shape:
        return False
    size, error = map(_root_mean_square, _distances(precise, value))
    return error <= _FACTOR * _NEAR * size


def _largest(value: Tensor) -> float:
    size = _exact(value).abs().nan_to_num(nan=0.0, posinf=0.0)
    return float(size.max()) if size.numel() else 0.0


def _spacings(value: Tensor, reference: Tensor) -> float | None:
    """Return the largest absolute difference in units of the spacing of numbers there; None if they
    have none.
    """
    if not reference.is_floating_point():
        return None
    apart = (_exact(value) - _exact(reference)).abs().nan_to_num(nan=0.0, posinf=0.0).flatten()
    at = int(apart.argmax())
    return float(apart[at]) / spacing(float(reference.flatten()[at]), reference.dtype)


def spacing(number: float, dtype: torch.dtype) -> float:
    """Return how far the dtype's numbers are apart around a finite one."""
    kind = torch.finfo(dtype)
    return kind.eps * 2.0 ** (math.frexp(max(abs(number), kind.smallest_normal))[1] - 1)


def distance(value: Tensor, precise: Tensor) -> float:
    """Compute the largest absolute difference; infinite if they can't be compared."""
    if value.shape != precise.shape:
        return math.inf
    mine = _exact(value)
    other = _exact(precise)
    apart = (mine - other).abs()
    if apart.numel() and math.isfinite(largest := float(apart.max())):
        return largest
    apart = torch.where((mine == other) | (mine.isnan() & other.isnan()), 0.0, apart)
    apart = apart.nan_to_num(nan=math.inf, posinf=math.inf)
    return float(apart.max()) if apart.numel() else 0.0
