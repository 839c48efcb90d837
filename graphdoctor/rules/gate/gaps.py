"""Capture gaps that the gate acts on. Comes in: a diagnosis. Goes out: why it can't be judged, in the gap's words.

Decides by ``CaptureGap.kind``. A document from graphdoctor 0.1 has no kinds, so there the rule code decides.
"""

from __future__ import annotations

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.recording import CaptureGap, GapKind

_INCOMPLETE: frozenset[GapKind] = frozenset(
    {
        *("unrecorded_compile", "log_damage", "log_cut", "log_beginning", "log_removed"),
        *("unreadable_record", "unfinished_compile"),
    }
)
_INCOMPLETE_CODE = "GD902"
_EMPTY_CODE = "GD905"


def missing_records(diagnosis: Diagnosis) -> str | None:
    """The message of the first gap that means records are missing, so every count may be too low; None if none does."""
    return next((gap.message for gap in diagnosis.recording.gaps if _is_incomplete(gap)), None)


def nothing_compiled(diagnosis: Diagnosis) -> str | None:
    """The message of the gap that says why nothing was compiled, or None."""
    return next((gap.message for gap in diagnosis.recording.gaps if _is_empty(gap)), None)


def _is_incomplete(gap: CaptureGap) -> bool:
    return gap.code == _INCOMPLETE_CODE if gap.kind is None else gap.kind in _INCOMPLETE


def _is_empty(gap: CaptureGap) -> bool:
    return gap.code == _EMPTY_CODE if gap.kind is None else gap.kind == "nothing_compiled"
