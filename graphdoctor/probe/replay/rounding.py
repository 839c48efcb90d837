"""What rounding is: how far a value may be from a run of the program in float64.

PyTorch's own benchmark runner compares a compiled model's distance from a float64 run with eager
mode's (``same`` in ``torch/_dynamo/utils.py``, 2.13: the root mean square, two or three times that
of eager mode, ten times for small tensors, and anything within an absolute 1e-4 or more). Here it
is the largest distance, because few wrong elements of many hardly show in a mean, and relative to
the largest element, because gradients may be small.

Neither holds where a program has steps: if the input of a ReLU is 0 but for rounding, its gradient
is there or isn't. Eager mode has drawn once, and may have been lucky. ``Shaken`` makes it draw
again, from numbers with other last digits. Of a ResNet in training mode (transformers, 4 images of
64 × 64, float32 on a CPU, torch 2.13), Inductor's gradients are 3.7% off where eager mode's are
0.0003% off, and ``same`` refuses five of them. One of four runs of eager mode that begin with one
unit changed in the last place is 3.7% off too, in as many.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import torch

from ...facts.trials import Judged, ResultError, ResultKind
from .results import COMPUTED, Results

_FACTOR = 2
"""How much farther from a float64 run a value may be than those of the untouched program."""

_NEAR = 0.1
"""The most that a program's own rounding makes of a value. Its dtype doesn't tell: matrix products
may be computed in bfloat16 or TF32 and give float32."""

_SUMS = 0.6
"""The part of the digits that a sum in another order keeps: 7e-5 of float32. PyTorch's runner
allows 1e-4."""

_UNITS = 8
"""How many units in the last place ``Shaken`` changes; in 16 bits, one."""


@dataclass(frozen=True)
class _Tolerance:
    center: torch.Tensor
    allowed: float
    doubtful: float


@dataclass(frozen=True)
class _Known:
    """One value of the float64 run and of eager mode; the rest is about where both have it."""

    precise: torch.Tensor | None
    eager: torch.Tensor | None
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
    ``variant``, compiled as no known run was, what is 0 but for rounding (the gradient of a bias
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
        self._precise, self._eager, self._others = precise or Results(), eager, others
        self._is_variant, self._is_untouched = judged == "variant", judged == "untouched"
        self._is_shaken = is_shaken
        self._known, self._scale = cache(self._look), cache(self._look_at_all)

    def _look(self, kind: str, name: str) -> _Known:
        precise, eager = (number(of.values[kind].get(name)) for of in (self._precise, self._eager))
        if precise is None or eager is None:
            return _Known(precise, eager)
        apart, size, half = distance(eager, precise), _largest(precise), _half(eager.dtype)
        least = max(half * size, half**1.5 * self._scale(kind))
        most = least if self._eager.draws_random else max(least, _NEAR * size)
        return _Known(precise, eager, apart, size, least, apart <= most)

    def _look_at_all(self, kind: str) -> float:
        found = map(number, self._precise.values[kind].values())
        return max((_largest(value) for value in found if value is not None), default=0.0)

    def decides(self, kind: str, name: str) -> bool:
        """Whether only the distance from the float64 run counts: ``assert_close`` allows wrong
        gradients of 1e-6.
        """
        return self._is_variant and self._known(kind, name).is_alike

    def allows(self, kind: str, name: str, value: object) -> bool:
        """Whether a value of a kind differs from the untouched program's by rounding only."""
        mine, tolerance = self._comparable(kind, name, value)
        return (
            mine is not None
            and tolerance is not None
            and distance(mine, tolerance.center) <= tolerance.allowed
        )

    def may_allow(self, kind: str, name: str, value: object) -> bool:
        """Whether a value that isn't allowed may still differ by rounding only."""
        mine, tolerance = self._comparable(kind, name, value)
        if mine is None or tolerance is None:
            return is_nearly(value, self._eager.values[kind].get(name))
        if distance(mine, tolerance.center) <= tolerance.doubtful:
            return True
        # A step may change one element of many altogether.
        return self._is_variant and not self._is_shaken and _is_small(mine, tolerance.center)

    def _comparable(
        self, kind: str, name: str, value: object
    ) -> tuple[torch.Tensor | None, _Tolerance | None]:
        known, mine = self._known(kind, name), number(value)
        if known.eager is None or mine is None or mine.dtype != known.eager.dtype:
            return None, None
        return mine, self._tolerance(kind, name, known, known.eager)

    def _tolerance(
        self, kind: str, name: str, known: _Known, eager: torch.Tensor
    ) -> _Tolerance | None:
        center = known.precise if known.is_alike and known.precise is not None else eager
        values = [number(other.values[kind].get(name)) for other in self._others]
        others = [distance(other, center) for other in values if other is not None]
        if not known.is_alike:
            most = _NEAR * _largest(eager)
            allowed = _FACTOR * max((min(one, most) for one in others), default=0.0)
            return _Tolerance(eager, allowed, most) if self._is_variant else None
        own, size, least = known.apart, known.size, known.least
        if self._is_untouched:
            return _Tolerance(center, max(least, _FACTOR * own), 0.0)
        if not self._is_variant:
            return _Tolerance(
                center, _FACTOR * max([own, *(one for one in others if one <= least)]), 0.0
            )
        most = max(_NEAR * size, least)
        allowed = _FACTOR * max([own, self._typical * size, *(min(one, most) for one in others)])
        allowed = max(allowed, torch.finfo(eager.dtype).eps ** _SUMS * size)
        if own > _half(eager.dtype) * size:
            allowed = max(allowed, least)
        return _Tolerance(
            center, allowed, _FACTOR * (max(others, default=0.0) if self._is_shaken else most)
        )

    @cached_property
    def _typical(self) -> float:
        """The median relative error of eager mode's values. One number alone may be right by
        chance.
        """
        known = [self._known(kind, name) for kind in COMPUTED for name in self._eager.values[kind]]
        found = [each.apart / each.size for each in known if each.size]
        return statistics.median([one for one in found if one <= _NEAR] or [0.0])

    def kinds_apart(self) -> tuple[ResultKind, ...]:
        """Kinds of results of which the float64 run computed a value in another way."""
        return tuple(
            kind
            for kind in COMPUTED
            if any(
                known.eager is not None and not known.is_alike
                for known in (self._known(kind, name) for name in self._eager.values[kind])
            )
        )

    def errors(self, mine: Results) -> tuple[ResultError, ...]:
        """How far results are from the float64 run, next to eager mode's."""
        pairs = {kind: list(self._errors(kind, mine.values[kind])) for kind in COMPUTED}
        worst = {kind: map(max, zip(*found, strict=True)) for kind, found in pairs.items() if found}
        return tuple(
            ResultError(kind=kind, variant=variant, eager=eager)
            for kind, (variant, eager) in worst.items()
        )

    def _errors(self, kind: str, mine: Mapping[str, object]) -> Iterator[tuple[float, float]]:
        """For each value of which the float64 run says something, the relative errors of both."""
        for name in self._precise.values[kind]:
            known, value = self._known(kind, name), number(mine.get(name))
            precise, eager = known.precise, known.eager
            if (
                precise is None
                or eager is None
                or value is None
                or not precise.shape == eager.shape == value.shape
            ):
                continue
            size, *errors = (_root_mean_square(one) for one in _errors(precise, value, eager))
            # A value that is 0 but for rounding has no relative error, and no number is far from
            # infinity.
            most = _half(eager.dtype) if self._eager.draws_random else _NEAR
            if 0 < size < math.inf and errors[1] <= most * size and math.isfinite(errors[0]):
                yield errors[0] / size, errors[1] / size


