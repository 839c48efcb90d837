"""Whether a run would find everything as before, on runs written by hand: each way that something
can change."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.probe.wire import READS_FILE, REQUEST_FILE
from graphdoctor.trials.launch.ownership import sign
from graphdoctor.trials.launch.unchanged import Change, Surroundings, first_change, surroundings_of


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Makes a program, a module of it, its data, and a folder of installed packages, all older than
    the run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    numbers = itertools.count()

    def made() -> Path:
        folder = tmp_path / str(next(numbers)) / "project"
        (folder / "package").mkdir(parents=True)
        for name in ("model.py", "package/helper.py", "data.csv"):
            (folder / name).write_text(name)
        (folder / "model.py").write_text("import package.helper, csv_reader")
        installed = folder / INSTALLED
        (installed / "torch-2.13.dist-info").mkdir(parents=True)
        (installed / "torch.py").write_text("version")
        monkeypatch.chdir(folder)
        time.sleep(0.02)
        return folder

    return made


@pytest.fixture
def project(make: Callable[[], Path]) -> Path:
    return make()


def search_path(project: Path) -> list[str]:
    return [str(project), str((project / INSTALLED).resolve())]


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
        "search_path": search_path(project), "prefix": [str(project.parent / "env")], "unseen": [], **more,
    }  # fmt: skip
    (recording / READS_FILE).write_text(json.dumps(reads))
    sign(recording)
    return recording


def known(project: Path, **more: Any) -> Surroundings:
    surroundings = surroundings_of(ran(project, **more), (), interpreter=sys.executable)
    # As it comes back from a file.
    known_surroundings: Surroundings = json.loads(json.dumps(surroundings))
    return known_surroundings


def hindrance(recording: Path) -> Change | None:
    """Why nothing is known of a run, though nothing changed since."""
    surroundings = surroundings_of(recording, (), interpreter=sys.executable)
    return first_change(surroundings, interpreter=sys.executable)


def forge(path: Path) -> None:
    """Other content of the same size, with the same times."""
    times = path.stat()
    path.write_text(path.read_text().swapcase())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def write_again(path: Path) -> None:
    """As git does that goes to another branch and back."""
    text = path.read_text()
    path.write_text("other")
    path.write_text(text)


INSTALLED = "../env/lib/site-packages"
CHANGES: dict[str, tuple[Callable[[Path], object], tuple[str, str] | None]] = {
    "nothing": (lambda project: None, None),
    "a report beside it": (lambda project: (project / "report.html").write_text(""), None),
    "another recording": (lambda project: (project / ".graphdoctor" / "another").mkdir(), None),
    "the same content again": (lambda project: write_again(project / "model.py"), None),
    "the program": (
        lambda project: (project / "model.py").write_text("other"),
        ("file", "model.py"),
    ),
    "its module": (
        lambda project: (project / "package/helper.py").write_text(""),
        ("file", "package/helper.py"),
    ),
    "its data": (lambda project: (project / "data.csv").write_text("other"), ("file", "data.csv")),
    "content with its size and time": (
        lambda project: forge(project / "model.py"),
        ("file", "model.py"),
    ),
    "a file that is gone": (lambda project: (project / "data.csv").unlink(), ("file", "data.csv")),
    "a file that was missed": (
        lambda project: (project / "optional.json").write_text(""),
        ("file", "optional.json"),
    ),
    "times of an installed file": (
        lambda project: (project / INSTALLED / "torch.py").write_text("version"),
        ("file", f"{INSTALLED}/torch.py"),
    ),
    "a new package": (
        lambda project: (project / INSTALLED / "flash_attn").mkdir(),
        ("modules", INSTALLED),
    ),
    "a module that hides another": (
        lambda project: (project / "random.py").write_text(""),
        ("modules", ""),
    ),
    "a module that a file of the program names": (
        lambda project: (project / "csv_reader.py").write_text(""),
        ("modules", ""),
    ),
    "a module with the name of an installed one": (
        lambda project: (project / "torch").mkdir(),
        ("modules", ""),
    ),
    "a module that nothing names": (lambda project: (project / "notes.py").write_text(""), None),
    "a folder that nothing names": (lambda project: (project / "figures").mkdir(), None),
    "a module beside the program's that nothing names": (
        lambda project: (project / "package" / "notes.py").write_text(""),
        None,
    ),
    "a folder of modules that appears": (
        lambda project: (project / "../site").mkdir(),
        ("modules", "../site"),
    ),
}


def test_each_change_is_found(make):
    for case, (change, expected) in CHANGES.items():
        project = make()
        site = (project.parent / "site").resolve()
        seen_change = change_after(
            project, partial(change, project), search_path=[*search_path(project), str(site)]
        )
        expected_change = (
            None
            if expected is None
            else Change(expected[0], str((project / expected[1]).resolve()))
        )
        assert seen_change == expected_change, case


def test_any_new_module_counts_where_the_program_lists_folders_or_reads_much(make):
    for text in ("os.listdir('.')", "import_module(name)", "word " * 2**18):
        project = make()
        (project / "model.py").write_text(text)
        time.sleep(0.02)
        seen_change = change_after(project, lambda at=project: (at / "notes.py").write_text(""))
        assert seen_change == Change("modules", str(project)), text[:20]


def change_after(project: Path, change: Callable[[], object], **more: Any) -> Change | None:
    before = known(project, **more)
    change()
    return first_change(before, interpreter=sys.executable)


def test_a_link_that_leads_elsewhere_changed(project):
    link, path = project / "weights.pt", project / "data.csv"
    link.symlink_to(path)
    (project / "other.csv").write_text("data.cs2")
    time.sleep(0.02)

    def lead() -> None:
        link.unlink()
        link.symlink_to(project / "other.csv")

    assert change_after(project, lead, files=[str(link)]) == Change("file", str(link))


def test_a_variable_changed_whether_new_gone_or_other(project, monkeypatch):
    monkeypatch.setenv("TORCH_LOGS", "dynamo")
    before = known(project)
    monkeypatch.setenv("TORCH_LOGS", "inductor")
    assert first_change(before, interpreter=sys.executable) == Change("variable", "TORCH_LOGS")
    monkeypatch.delenv("TORCH_LOGS")
    assert first_change(before, interpreter=sys.executable) == Change("variable", "TORCH_LOGS")
    monkeypatch.setenv("TORCH_LOGS", "dynamo")
    assert first_change(before, interpreter=sys.executable) is None
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert first_change(before, interpreter=sys.executable) == Change(
        "variable", "TORCHDYNAMO_DISABLE"
    )


def test_what_the_shell_changes_by_itself_is_no_change(project, monkeypatch):
    before = known(project)
    for name in ("_", "OLDPWD", "SHLVL", "COLUMNS"):
        monkeypatch.setenv(name, "123")
    assert first_change(before, interpreter=sys.executable) is None


def test_values_of_variables_are_not_kept(project, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret-of-mine")
    assert "secret-of-mine" not in json.dumps(known(project))


def test_a_new_version_of_graphdoctor_changed(project):
    import graphdoctor

    before = known(project)
    verdicts_file = str(Path(graphdoctor.__file__).parent / "fixes" / "verdicts.py")
    changed = {**before, f"file {verdicts_file}": "1 2 3"}
    assert f"file {verdicts_file}" in before
    assert first_change(changed, interpreter=sys.executable) == Change("file", verdicts_file)


def test_a_file_that_changed_while_it_ran_proves_nothing(project):
    recording = ran(project)
    (project / "package" / "helper.py").write_text("edited during the trials")
    assert hindrance(recording) == Change("file", str(project / "package" / "helper.py"))


def test_what_only_a_replay_read_counts_too(project):
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
    surroundings = surroundings_of(recording, (replay, crashed), interpreter=sys.executable)
    assert f"file {path}" in surroundings


def test_what_was_not_seen_proves_nothing(project):
    for unseen in ("network", "processes", "reads"):
        recording = ran(project, unseen, unseen=[unseen])
        assert hindrance(recording) == Change(unseen)  # type: ignore[arg-type]
    recording = ran(project)
    (recording / READS_FILE).unlink()
    assert hindrance(recording) == Change("reads")
