"""Measurements as text, for benches, profiles, cures and surveys: times, sizes, ratios, the parts
of a call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from graphdoctor.facts.bench import PROCESSES_DIFFER, CallTimes, Judgement, Noise, Speedup, Variant
from graphdoctor.facts.kernels import CudaGraphSkip
from graphdoctor.facts.survey import GeometricMean
from graphdoctor.views.parts import Cell, Tone
from graphdoctor.views.words import SAME_SPEED, TOO_NOISY, UNKNOWN, WIDE, about_count, about_time
from graphdoctor.wording import counted, factor_text, percent

_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
EMPTY = Cell("")
_MANYFOLD = 2


@dataclass(frozen=True)
class TimePart:
    """A part of the time of a call, in microseconds and as a share from 0 to 1."""

    name: str
    kind: str
    us: float
    share: float

    @property
    def text(self) -> str:
        """It in words."""
        return f"{self.name} {time_text(self.us)} ({percent(self.share)})"


def parts_of_call(call_us: float, named: Iterable[tuple[str, str, float | None]]) -> list[TimePart]:
    """Return parts by name, kind and time; kernels of several streams or threads can take longer
    than the call.

    Their shares are then those of all parts, so that they make 100% at most.
    """
    timed = [(name, kind, us) for name, kind, us in named if us and call_us > 0]
    whole_us = max(call_us, sum(us for _, _, us in timed))
    return [TimePart(name, kind, us, us / whole_us) for name, kind, us in timed]


def noise_text(noise: Noise) -> str:
    """Say how steady the machine was, as a clause."""
    spread = f"{noise.spread:,.1f}×" if noise.spread >= _MANYFOLD else percent(noise.spread)
    if noise.ratio is None:
        return f"noise: {spread} between calls"
    apart = percent(max(noise.ratio, 1 / noise.ratio) - 1)
    return f"noise: {apart} between runs, {spread} between calls"


def call_cell(times: CallTimes | None) -> Cell:
    """Return the median; as its detail, the quartiles in the same unit."""
    if times is None:
        return EMPTY
    size, unit = _unit(times.median)
    median, q1, q3 = (
        _digits(us / size, times.median / size) for us in (times.median, times.q1, times.q3)
    )
    return Cell(f"{median} {unit}", f"{q1} to {q3}")


def interval_text(low: float, high: float) -> str:
    """Return an interval of ratios."""
    return f"{factor_text(low)[:-1]} to {factor_text(high)[:-1]}"


def is_too_noisy(speedup: Speedup, judgement: Judgement = "same") -> bool:
    """Tell whether it isn't known if there is a difference: the interval is wide, or what it shows
    may be noise.
    """
    is_known = speedup.low <= 1 <= speedup.high or abs(speedup.ratio - 1) <= PROCESSES_DIFFER
    return judgement == "same" and (speedup.high > WIDE * speedup.low or not is_known)


def speedup_text(speedup: Speedup) -> str:
    """Return a ratio with its interval, or what there is to say where that holds 1."""
    if speedup.low <= 1 <= speedup.high:
        return TOO_NOISY if is_too_noisy(speedup) else SAME_SPEED
    return f"{speed_of(speedup.ratio)} ({_ends(speedup)})"


def speed_cell(speedup: Speedup | GeometricMean, tone: Tone | None = None) -> Cell:
    """Return it in a column of speed-ups: of what is slower, how much slower it is."""
    text = speed_of(speedup.ratio).removesuffix(" faster")
    return Cell(text, _ends(speedup), tone, speedup.ratio)


def _ends(speedup: Speedup | GeometricMean) -> str:
    if speedup.ratio < 1:
        return interval_text(1 / speedup.high, 1 / speedup.low)
    return interval_text(speedup.low, speedup.high)


def speed_of(ratio: float) -> str:
    """Say how much faster or slower a speed-up makes a call."""
    if ratio < 1:
        return f"{factor_text(1 / ratio)} slower"
    return f"{factor_text(ratio)} faster"


def calls_text(calls: int) -> str:
    """Say about how many calls."""
    return "1 call" if calls == 1 else f"{about_count(calls)} calls"


def calling_text(calls: int, eager: Variant) -> str:
    """Say how long calling takes until compiling is won back; empty if unknown."""
    return "" if eager.time_us is None else about_time(calls * eager.time_us / 1e6)


def skip_text(skip: CudaGraphSkip) -> str:
    """Say why a graph isn't a CUDA graph, in torch's words, with the line that it points to."""
    place = "" if skip.file is None else f", at {PurePath(skip.file).name}:{skip.line}"
    return f"{skip.reason}{place}"


def time_text(us: float) -> str:
    """Return a time with three digits that count, in a unit that fits it."""
    size, unit = _unit(us)
    return f"{_digits(us / size)} {unit}"


def seconds_text(seconds: float | None) -> str:
    """Return seconds of compiling."""
    return UNKNOWN if seconds is None else time_text(seconds * 1e6)


def _unit(us: float) -> tuple[float, str]:
    return next((pair for pair in _UNITS if us >= pair[0]), _UNITS[-1])


def _digits(value: float, like: float | None = None) -> str:
    """Return a number in as many digits as three that count need in another, by default in
    itself.
    """
    size = value if like is None else like
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2}f}"


def bytes_text(size: int | None) -> str | None:
    """Return memory, in a unit that fits it."""
    if size is None:
        return None
    return next(
        (f"{_digits(size / unit)} {name}" for unit, name in _BYTES if size >= unit),
        counted(size, "byte"),
    )


def rate_text(per_second: float | None) -> str | None:
    """Return items a second."""
    if per_second is None:
        return None
    return f"{float(f'{per_second:.3g}'):,.0f}" if per_second >= 100 else f"{per_second:.3g}"
