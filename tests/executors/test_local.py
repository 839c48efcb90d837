"""Pieces in this process and in workers: every piece comes out, whatever becomes of the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors import local, machine
from graphdoctor.executors.executor import Failure, Outcome, Share
from graphdoctor.executors.local import Local
from graphdoctor.executors.machine import cores
from tests.each import for_each
from tests.executors import pieces

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds processes to cores")


@pytest.fixture(autouse=True, params=["fork"])
def start_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(local, "_start_method", lambda: request.param)
    return request.param


def in_order(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: outcome[0])


@pytest.mark.parametrize("start_method", ["fork", "spawn"], indirect=True)
def test_all_outcomes_come_with_their_index(start_method: str) -> None:
    outcomes = in_order(Local(2).run(pieces.square, list(range(20))))
    assert outcomes == [(number, number * number) for number in range(20)]


@for_each("jobs, count, processes", [(4, 0, 0), (1, 3, 1), (4, 1, 1), (2, 6, 2)])
def test_workers_are_as_many_as_jobs(jobs: int, count: int, processes: int) -> None:
    used = {result for _, result in Local(jobs).run(pieces.process_id, list(range(count)))}
    assert (len(used), os.getpid() in used) == (processes, processes == 1)


@for_each("jobs, share", [(1, None), (2, None), (1, Share(None))])
def test_a_piece_that_raises_is_an_outcome(jobs: int, share: Share | None) -> None:
    outcomes = dict(Local(jobs).run(pieces.fail_at_3, list(range(8)), share=share))
    assert [outcomes[index] for index in (0, 1, 2, 7)] == [0, 1, 2, 7]
    assert outcomes[3].reason == "KeyError: 'three'"
    assert "fail_at_3" in outcomes[3].details
    assert outcomes[4] == Failure("raised", "Can't read four.")
    assert outcomes[5] == Failure("memory", "it ran out of memory")
    assert outcomes[6].reason == "SystemExit: 1"


@for_each(
    "work, share, reason",
    [
        (pieces.killed_at_2, None, "its process was killed (SIGKILL), as the system does"),
        (pieces.leave_at_2, None, "its process ended (exit status 7)"),
        (pieces.killed_at_2, Share(None), "its process was killed (SIGKILL), as the system does"),
        (pieces.leave_at_2, Share(None), "its process ended (exit status 7)"),
    ],
)
def test_a_worker_that_ends_fails_its_piece_alone(
    work: Callable[[int], int], share: Share | None, reason: str
) -> None:
    outcomes = in_order(Local(2).run(work, list(range(6)), share=share, ahead=1))
    assert [outcome for _, outcome in outcomes if not isinstance(outcome, Failure)] == [
        0,
        1,
        3,
        4,
        5,
    ]
    failure = outcomes[2][1]
    assert failure.kind == "ended"
    assert failure.reason.startswith(reason)


def test_a_piece_whose_worker_is_killed_runs_once_more(tmp_path: Path) -> None:
    markers = [tmp_path / str(number) for number in range(4)]
    outcomes = in_order(Local(2).run(pieces.killed_once, markers))
    assert outcomes == [(number, "done") for number in range(4)]


def test_results_larger_than_a_pipe_come_whole() -> None:
    outcomes = in_order(Local(2).run(pieces.big, list(range(6))))
    assert [result for _, result in outcomes] == [pieces.big(number) for number in range(6)]


@pytest.mark.slow
def test_no_piece_begins_too_far_ahead() -> None:
    order = [index for index, _ in Local(2).run(pieces.slow_at_0, list(range(12)), ahead=3)]
    assert sorted(order) == list(range(12))
    # Piece 0 is slow: 1, 2 and 3 may come before it, and no other.
    assert order.index(0) == 3


@for_each(
    "thread_count, has_torch, method", [(1, False, "fork"), (2, False, "spawn"), (1, True, "spawn")]
)
def test_workers_are_forked_from_a_process_without_threads_or_torch(
    monkeypatch: pytest.MonkeyPatch, thread_count: int, has_torch: bool, method: str
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(threading, "active_count", lambda: thread_count)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    if has_torch:
        monkeypatch.setitem(sys.modules, "torch", sys)
    assert local._start_method() == (method if sys.platform == "linux" else "spawn")


# Pieces with a share.


@linux
@pytest.mark.slow
@pytest.mark.skipif(cores() < 2, reason="needs two cores")
def test_pieces_that_run_at_once_share_neither_cores_nor_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_gpu_count", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,2")
    slots: list[tuple[int, str]] = []
    outcomes = Local(8).run(
        pieces.place,
        list(range(6)),
        share=Share(1, gpus=1),
        on_begin=lambda index, slot: slots.append((index, slot)),
    )
    places = [place for _, place in in_order(outcomes)]
    assert {gpu for _, gpu, _, _ in places} == {"5", "2"}
    overlapping = [
        (place, other)
        for number, place in enumerate(places)
        for other in places[:number]
        if place[2] < other[3] and other[2] < place[3]
    ]
    assert overlapping
    assert not any(place[0] & other[0] or place[1] == other[1] for place, other in overlapping)
    assert sorted(index for index, _ in slots) == list(range(6))
    assert {slot.partition(", ")[2] for _, slot in slots} == {"GPU 5", "GPU 2"}


@linux
@for_each("gpus, visible", [(0, ""), (None, "0,1")])
def test_a_piece_without_its_own_gpus_sees_none_or_all(
    monkeypatch: pytest.MonkeyPatch, gpus: int | None, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    ((_, place),) = Local(1).run(pieces.place, [0], share=Share(None, gpus))
    assert place[:2] == (os.sched_getaffinity(0), visible)


@linux
@for_each("free_bytes", [(500, 500), (900, 300)])
def test_no_piece_begins_beside_another_without_memory(
    monkeypatch: pytest.MonkeyPatch, free_bytes: tuple[int, int]
) -> None:
    # The second has room for two slots, until others use it.
    values = iter([(1000, free_bytes[0]), *[(1000, free_bytes[1])] * 99])
    monkeypatch.setattr(machine, "memory", values.__next__)
    share = Share(None, memory_bytes=400)
    places = [place for _, place in Local(4).run(pieces.place, [0, 1], share=share)]
    assert places[0][3] <= places[1][2]


def test_too_large_share_is_refused_before_anything_begins() -> None:
    with pytest.raises(GraphDoctorError, match="Each piece needs 5000 cores"):
        list(Local(2).run(pieces.square, [1], share=Share(5000)))


# The end.


@pytest.mark.slow
@pytest.mark.parametrize("share", [None, Share(None)])
def test_closing_the_iterator_ends_running_pieces(tmp_path: Path, share: Share | None) -> None:
    markers = [tmp_path / "quick", tmp_path / "long", tmp_path / "other"]
    outcomes = Local(2).run(pieces.sleep_in_folder, markers, share=share)
    next(outcomes)
    until(markers[1].exists)
    outcomes.close()
    assert not is_running(int(markers[1].read_text()))


_SLEEPERS = """
import sys
from pathlib import Path
from graphdoctor.executors.executor import Share
from graphdoctor.executors.local import Local
from tests.executors import pieces
if __name__ == "__main__":
    markers = [Path(sys.argv[1]) / "0", Path(sys.argv[1]) / "1"]
    share = Share(None) if len(sys.argv) > 2 else None
    list(Local(2).run(pieces.sleep_in_folder, markers, share=share))
"""


@linux
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("has_share", [False, True])
def test_no_worker_outlives_its_parent(
    tmp_path: Path, number: signal.Signals, has_share: bool
) -> None:
    program, folder = tmp_path / "sleepers.py", tmp_path / "pieces"
    program.write_text(_SLEEPERS)
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, program, folder, *["share"] * has_share],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    markers = [folder / "0", folder / "1"]
    until(lambda: all(marker.exists() for marker in markers))
    started = [int(marker.read_text()) for marker in markers]
    if number == signal.SIGINT:
        os.killpg(parent.pid, number)  # as a terminal does
    else:
        parent.send_signal(number)
    _, printed = parent.communicate(timeout=30)
    assert printed.count(b"Traceback") == (number == signal.SIGINT)
    until(lambda: not any(map(is_running, started)))
    if has_share:
        # They could remove what they had made.
        assert sorted(folder.iterdir()) == markers


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
