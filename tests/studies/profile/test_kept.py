"""A profile that was made before can be shown again, in any format."""

import shutil
from pathlib import Path

import pytest

from graphdoctor.commands.named import NamedRun
from graphdoctor.commands.profile import kept_profile
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.reading import json_of
from graphdoctor.probe.wire import PROFILE_FILE
from graphdoctor.rules.diagnosed import Needs
from tests.conftest import RECORDED_LOGS
from tests.studies.profile.reports import profiled

RECORDING = RECORDED_LOGS / "2.13.0" / "break_in_try"


@pytest.fixture
def folder(tmp_path):
    """A recording with a profile."""
    folder = Path(shutil.copytree(RECORDING, tmp_path / "recording"))
    (folder / PROFILE_FILE).write_text(json_of(profiled()))
    return folder


def test_a_document_has_no_picture(folder):
    found = kept_profile(NamedRun(folder / PROFILE_FILE, "document"), Needs(picture=True))
    assert (found.report, found.picture) == (profiled(), None)


def test_a_recording_without_a_profile_and_another_document_are_refused(folder):
    (folder / PROFILE_FILE).write_text("{}")
    with pytest.raises(GraphDoctorError, match="isn't a profile"):
        kept_profile(NamedRun(folder, "folder"), Needs())
    (folder / PROFILE_FILE).unlink()
    with pytest.raises(GraphDoctorError, match="holds no profile"):
        kept_profile(NamedRun(folder, "folder"), Needs())
