"""``graphdoctor diff`` from the outside: what can be compared, what is refused, what comes out."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CLEAN_TARGET, RECORDED_LOGS, run_command

RECORDINGS = RECORDED_LOGS
BROKEN_TARGET = CLEAN_TARGET.replace(
    "        return torch", '        print("here")\n        return torch'
)


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording of what ``recorded`` holds, before the fix: it printed."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "clean.py").write_text(BROKEN_TARGET)
    run_command("explain", "clean.py", "--quiet", cwd=folder, status=0)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two recordings of two torches below ``.graphdoctor``; the one of the later torch is the
    last."""
    folder = tmp_path / ".graphdoctor"
    for number, version in enumerate(("2.13.0", "2.15.0"), start=1):
        shutil.copytree(
            RECORDINGS / version / "item", folder / f"20261121-04290{number}-000000-item"
        )
    (folder / "last").write_text("20261121-042902-000000-item\n")
    return tmp_path


def only_recording(folder: Path) -> Path:
    (path,) = (path for path in (folder / ".graphdoctor").iterdir() if path.is_dir())
    return path


def compared(process: Any) -> dict[str, Any]:
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.slow
def test_fix_recorded_in_another_checkout_is_a_gone_finding(run_cli, broken, recorded):
    text = run_cli("diff", only_recording(broken), only_recording(recorded), cwd=recorded, status=0)
    assert "0 new findings, 1 gone, 0 in both." in text.stdout
    assert "GD101  clean.py:6" in text.stdout
    assert "Differences" not in text.stdout
    back = compared(
        run_cli("diff", only_recording(recorded), only_recording(broken), "--format", "json")
    )
    (finding,) = back["new"]
    assert (finding["location"]["file"], back["gone"], back["mismatches"]) == ("clean.py", [], [])
    sides = [back[side]["summary"] for side in ("before", "after")]
    assert [side["break_sites"] for side in sides] == [0, 1]
    assert [side["coverage"] for side in sides] == [1.0, 1.0]
    assert all(side["steady_call_us"] > 0 for side in sides)


@pytest.mark.slow
def test_document_and_recording_of_one_run_are_equal(tmp_path, run_cli, broken):
    document = tmp_path / "before.txt"  # told by what it holds, not by its name
    document.write_text(run_cli("report", "--format", "json", cwd=broken).stdout)
    result = compared(run_cli("diff", document, "--format", "json", cwd=broken))
    assert (result["new"], result["gone"], result["mismatches"]) == ([], [], [])
    assert [pair["changes"] for pair in result["same"]] == [[]]


def test_recording_is_compared_with_the_last_of_its_name(store, run_here):
    process = run_here("diff", "20261121-042901-000000-item", status=0)
    assert "0 new findings, 0 gone, 2 in both" in process.stdout
    assert "Different torch versions: 2.13.0+cpu before, 2.15.0+cu132 after" in process.stdout


def test_a_trace_folder_and_its_log_are_the_same(run_here):
    folder = RECORDINGS / "2.13.0" / "print_in_helper.bare"
    result = compared(run_here("diff", folder, next(folder.glob("*.log")), "--format", "json"))
    assert (result["new"], result["gone"], len(result["same"])) == ([], [], 1)


def test_select_compares_less_and_says_so(store, run_here):
    result = compared(
        run_here("diff", "20261121-042901-000000-item", "--select", "GD1", "--format", "json")
    )
    assert [pair["after"]["code"] for pair in result["same"]] == ["GD103"]
    assert (result["before"]["hidden_findings"], result["after"]["hidden_findings"]) == (1, 1)
    assert [mismatch["aspect"] for mismatch in result["mismatches"]] == ["torch"]


def test_the_last_recording_is_not_compared_with_itself(store, run_here):
    assert (
        "is itself the last recording"
        in run_here("diff", "20261121-042902-000000-item", status=2).stderr
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_refused_by_name(store, run_here):
    path = store / "locked.json"
    path.write_text("{}")
    path.chmod(0)
    assert (
        "locked.json cannot be read: Permission denied" in run_here("diff", path, status=2).stderr
    )
