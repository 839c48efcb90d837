"""``--jobs`` and ``--on``: where logs are read changes nothing of what is said."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.commands.named import NamedRun, diagnose_place
from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Failure, Outcome
from graphdoctor.rules.diagnosed import Needs
from graphdoctor.rules.diagnosis.selection import Selection
from tests.conftest import RECORDED_LOGS, RunCli

RECORDINGS = RECORDED_LOGS
ITEM = RECORDINGS / "2.13.0" / "item"
BARE = RECORDINGS / "2.13.0" / "print_in_helper.bare"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with the logs of three ranks."""
    folder = tmp_path / "job"
    folder.mkdir()
    (log,) = BARE.glob("*.log")
    for rank in range(3):
        shutil.copy(log, folder / f"dedicated_log_torch_trace_rank_{rank}_abc.log")
    return folder


def said(run: RunCli, *arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "text"])
def test_ranks_are_the_same_with_any_number_of_jobs(run_here: RunCli, job: Path, form: str) -> None:
    alone = said(run_here, "report", job, "--jobs", 1, "--format", form)
    assert said(run_here, "report", job, "--jobs", 3, "--format", form) == alone
    assert said(run_here, "report", job, "--format", form) == alone


@pytest.mark.slow
def test_both_sides_of_a_diff_are_read_side_by_side(run_here: RunCli, job: Path) -> None:
    sides = (ITEM, BARE, "--format", "json")
    assert said(run_here, "diff", *sides, "--jobs", 2) == said(
        run_here, "diff", *sides, "--jobs", 1
    )
    ranks = (job, "--rank", 0, "--rank", 2, "--format", "json")
    assert said(run_here, "diff", *ranks, "--jobs", 2) == said(
        run_here, "diff", *ranks, "--jobs", 1
    )


def test_a_cluster_that_does_not_answer_is_one_sentence(run_here: RunCli, job: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"ray://127.0.0.1:{server.getsockname()[1]}"
    done = run_here("report", job, "--on", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"There is no answer from a Ray cluster at {address}: Connection refused." in " ".join(
        done.stderr.split()
    )


class Lost:
    """An executor elsewhere that gives up every piece."""

    jobs = 1
    cluster = "the Ray cluster at ray://head:10001"

    def run(self, work: Any, pieces: Sequence[Any]) -> Iterator[Outcome[Any]]:
        for index in range(len(pieces)):
            yield (index, Failure("lost", "Ray gave it up: the worker died."))


def test_a_recording_that_the_cluster_gives_up_is_one_sentence() -> None:
    with pytest.raises(GraphDoctorError) as raised:
        diagnose_place(NamedRun(ITEM, "folder"), Selection(), Needs(), executor=Lost(), rank=None)
    assert raised.value.message == (
        f"{ITEM} couldn't be read on the Ray cluster at ray://head:10001: Ray gave it up: the worker died."
    )


def test_a_rank_that_a_worker_could_not_read_is_named(
    monkeypatch: pytest.MonkeyPatch, job: Path
) -> None:
    from graphdoctor.executors.local import Local
    from graphdoctor.studies.ranks.job import job_report
    from graphdoctor.trace.folder import open_folder

    class LosesOne(Local):
        def run(self, work: Any, pieces: Sequence[Any]) -> Iterator[Outcome[Any]]:
            for index, found in super().run(work, pieces):
                yield index, Failure("ended", "its process ended twice") if index == 1 else found

    (gap,) = [
        gap
        for gap in job_report(job, open_folder(job).ranks, LosesOne(1)).gaps
        if gap.kind == "rank_unread"
    ]
    assert (gap.code, gap.message) == (
        "GD907",
        "Rank 1 couldn't be read, so it is left out: its process ended twice.",
    )
