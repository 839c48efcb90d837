"""Signatures of recordings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphdoctor.trials.launch.ownership import SIGNATURE_FILE, is_own, sign


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "graphdoctor"


@pytest.fixture
def recording(tmp_path: Path, state: Path) -> Path:
    folder = tmp_path / "recording"
    (folder / "trace").mkdir(parents=True)
    for name in ("request.json", "recording.json", "probe.jsonl", "trace/a.log"):
        (folder / name).write_text(name)
    sign(folder)
    return folder


def test_what_is_signed_is_ones_own(recording):
    assert is_own(recording)


def test_only_the_user_may_read_the_key(recording, state):
    assert [path.name for path in state.iterdir()] == ["key"]
    assert ((state / "key").stat().st_mode & 0o777, state.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("name", ["request.json", "recording.json", "probe.jsonl", "trace/a.log"])
def test_a_changed_file_is_somebody_elses(recording, name):
    (recording / name).write_text("other")
    assert not is_own(recording)


@pytest.mark.parametrize("name", ["trace/b.log", "b.log"])
def test_an_added_log_is_somebody_elses(recording, name):
    (recording / name).write_text("more")
    assert not is_own(recording)


def test_results_of_trials_come_later_and_change_nothing(recording):
    (recording / "fixes.json").write_text("{}")
    assert is_own(recording)


def test_a_recording_that_was_moved_is_not_ones_own(recording):
    assert not is_own(recording.rename(recording.parent / "moved"))


def test_another_machine_is_another(recording, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    assert not is_own(recording)


def test_a_key_that_others_may_read_counts_for_nothing(recording, state):
    (state / "key").chmod(0o644)
    assert not is_own(recording)
    (recording / SIGNATURE_FILE).unlink()
    sign(recording)
    assert not (recording / SIGNATURE_FILE).exists()


def test_a_key_that_is_a_link_counts_for_nothing(recording, state):
    (state / "key").rename(state.parent / "key")
    (state / "key").symlink_to(state.parent / "key")
    assert not is_own(recording)


def test_without_a_state_folder_nothing_is_signed_and_nothing_fails(recording, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    (recording / SIGNATURE_FILE).unlink()
    sign(recording)
    assert not is_own(recording)
