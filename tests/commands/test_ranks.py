"""Commands on the logs of several ranks: what they show, write and refuse."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.conftest import RECORDED_LOGS, RunCli

pytestmark = pytest.mark.slow

RECORDINGS = RECORDED_LOGS / "2.13.0"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Logs of three ranks that torch wrote; the last one ran another program."""
    folder = tmp_path / "my logs"
    folder.mkdir()
    for rank, name in enumerate(("lowered.bare", "lowered.bare", "break_in_try.bare")):
        log = RECORDINGS / name / "dedicated_log_torch_trace_recorded.log"
        shutil.copy(log, folder / f"dedicated_log_torch_trace_rank_{rank}_abcd.log")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "--stages"),
        ("report", "--html", "--compile", "0/0"),
        ("report", "--format", "svg"),
        ("recompiles",),
        ("guards",),
        ("bundle",),
    ],
    ids=" ".join,
)
def test_single_rank_views_ask_for_a_rank_with_working_commands(
    run_here: RunCli, logs: Path, arguments: tuple[str, ...]
) -> None:
    command, *options = arguments
    process = run_here(command, logs, *options, status=2)
    assert "has ranks 0–2" in process.stderr
    assert process.stdout == ""
    again = shlex.split(process.stderr.partition("graphdoctor ")[2])
    assert run_here(*again, *(["--no-open"] if "--html" in again else [])).returncode == 0


def test_each_format_of_a_job_is_written(run_here: RunCli, logs: Path, tmp_path: Path) -> None:
    for ending in ("html", "json", "txt", "md"):
        run_here("report", logs, "-o", f"job.{ending}", status=0)
        assert "3 ranks" in (tmp_path / f"job.{ending}").read_text() or ending == "json"


def test_findings_are_chosen_as_for_one_rank(run_here: RunCli, logs: Path) -> None:
    every = json.loads(run_here("report", logs, "--format", "json").stdout)
    some = json.loads(run_here("report", logs, "--format", "json", "--ignore", "GD1").stdout)
    assert every["recording"] == "my logs"
    assert {finding["code"][:3] for finding in every["findings"]} >= {"GD1"}
    assert not [finding for finding in some["findings"] if finding["code"].startswith("GD1")]
    assert some["hidden_findings"] > 0
    assert (
        "hidden by --own-code, --select or --ignore"
        in run_here("report", logs, "--ignore", "GD1").stdout
    )


def test_one_rank_of_a_job_is_shown_by_itself(run_here: RunCli, logs: Path) -> None:
    run_here("recompiles", logs, "--rank", "2", status=0)
    assert run_here("guards", logs, "--rank", "1", "-o", "guards.html").returncode == 0
    assert "It has ranks 0–2" in run_here("guards", logs, "--rank", "7", status=2).stderr
