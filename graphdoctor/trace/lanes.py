"""Calls on a time axis, from the probe's ``lane`` events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphdoctor.model.picture import Lane
from graphdoctor.model.recording import Recording


def read_lanes(events: Sequence[dict[str, Any]], recording: Recording) -> tuple[Lane, ...]:
    """The lanes."""
    return ()
