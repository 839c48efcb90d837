"""A recording that another version wrote is refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.reader import read_recording


@pytest.mark.parametrize(
    "meta",
    [{"exit": {"status": 0, "mood": "fine"}}, {"target": {"text": 3}}, {"target": {"text": "m.py", "size": 1}}],
    ids=str,
)
def test_a_recording_of_another_shape_is_named(tmp_path: Path, meta: dict[str, object]) -> None:
    (tmp_path / "recording.json").write_text(json.dumps(meta))
    with pytest.raises(GraphDoctorError, match="another version"):
        read_recording(tmp_path)


@pytest.mark.parametrize(
    "event",
    [
        {"event": "lane", "call": 1, "duration_us": "long", "is_profiled": False, "segments": [], "hidden": 0},
        {"event": "gap", "kind": "of no kind", "message": "?"},
        {"event": "coverage", "ops": "many"},
    ],
    ids=lambda event: event["event"],
)
def test_an_event_that_does_not_fit_is_of_another_version(tmp_path: Path, event: dict[str, object]) -> None:
    (tmp_path / "recording.json").write_text('{"format": 1, "target": {}}')
    (tmp_path / "probe.jsonl").write_text(json.dumps(event) + "\n")

    with pytest.raises(GraphDoctorError, match="another version of graphdoctor"):
        read_recording(tmp_path, picture=True)
