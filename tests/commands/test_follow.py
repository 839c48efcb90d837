"""``graphdoctor report --follow``: lines while a log is written, and the report at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import RECORDED_LOGS

pytestmark = pytest.mark.slow

RECORDINGS = RECORDED_LOGS / "2.13.0"
LIMIT_S = 60


def log_content() -> bytes:
    (log,) = (RECORDINGS / "item").rglob("*.log")
    return log.read_bytes()


@contextlib.contextmanager
def followed(tmp_path: Path, *options: str):
    """The command, and files with what it has written."""
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "graphdoctor",
                "report",
                str(tmp_path / "logs"),
                "--follow",
                *options,
            ],
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "COLUMNS": "100"},
        )
    try:
        yield process, out, err
    finally:
        process.kill()
        process.wait()


def wait_for(file: Path, text: str) -> None:
    end = time.monotonic() + LIMIT_S
    while text not in file.read_text():
        assert time.monotonic() < end, file.read_text()
        time.sleep(0.05)


def end(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(LIMIT_S)


def test_lines_come_as_the_log_grows_and_ctrl_c_ends_with_the_report(tmp_path):
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "rank_0.log"
    content = log_content()
    middle = content.index(b'{"artifact": {"name": "recompile_reasons"')
    with followed(tmp_path) as (process, out, err):
        wait_for(out, "Waiting for a log")
        log.write_bytes(content[:middle])
        wait_for(out, "item.py:8 breaks the graph")
        assert "recompiled" not in out.read_text()
        with log.open("ab") as stream:
            stream.write(content[middle:])
        wait_for(out, "recompiled: (a value from line 8) was 1.0")
        wait_for(out, "1 recompile ·")

        assert end(process) == 0
        assert err.read_text() == ""
        lines = out.read_text().splitlines()
        last = max(number for number, line in enumerate(lines) if " · 1 recompile · 0." in line)
        assert "trace log · torch 2.13.0+cpu" in lines[last + 1 :]
        assert "GD103" in "\n".join(lines[last + 1 :])


def test_a_document_has_standard_output_for_itself(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank_0.log").write_bytes(log_content())
    with followed(tmp_path, "--format", "json") as (process, out, err):
        wait_for(err, "1 recompile ·")

        assert end(process) == 0
        assert json.loads(out.read_text())["summary"]["recompiles"] == 1


def test_a_place_without_a_log_ends_as_its_report_does(tmp_path):
    (tmp_path / "logs").mkdir()
    with followed(tmp_path) as (process, out, err):
        wait_for(out, "Waiting for a log")

        assert end(process) == 2
        assert "contains neither a recording nor a torch trace log" in err.read_text()
