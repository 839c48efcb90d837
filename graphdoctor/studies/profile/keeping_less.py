"""Says whether keeping less for the backward pass is worth it.

Comes in: what a call keeps, and what replays showed of the same call with another setting. Goes out: ``MemoryTrial``.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphdoctor.facts.fixes import PairedTime
from graphdoctor.facts.profile import MemoryOutcome, MemoryTrial, MemoryUse
from graphdoctor.facts.profiled import MeasuredMemory
from graphdoctor.facts.run import Setting

_LESS = 0.99
"""What is kept is less below this share of what was."""


@dataclass(frozen=True)
class Replayed:
    """What replays showed.

    Args:
        memory: Memory of the call with the setting; None if it wasn't measured.
        is_same: Results and gradients are the same but for rounding; None if that is unknown.
        times: The call with the setting and without it, in turns; None if it wasn't timed.
        reason: Why results differ, or why something is unknown, as a clause; None if there is nothing to say.
    """

    memory: MeasuredMemory | None
    is_same: bool | None
    times: PairedTime | None
    reason: str | None = None


def keeps_less(before: MemoryUse, after: MeasuredMemory | None) -> bool:
    """Whether certainly less is kept.

    Args:
        before: What was kept.
        after: What is; None if unknown.
    """
    if before.saved_bytes is None or after is None or after.saved_bytes is None:
        return False
    return after.saved_bytes < _LESS * before.saved_bytes


def memory_trial(setting: Setting, before: MemoryUse, found: Replayed) -> MemoryTrial:
    """What came of a setting.

    Args:
        setting: What was set.
        before: Memory of the call without it.
        found: What replays showed.
    """
    after, times = found.memory, found.times
    # What else is in another process isn't the same.
    has_own_peak = after is not None and after.peak_of == "allocator"
    return MemoryTrial(
        what=setting.line,
        outcome=_outcome(before, found),
        saved_bytes=None if after is None else after.saved_bytes,
        peak_bytes=after.peak_bytes if after is not None and has_own_peak else None,
        ratio=None if times is None else times.ratio,
        is_same=found.is_same,
        ratio_low=None if times is None else times.ratio_low,
        ratio_high=None if times is None else times.ratio_high,
        reason=found.reason,
    )


def _outcome(before: MemoryUse, found: Replayed) -> MemoryOutcome:
    if found.is_same is False:
        return "differs"
    after = found.memory
    if after is None or after.saved_bytes is None or before.saved_bytes is None:
        return "failed"
    if not keeps_less(before, after):
        return "nothing"
    if found.times is None:
        return "failed"
    saved = 1 - after.saved_bytes / before.saved_bytes
    if found.times.ratio_high - 1 <= saved:
        return "saves"
    return "costly" if found.times.ratio_low - 1 > saved else "unclear"
