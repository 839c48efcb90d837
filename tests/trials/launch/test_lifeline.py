"""A probe and what it has started end with whoever started it, even if that is killed; nothing else
of it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import clean_environment, command_line
from tests.processes import is_running, wait_until
from tests.sections import texts_beside

PARENT, FORKING_PARENT, PROGRAM, WAITING = texts_beside(__file__)


def pids_in(file: Path, *, within_s: float = 120) -> list[int]:
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"), within_s=within_s)
    return [int(pid) for pid in file.read_text().split()]


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], Path]:
    """An interpreter that is a shell script; its working directory is the test's."""

    def make(script: str) -> Path:
        (tmp_path / "recording").mkdir()
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        return python

    return make


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_probe_and_children_end_with_a_killed_parent(tmp_path, stand_in):
    command = [sys.executable, "-c", PARENT, str(stand_in("sleep 600 & echo $$ $! > pids; wait"))]
    with subprocess.Popen(command, cwd=tmp_path, env=clean_environment()) as parent:
        pids = pids_in(tmp_path / "pids")
        assert all(map(is_running, pids))
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)), within_s=5)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_what_forks_probes_ends_too_while_it_imports_torch(tmp_path):
    command = [sys.executable, "-c", FORKING_PARENT]
    with subprocess.Popen(command, cwd=tmp_path, env=clean_environment()) as parent:
        (pid,) = pids_in(tmp_path / "pids")
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_running(pid), within_s=5)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_what_a_program_left_running_goes_on_after_the_end(tmp_path, stand_in):
    command = [
        sys.executable,
        "-c",
        PARENT,
        str(stand_in("sleep 600 > /dev/null 2>&1 & echo $! > pids")),
    ]
    subprocess.run(command, cwd=tmp_path, env=clean_environment(), timeout=60, check=True)
    (pid,) = pids_in(tmp_path / "pids")
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)


def test_without_the_system_s_help_a_thread_waits():
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, str(reading)],
        env=clean_environment(),
        pass_fds=(reading,),
        process_group=0,
        stdout=subprocess.PIPE,
    ) as child:
        os.close(reading)
        assert child.stdout is not None
        assert child.stdout.readline() == b"waits\n"
        assert child.poll() is None
        os.close(writing)
        assert child.wait(10) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("args", [(), ("--try",)], ids=["started", "forked"])
def test_a_killed_command_leaves_no_probe_and_blames_nobody(tmp_path, run_cli, args):
    (tmp_path / "model.py").write_text(PROGRAM)
    command = command_line("explain", "model.py:g", *args)
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stdout=nowhere, stderr=nowhere
    ) as parent:
        pids = pids_in(tmp_path / "pids")
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)), within_s=5)
    document = json.loads(run_cli("report", "--format", "json").stdout)
    assert document["recording"]["is_partial"]
    assert not [finding for finding in document["findings"] if finding["code"] == "GD901"]