class Shaken:
    """Changes numbers in their last digits, up or down at random."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def shake(self, tensors: Iterable[torch.Tensor]) -> None:
        """Change tensors in place; whole numbers, which may count or choose something, stay."""
        for tensor in tensors:
            if tensor.is_floating_point() and tensor.layout is torch.strided:
                kept = tensor.data
                signs = (
                    torch.randint(0, 2, tensor.shape, generator=self._generator).to(kept) * 2 - 1
                )
                units = _UNITS if tensor.element_size() > 2 else 1
                changed = kept * (1 + signs * units * torch.finfo(tensor.dtype).eps)
                tensor.data = torch.where(kept == kept.round(), kept, changed)


def is_nearly(value: object, wanted: object) -> bool:
    """Whether a value is another to half of its digits."""
    mine, other = number(value), number(wanted)
    if mine is None or other is None or mine.dtype != other.dtype:
        return False
    return distance(mine, other) <= _half(mine.dtype) * _largest(other)


def number(value: object) -> torch.Tensor | None:
    """A floating-point value as a tensor; a Python number was read from one, as a rule of
    float32.
    """
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float32)
    if (
        not isinstance(value, torch.Tensor)
        or value.layout is not torch.strided
        or value.is_quantized
    ):
        return None
    return value if value.is_floating_point() or value.is_complex() else None


def _half(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps ** 0.5)


def _errors(precise: torch.Tensor, *values: torch.Tensor) -> list[torch.Tensor]:
    """A value where it is finite, and how far others are from it there."""
    exact = _exact(precise)
    where = exact.isfinite()
    if where.all():  # choosing elements takes several times as long as all else
        return [exact, *(_exact(value) - exact for value in values)]
    return [exact[where], *(_exact(value)[where] - exact[where] for value in values)]


def _exact(value: torch.Tensor) -> torch.Tensor:
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def _root_mean_square(value: torch.Tensor) -> float:
    """Infinite or NaN if one of the elements is; 0 if there are none."""
    return float(value.abs().square().mean().sqrt()) if value.numel() else 0.0


def _is_small(value: torch.Tensor, precise: torch.Tensor) -> bool:
    if value.shape != precise.shape:
        return False
    size, error = (_root_mean_square(one) for one in _errors(precise, value))
    return error <= _FACTOR * _NEAR * size


def _largest(value: torch.Tensor) -> float:
    size = _exact(value).abs().nan_to_num(nan=0.0, posinf=0.0)
    return float(size.max()) if size.numel() else 0.0


def distance(value: torch.Tensor, precise: torch.Tensor) -> float:
    """The largest absolute difference; infinite if they can't be compared."""
    if value.shape != precise.shape:
        return float("inf")
    mine, other = _exact(value), _exact(precise)
    apart = (mine - other).abs()
    if apart.numel() and math.isfinite(largest := float(apart.max())):
        return largest
    apart = torch.where((mine == other) | (mine.isnan() & other.isnan()), 0.0, apart)
    infinity = float("inf")
    return float(apart.nan_to_num(nan=infinity, posinf=infinity).max()) if apart.numel() else 0.0
