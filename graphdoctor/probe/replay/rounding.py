"""What rounding is, from a run of the program in float64: how far from that a value may be.

PyTorch's own benchmark runner judges so (``same`` in ``torch/_dynamo/utils.py``, 2.13).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch

from ..wire import Judged, ResultErrorRecord
from .results import COMPUTED, Results

_FACTOR = 2
"""How much farther from a float64 run a value may be than those of the untouched program."""

_NEAR = 0.1
"""The most that a program's own rounding makes of a value. Its dtype doesn't tell: matrix products may be computed in
bfloat16 or TF32 and give float32."""


class Rounding:
    """How far from a float64 run values may be.

    That run is only used for values that the program without torch.compile computes nearly the same. Elsewhere it took
    another way. If the program draws random numbers, which may be others in float64, it has to agree to half the digits
    of the dtype.

    Args:
        precise: The float64 run.
        eager: The untouched program without torch.compile.
        others: More runs of the untouched program, with torch.compile and without.
        judged: What the values to judge are from. ``untouched``: the untouched program as it was run before, of which
            half the digits are enough; ``variant``: the untouched program, compiled in a way that no known run was.
            What is 0 but for rounding (the gradient of a bias before a batch norm) is then as large as other kernels
            make it.
    """

    def __init__(self, precise: Results, eager: Results, others: Sequence[Results], *, judged: Judged) -> None:
        self._precise = precise
        self._eager = eager
        self._others = others
        self._judged = judged
        self._scales: dict[str, float] = {}

    def allows(self, kind: str, name: str, value: object) -> bool:
        """Whether a value of a kind differs from the untouched program's by rounding only."""
        precise, eager, mine = (*self._pair(kind, name), number(value))
        if precise is None or eager is None or mine is None or mine.dtype != eager.dtype:
            return False
        if not self.is_known(kind, name):
            return False
        most, distance = self._least(kind, precise, eager.dtype), _distance(eager, precise)
        has_digits = distance <= _half(eager.dtype) * _largest(precise)
        if self._judged == "untouched" or (self._judged == "variant" and not has_digits):
            return _distance(mine, precise) <= max(most, _FACTOR * distance)
        known = [number(other.values[kind].get(name)) for other in self._others]
        distances = [_distance(other, precise) for other in known if other is not None]
        return _distance(mine, precise) <= _FACTOR * max([distance, *(one for one in distances if one <= most)])

    def is_known(self, kind: str, name: str) -> bool:
        """Whether the float64 run computed a value as the untouched program does."""
        precise, eager = self._pair(kind, name)
        if precise is None or eager is None:
            return False
        least, distance = self._least(kind, precise, eager.dtype), _distance(eager, precise)
        return distance <= (least if self._eager.draws_random else max(least, _NEAR * _largest(precise)))

    def kinds_apart(self) -> list[str]:
        """Kinds of results of which the float64 run computed a value in another way."""
        return [kind for kind in COMPUTED if any(self._is_apart(kind, name) for name in self._eager.values[kind])]

    def _is_apart(self, kind: str, name: str) -> bool:
        return number(self._eager.values[kind][name]) is not None and not self.is_known(kind, name)

    def errors(self, mine: Results) -> list[ResultErrorRecord]:
        """How far results are from the float64 run, next to eager mode's.

        Args:
            mine: The results.
        """
        found = []
        for kind in COMPUTED:
            pairs = list(self._errors(kind, mine.values[kind]))
            if pairs:
                variant, eager = (max(values) for values in zip(*pairs, strict=True))
                found.append(ResultErrorRecord(kind=kind, variant=variant, eager=eager))
        return found

    def _errors(self, kind: str, mine: Mapping[str, object]) -> Iterator[tuple[float, float]]:
        """For each value of which the float64 run says something, the relative errors of both."""
        for name in self._precise.values[kind]:
            precise, eager, value = (*self._pair(kind, name), number(mine.get(name)))
            if precise is None or eager is None or value is None or not precise.shape == eager.shape == value.shape:
                continue
            size, *errors = (_root_mean_square(one) for one in _errors(precise, value, eager))
            # A value that is 0 but for rounding has no relative error, and no number is far from infinity.
            most = _half(eager.dtype) if self._eager.draws_random else _NEAR
            if 0 < size < math.inf and errors[1] <= most * size and math.isfinite(errors[0]):
                yield errors[0] / size, errors[1] / size

    def _pair(self, kind: str, name: str) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        return number(self._precise.values[kind].get(name)), number(self._eager.values[kind].get(name))

    def _least(self, kind: str, precise: torch.Tensor, dtype: torch.dtype) -> float:
        """What is rounding in any program of a dtype."""
        if kind not in self._scales:
            found = map(number, self._precise.values[kind].values())
            self._scales[kind] = max((_largest(value) for value in found if value is not None), default=0.0)
        return max(_half(dtype) * _largest(precise), _half(dtype) ** 1.5 * self._scales[kind])


def is_nearly(value: object, wanted: object) -> bool:
    """Whether a value is another to half of its digits."""
    mine, other = number(value), number(wanted)
    if mine is None or other is None or mine.dtype != other.dtype:
        return False
    return _distance(mine, other) <= _half(mine.dtype) * _largest(other)


def number(value: object) -> torch.Tensor | None:
    """A floating-point value as a tensor; a Python number was read from one, as a rule of float32."""
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float32)
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_quantized:
        return None
    return value if value.is_floating_point() or value.is_complex() else None


def _half(dtype: torch.dtype) -> float:
    """The relative error of a value with half of the digits."""
    return float(torch.finfo(dtype).eps ** 0.5)


def _errors(precise: torch.Tensor, *values: torch.Tensor) -> list[torch.Tensor]:
    """A value where it is finite, and how far others are from it there."""
    exact = precise.to(torch.complex128)
    where = exact.isfinite()
    return [exact[where], *(value.to(torch.complex128)[where] - exact[where] for value in values)]


def _root_mean_square(value: torch.Tensor) -> float:
    """Infinite or NaN if one of the elements is; 0 if there are none."""
    return float(value.abs().square().mean().sqrt()) if value.numel() else 0.0


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
