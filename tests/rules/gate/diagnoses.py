"""Hand-built diagnoses for the gate's tests."""

from __future__ import annotations

from tests.factories import diagnosed, entry, record, recording


def with_prints(*places, **facts):
    """A run of ``model.py`` with a print at each line, each with a text of its own; facts of the
    recording replaced."""
    breaks = tuple(record(entry(line, f'print("{text}")')) for line, text in places)
    return diagnosed(recording(breaks=breaks), **facts)
