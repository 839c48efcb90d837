"""Verified fixes that are kept, and when they are taken again, without any probe."""

from __future__ import annotations

import errno
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.commands.settings import load_settings
from graphdoctor.facts.counts import Counts
from graphdoctor.facts.fixes import Treatment, TrialChoices, because
from graphdoctor.facts.reading import json_of
from graphdoctor.facts.spec import RunSpec
from graphdoctor.fixes.kept import EarlierTrials, keep, kept_fixes
from graphdoctor.fixes.patch import FileChange, SearchResult, diff_text
from graphdoctor.probe.wire import (
    FIXES_FILE,
    FORMAT,
    META_FILE,
    READS_FILE,
    REQUEST_FILE,
    TRACE_FOLDER,
)
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.ownership import sign
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.launch.unchanged import Change
from tests.each import for_each

BEFORE, AFTER = b"caf\xe9 = 1\r\n", b"caf\xe9 = 2\r\n"
COUNTS = Counts(
    break_sites=1, skipped_frames=0, graphs=2, compiles=2, recompiles=0, frames_over_limit=0
)
CHOICES = TrialChoices(is_unsafe_tried=False, is_timed=True)


class Project:
    """A program that was tried, and the recording of it.

    Args:
        folder: The working directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "model.py"
        self.program.write_bytes(BEFORE)
        time.sleep(0.02)
        self.request = Request.of(RunSpec(target="model.py"), Measured(coverage=True, reads=True))
        self.setup = Setup(python=sys.executable)
        self.recording = folder / ".graphdoctor" / "20261122-101112-000001-model"
        self.recording.joinpath(TRACE_FOLDER).mkdir(parents=True)
        self.recording.joinpath("fixes").mkdir()
        self.recording.joinpath(REQUEST_FILE).write_text("{}")
        meta = {"format": FORMAT, "target": {"text": "model.py"}, "exit": None}
        self.recording.joinpath(META_FILE).write_text(json.dumps(meta))
        reads = {
            "files": [str(self.program)],
            "missing": [],
            "search_path": [],
            "prefix": [],
            "unseen": [],
        }
        self.recording.joinpath(READS_FILE).write_text(json.dumps(reads))
        sign(self.recording)
        self.change = FileChange(self.program, BEFORE, AFTER)

    def keep(self, **more: Any) -> None:
        values: dict[str, Any] = {
            "tried": (),
            "before": COUNTS,
            "after": COUNTS,
            "choices": CHOICES,
        }
        treatment = Treatment(**{**values, "diff": diff_text(self.change, self.folder), **more})
        (self.recording / FIXES_FILE).write_text(json_of(treatment))
        keep(self.request, self.recording, SearchResult(treatment, (self.change,)), self.setup)

    def found(self, **choices: Any) -> EarlierTrials | None:
        choices_now = CHOICES.replace(**choices)
        return kept_fixes(
            self.request, choices_now, load_settings(self.folder).store, self.setup.interpreter
        )

    def outdated(self, **choices: Any) -> Change | None:
        """Return why kept fixes aren't used again."""
        outdated = self.found(**choices)
        assert outdated is not None
        assert (outdated.result, outdated.trials) == (None, None)
        return outdated.change

    def rewrite(self, **changes: Any) -> None:
        """Change what was kept, as somebody without the key would."""
        file = self.recording / "verified.json"
        written = json.loads(file.read_text())
        file.write_text(
            json.dumps(written | {"content": json.dumps(json.loads(written["content"]) | changes)})
        )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Project(folder)


def test_what_was_verified_is_taken_again_byte_for_byte(project):
    project.keep()
    kept = project.found()
    assert kept.result is not None
    assert kept.recording == project.recording
    assert kept.result.changes == (project.change,)
    assert kept.result.treatment.choices == CHOICES
    assert 0 <= kept.age_s < 60
    # Trials don't measure what a command measures besides the calls.
    measured = Measured(coverage=True, guard_cost=True, lanes=True)
    project.request = replace(project.request, measured=measured)
    assert project.found().result is not None


@for_each("changes", [
        {"calls": 2}, {"backend": "inductor"}, {"dynamic": True}, {"inputs": ("f32[2]",)}, {"seed": 1}, {"train": True},
        {"config": {"torch._dynamo.config.capture_scalar_outputs": True}}, {"target": "model.py:other"},
    ])  # fmt: skip
