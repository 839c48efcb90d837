"""Hand-built diagnoses for the gate's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from tests.factories import entry, record, recording


def with_prints(*places: tuple[int, str], **facts: Any) -> Diagnosis:
    """A run of ``model.py`` with a print at each line, each with a text of its own; facts of the recording replaced."""
    breaks = tuple(record(entry(line, f'print("{text}")')) for line, text in places)
    known = recording(breaks=breaks).replace(**facts)
    return diagnose(known, RULES, root=Path("/project"), version="1")
