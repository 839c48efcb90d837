"""Pieces in this process and in worker processes: every piece comes out, whatever becomes of the
others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from graphdoctor.executors import local
from graphdoctor.executors.executor import Failure, Outcome
from graphdoctor.executors.local import Local
from tests.executors import pieces


@pytest.fixture(params=["fork", "spawn"])
def start_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    import multiprocessing

    monkeypatch.setattr(local, "_context", lambda: multiprocessing.get_context(request.param))
    return request.param


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    import multiprocessing

    monkeypatch.setattr(local, "_context", lambda: multiprocessing.get_context("fork"))


def in_order(outcomes: object) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: outcome[0])


def test_all_outcomes_come_with_their_index(start_method: str) -> None:
    found = in_order(Local(2).run(pieces.square, list(range(20))))
    assert found == [(number, number * number) for number in range(20)]


def test_processes_are_as_many_as_jobs_and_none_for_one_piece(forks: None) -> None:
    assert list(Local(4).run(pieces.square, [])) == []
    for jobs, count, processes in ((1, 3, 1), (4, 1, 1), (2, 6, 2)):
        used = {result for _, result in Local(jobs).run(pieces.process_id, list(range(count)))}
        assert (len(used), os.getpid() in used) == (processes, processes == 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_piece_that_raises_is_an_outcome(forks: None, jobs: int) -> None:
    found = in_order(Local(jobs).run(pieces.fail_at_3, list(range(8))))
    assert [index for index, each in found if not isinstance(each, Failure)] == [0, 1, 2, 7]
    failures = {index: each for index, each in found if isinstance(each, Failure)}
    assert failures[3].kind == "raised"
    assert failures[3].reason == "KeyError: 'three'"
    assert "fail_at_3" in failures[3].details
    assert failures[4] == Failure("raised", "Can't read four.")
    assert failures[5] == Failure("memory", "it ran out of memory")
    assert failures[6].reason == "SystemExit: 1"


def test_a_result_that_cannot_be_pickled_is_an_outcome(forks: None) -> None:
    found = in_order(Local(2).run(pieces.unpicklable, [0, 1, 2]))
    assert [isinstance(each, Failure) for _, each in found] == [False, True, False]


@pytest.mark.parametrize(
    ("work", "words"),
    [(pieces.killed_at_2, "killed twice (SIGKILL)"), (pieces.leave_at_2, "twice (exit status 7)")],
)
def test_a_worker_that_ends_costs_its_piece_alone(forks: None, work: object, words: str) -> None:
    found = in_order(Local(2).run(work, list(range(6))))
    assert [index for index, each in found if not isinstance(each, Failure)] == [0, 1, 3, 4, 5]
    (failed,) = [each for _, each in found if isinstance(each, Failure)]
    assert failed.kind == "ended"
    assert words in failed.reason


def test_a_piece_whose_worker_is_killed_is_tried_once_more(forks: None, tmp_path: Path) -> None:
    markers = [tmp_path / str(number) for number in range(4)]
    assert in_order(Local(2).run(pieces.killed_once, markers)) == [
        (number, "done") for number in range(4)
    ]


def test_results_larger_than_a_pipe_come_whole(forks: None) -> None:
    found = in_order(Local(2).run(pieces.big, list(range(6))))
    assert [result for _, result in found] == [pieces.big(number) for number in range(6)]


@pytest.mark.slow
def test_no_piece_begins_too_far_ahead(forks: None) -> None:
    order = [index for index, _ in Local(2).run(pieces.slow_at_0, list(range(12)), ahead=3)]
    assert sorted(order) == list(range(12))
    # Piece 0 is slow: 1, 2 and 3 may come before it, and no other.
    assert order.index(0) == 3


def test_a_window_and_an_ending_worker_together_go_on(forks: None) -> None:
    found = in_order(Local(2).run(pieces.killed_at_2, list(range(12)), ahead=1))
    assert [index for index, _ in found] == list(range(12))


def test_closing_the_iterator_ends_the_workers(forks: None, tmp_path: Path) -> None:
    outcomes = Local(3).run(pieces.process_id, list(range(100)))
    worker = next(outcomes)[1]
    outcomes.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_workers_are_forked_only_from_a_process_that_is_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    expected = "fork" if sys.platform == "linux" else "spawn"
    assert local._context().get_start_method() == expected
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert local._context().get_start_method() == "spawn"
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert local._context().get_start_method() == "spawn"


_SLEEPERS = """
import sys
from pathlib import Path
from graphdoctor.executors.executor import Share
from graphdoctor.executors.local import Local
from tests.executors import pieces
if __name__ == "__main__":
    markers = [Path(sys.argv[2]) / "0", Path(sys.argv[2]) / "1"]
    share = Share(None) if len(sys.argv) > 3 else None
    list(Local(2).run(getattr(pieces, sys.argv[1]), markers, share=share))
"""


def _end_sleepers(tmp_path: Path, number: signal.Signals, work: str, *share: str) -> None:
    """End a process that works on two pieces, which write ids of processes and sleep: none of these
    is left."""
    program, folder = tmp_path / "sleepers.py", tmp_path / "pieces"
    program.write_text(_SLEEPERS)
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, program, work, folder, *share],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    markers = [folder / "0", folder / "1"]
    _until(lambda: all(marker.exists() and marker.read_text() for marker in markers))
    started = [int(pid) for marker in markers for pid in marker.read_text().split()]
    assert len(set(started)) == (8 if share else 2)
    if number == signal.SIGINT:
        os.killpg(parent.pid, number)  # as a terminal does
    else:
        parent.send_signal(number)
    _, said = parent.communicate(timeout=30)
    assert said.count(b"Traceback") == (number == signal.SIGINT)
    _until(lambda: not any(map(_is_running, started)))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    _end_sleepers(tmp_path, number, "write_and_sleep")


def _is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _until(holds: object) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
