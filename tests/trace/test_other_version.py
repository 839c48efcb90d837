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
