"""Whether a run would find everything as before, on runs written by hand: each way that something can change."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.probe.wire import READS_FILE, REQUEST_FILE
from graphdoctor.trials.launch.ownership import sign
from graphdoctor.trials.launch.unchanged import Change, Surroundings, first_change, surroundings_of


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program, a module of it, its data, and a folder of installed packages, all older than the run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    for name in ("model.py", "package/helper.py", "data.csv"):
        (folder / name).write_text(name)
    installed = tmp_path / "env" / "lib" / "site-packages"
    (installed / "torch-2.13.dist-info").mkdir(parents=True)
    (installed / "torch.py").write_text("version")
    monkeypatch.chdir(folder)
    time.sleep(0.02)
    return folder


def ran(project: Path, name: str = "recording", **more: Any) -> Path:
    """A recording of a run that read everything."""
    recording = project / ".graphdoctor" / name
    recording.mkdir(parents=True)
    (recording / REQUEST_FILE).write_text("{}")
    installed = project.parent / "env" / "lib" / "site-packages"
    reads = {
        "files": [str(project / "model.py"), str(project / "package" / "helper.py"), str(project / "data.csv"),
                  str(installed / "torch.py")],
        "missing": [str(project / "optional.json")],
        "search_path": [str(project), str(installed)], "prefix": [str(project.parent / "env")], "unseen": [], **more,
    }  # fmt: skip
    (recording / READS_FILE).write_text(json.dumps(reads))
    sign(recording)
    return recording


def known(project: Path, **more: Any) -> Surroundings:
    found = surroundings_of(ran(project, **more), (), interpreter=sys.executable)
    assert isinstance(found, Surroundings), found
    # As it comes back from a file.
    return Surroundings(**json.loads(json.dumps(vars(found))))


def change_after(project: Path, change: Callable[[], object], **more: Any) -> Change | None:
    before = known(project, **more)
    change()
    return first_change(before, interpreter=sys.executable)


def test_nothing_changed(project: Path) -> None:
    assert change_after(project, lambda: None) is None


def test_what_the_command_writes_beside_the_program_changes_nothing(project: Path) -> None:
    def write() -> None:
        (project / "report.html").write_text("")
        (project / ".graphdoctor" / "another").mkdir()

    assert change_after(project, write) is None


@pytest.mark.parametrize("name", ["model.py", "package/helper.py", "data.csv"])
def test_a_file_with_other_content_changed(project: Path, name: str) -> None:
    found = change_after(project, lambda: (project / name).write_text("other"))
    assert found == Change("file", str(project / name))


def test_content_that_keeps_its_size_and_time_changed_all_the_same(project: Path) -> None:
    path = project / "model.py"
    times = path.stat()

    def forge() -> None:
        path.write_text("MODEL.py")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert change_after(project, forge) == Change("file", str(path))


def test_the_same_content_written_again_is_the_same(project: Path) -> None:
    path = project / "model.py"

    def to_another_branch_and_back() -> None:
        text = path.read_text()
        path.write_text("other")
        path.write_text(text)

    assert change_after(project, to_another_branch_and_back) is None


def test_a_file_that_is_gone_changed(project: Path) -> None:
    assert change_after(project, (project / "data.csv").unlink) == Change("file", str(project / "data.csv"))


def test_a_link_that_leads_elsewhere_changed(project: Path) -> None:
    link, path = project / "weights.pt", project / "data.csv"
    link.symlink_to(path)
    (project / "other.csv").write_text("data.cs2")
    time.sleep(0.02)

    def lead() -> None:
        link.unlink()
        link.symlink_to(project / "other.csv")

    assert change_after(project, lead, files=[str(link)]) == Change("file", str(link))


def test_a_file_that_was_missed_and_is_there_now_changed(project: Path) -> None:
    found = change_after(project, lambda: (project / "optional.json").write_text("{}"))
    assert found == Change("file", str(project / "optional.json"))


def test_an_installed_file_counts_as_changed_by_its_times_alone(project: Path) -> None:
    path = project.parent / "env" / "lib" / "site-packages" / "torch.py"
    assert change_after(project, lambda: path.write_text("version")) == Change("file", str(path))


def test_a_package_that_was_installed_changed_the_modules(project: Path) -> None:
    installed = project.parent / "env" / "lib" / "site-packages"
    assert change_after(project, (installed / "flash_attn").mkdir) == Change("modules", str(installed))


def test_a_module_that_hides_another_changed_the_modules(project: Path) -> None:
    found = change_after(project, lambda: (project / "random.py").write_text(""))
    assert found == Change("modules", str(project))


def test_a_folder_of_modules_that_appears_changed(project: Path) -> None:
    user_site = project.parent / "user-site"
    found = change_after(project, user_site.mkdir, search_path=[str(user_site)])
    assert found == Change("modules", str(user_site))


def test_a_variable_changed_whether_new_gone_or_other(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "dynamo")
    before = known(project)
    monkeypatch.setenv("TORCH_LOGS", "inductor")
    assert first_change(before, interpreter=sys.executable) == Change("variable", "TORCH_LOGS")
    monkeypatch.delenv("TORCH_LOGS")
    assert first_change(before, interpreter=sys.executable) == Change("variable", "TORCH_LOGS")
    monkeypatch.setenv("TORCH_LOGS", "dynamo")
    assert first_change(before, interpreter=sys.executable) is None
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert first_change(before, interpreter=sys.executable) == Change("variable", "TORCHDYNAMO_DISABLE")


def test_what_the_shell_changes_by_itself_is_no_change(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = known(project)
    for name in ("_", "OLDPWD", "SHLVL", "COLUMNS"):
        monkeypatch.setenv(name, "123")
    assert first_change(before, interpreter=sys.executable) is None


def test_values_of_variables_are_not_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret-of-mine")
    assert "secret-of-mine" not in json.dumps(vars(known(project)))


def test_another_interpreter_or_folder_changed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = known(project)
    assert first_change(before, interpreter="/usr/bin/python3") == Change("interpreter", sys.executable)
    monkeypatch.chdir(project / "package")
    assert first_change(before, interpreter=sys.executable) == Change("folder", str(project))


def test_a_new_version_of_graphdoctor_changed(project: Path) -> None:
    import graphdoctor

    before = known(project)
    own = str(Path(graphdoctor.__file__).parent / "fixes" / "verdicts.py")
    assert own in before.files
    other = {**before.files, own: [1, 2, 3, None]}
    changed = Surroundings(**{**vars(before), "files": other})
    assert first_change(changed, interpreter=sys.executable) == Change("file", own)


def test_a_file_that_changed_while_it_ran_proves_nothing(project: Path) -> None:
    recording = ran(project)
    (project / "package" / "helper.py").write_text("edited during the trials")
    found = surroundings_of(recording, (), interpreter=sys.executable)
    assert found == Change("file", str(project / "package" / "helper.py"))


def test_what_only_a_replay_read_counts_too(project: Path) -> None:
    path = project / "lazy.csv"
    path.write_text("1")
    time.sleep(0.02)
    recording = ran(project)
    replay = recording / "fixes" / "untouched"
    replay.mkdir(parents=True)
    read = json.loads((recording / READS_FILE).read_text()) | {"files": [str(path)]}
    (replay / READS_FILE).write_text(json.dumps(read))
    crashed = recording / "fixes" / "1.1.1-1"
    crashed.mkdir()
    found = surroundings_of(recording, (replay, crashed), interpreter=sys.executable)
    assert isinstance(found, Surroundings)
    assert str(path) in found.files


@pytest.mark.parametrize("unseen", ["network", "processes", "reads"])
def test_what_was_not_seen_proves_nothing(project: Path, unseen: str) -> None:
    recording = ran(project, unseen=[unseen])
    assert surroundings_of(recording, (), interpreter=sys.executable) == Change(unseen)  # type: ignore[arg-type]


def test_a_run_that_noted_nothing_proves_nothing(project: Path) -> None:
    recording = ran(project)
    (recording / READS_FILE).unlink()
    assert surroundings_of(recording, (), interpreter=sys.executable) == Change("reads")
