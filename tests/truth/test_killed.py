"""graphdoctor killed at any moment of a run: what was recorded is read as half a run, and proves
nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import clean_environment, command_line, run_command

MODEL = """\
import time

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        print("a")
        return y + 1


def example_inputs():
    return [(torch.randn(size, 8),) for size in (4, 5, 6)]
"""
MOMENTS = 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, float]:
    """A folder with a whole recording, its name, and how many seconds the run took."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "model.py").write_text(MODEL)
    began = time.monotonic()
    run_command("explain", "model.py", cwd=folder, is_forked=False, status=0)
    seconds = time.monotonic() - began
    run_command("keep", "whole", cwd=folder, status=0)
    return folder, "whole", seconds


def started(folder: Path) -> subprocess.Popen[bytes]:
    """A run whose whole group of processes can be killed."""
    return subprocess.Popen(
        command_line("explain", "model.py"),
        cwd=folder,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def newest(folder: Path) -> Path:
    return max(path for path in (folder / ".graphdoctor").iterdir() if path.is_dir())


@pytest.mark.nightly
@pytest.mark.parametrize("share", [number / MOMENTS for number in range(MOMENTS)])
def test_a_killed_run_is_read_as_half_a_run(whole: tuple[Path, str, float], share: float) -> None:
    folder, name, seconds = whole
    before = newest(folder)
    process = started(folder)
    time.sleep(share * seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    left = newest(folder)
    if left == before:
        return
    done = run_command("report", left.name, "--format", "json", cwd=folder, status=0)
    found = json.loads(done.stdout)["recording"]
    if found["exit"]["reason"] == "finished":
        return
    assert found["exit"]["reason"] in ("running", "lost")
    assert found["is_partial"]
    assert "PARTIAL" in run_command("report", left.name, cwd=folder, status=0).stdout
    compared = json.loads(
        run_command("diff", name, left.name, "--format", "json", cwd=folder, status=0).stdout
    )
    assert compared["gone"] == []
    assert len(compared["unseen"]) + len(compared["same"]) == 3


@pytest.mark.slow
def test_unfinished_run_says_so_until_it_ends(tmp_path: Path) -> None:
    waiting = MODEL.replace('        print("a")\n', "").replace(
        "def example", "time.sleep(30)\n\n\ndef example"
    )
    (tmp_path / "model.py").write_text(waiting)
    process = started(tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".graphdoctor/2*/recording.json")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        said = run_command("report", cwd=tmp_path, status=0).stdout
        assert "The run is still going" in said
        assert "Next:" not in said
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert "graphdoctor was stopped" in " ".join(
        run_command("report", cwd=tmp_path, status=0).stdout.split()
    )