def test_another_request_has_fixes_of_its_own(project, changes):
    project.keep()
    project.request = Request.of(replace(project.request.spec, **changes), Measured(coverage=True))
    if "target" in changes:
        assert project.found() is None
    else:
        assert project.outdated() == Change("options", ",".join(changes))


@for_each(
    "changes",
    [
        {"is_unsafe_tried": True},
        {"is_timed": False},
        {"select": ("GD1",)},
        {"ignore": ("GD2",)},
        {"is_own_code_only": True},
    ],
)
def test_other_options_of_the_trials_have_fixes_of_their_own(project, changes):
    project.keep()
    assert project.outdated(**changes) == Change("options", ",".join(changes))


@for_each("more", [{"after": None}, {"choices": None}])
def test_what_verified_nothing_is_not_kept(project, more):
    project.keep(**more)
    assert project.found() is None


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_trials_of_an_unfinished_search_are_kept_while_nobody_changes_them(project, is_interrupted):
    for name in ("trial-1", "trial-2"):
        folder = project.recording / "fixes" / name
        folder.mkdir()
        (folder / "outputs.pt").write_text(name)
    notes = () if is_interrupted else (because("bounded"),)
    project.keep(after=None, is_interrupted=is_interrupted, notes=notes)
    unfinished = project.found(is_timed=False)
    assert unfinished.trials == {"trial-1", "trial-2"}
    (project.recording / "fixes" / "trial-2" / "outputs.pt").write_text("something else")
    assert project.found().trials == {"trial-1"}
    project.rewrite(trials={})
    assert project.found() is None


@pytest.mark.parametrize("is_during", [False, True])
def test_a_program_that_was_edited_is_tried_anew(project, is_during):
    if not is_during:
        project.keep()
    project.program.write_bytes(BEFORE + b"# more\n")
    if is_during:
        project.keep()
    assert project.outdated() == Change("file", str(project.program))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda project: project.rewrite(changes=[[str(project.program), "", "cm0gLXJm"]]),
        lambda project: (project.recording / REQUEST_FILE).write_text('{"other": 1}'),
        lambda project: project.recording.rename(
            project.recording.with_name("20261122-101112-000002-model")
        ),
        lambda project: (project.recording / "verified.json").write_text("[1]"),
        lambda project: (project.recording / "verified.json").write_text("{"),
    ],
    ids=("edits", "recording", "place", "no object", "no JSON"),
)
def test_what_somebody_else_changed_counts_for_nothing(project, spoil):
    project.keep()
    spoil(project)
    assert project.found() is None


def test_without_the_key_nothing_is_kept_or_taken(project, monkeypatch):
    project.keep()
    monkeypatch.setenv("XDG_STATE_HOME", str(project.folder / "elsewhere"))
    assert project.found() is None
    project.keep()
    assert project.found() is None


def of_another_file(project: Project) -> Change:
    """An edit of a file that nothing read."""
    other = project.folder / "other.py"
    other.write_bytes(BEFORE)
    project.change = FileChange(other, BEFORE, AFTER)
    project.keep()
    return Change("file", str(other))


def by_another_interpreter(project: Project) -> Change:
    project.keep()
    project.setup = replace(project.setup, python="/usr/bin/another")
    return Change("interpreter", sys.executable)


def with_other_results(project: Project) -> None:
    project.keep()
    file = project.recording / FIXES_FILE
    file.write_text(file.read_text().replace("= 2", "= 3"))


@pytest.mark.parametrize("keep", [of_another_file, by_another_interpreter, with_other_results])
def test_what_is_not_what_was_kept_is_refused(project, keep):
    change = keep(project)
    assert project.outdated() == change


def test_the_newest_counts(project):
    project.keep()
    content = (project.recording / "verified.json").read_bytes()
    (project.folder / ".graphdoctor" / "20261122-111112-000001-model").mkdir()
    kept = project.found()
    assert kept.result is not None
    assert (kept.recording / "verified.json").read_bytes() == content


@pytest.mark.parametrize("is_full", [True, False])
def test_a_full_disk_or_another_version_keeps_nothing(project, monkeypatch, is_full):
    def full(path: Path, *_args: Any, **_options: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        if is_full:
            patched.setattr(Path, "iterdir", full)
        else:
            patched.setattr("graphdoctor.fixes.kept._FORMAT", 1)
        project.keep()
    assert project.found() is None
