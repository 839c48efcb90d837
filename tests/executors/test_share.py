"""Pieces with a share, in real processes: each has it for itself, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors import machine
from graphdoctor.executors.executor import Failure, Share
from graphdoctor.executors.local import Local
from graphdoctor.executors.machine import cores
from tests.executors import pieces
from tests.executors.test_local import _end_sleepers, _is_running, _until, in_order

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux", reason="only Linux holds processes to cores and adopts them"
    ),
]


@pytest.mark.skipif(cores() < 2, reason="needs two cores")
def test_pieces_at_work_at_once_share_neither_cores_nor_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_gpu_count", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,2,7")
    begun: list[tuple[int, str | None]] = []
    outcomes = Local(8).run(
        pieces.place,
        list(range(6)),
        share=Share(1, gpus=1),
        on_begin=lambda *what: begun.append(what),
    )
    found = [result for _, result in in_order(outcomes)]
    assert {gpu for _, gpu, _, _ in found} == {"5", "2", "7"} if cores() > 2 else {"5", "2"}
    assert all(len(held) == 1 for held, _, _, _ in found)
    overlapping = [
        (one, other)
        for number, one in enumerate(found)
        for other in found[:number]
        if one[2] < other[3] and other[2] < one[3]
    ]
    assert overlapping
    assert not any(one[0] & other[0] or one[1] == other[1] for one, other in overlapping)
    assert sorted(index for index, _ in begun) == list(range(6))
    assert {name.partition(", ")[2] for _, name in begun} <= {"GPU 5", "GPU 2", "GPU 7"}


def test_without_gpus_a_piece_sees_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    ((_, done),) = Local(1).run(pieces.place, [0], share=Share(None))
    assert done[:2] == (os.sched_getaffinity(0), "")


def test_each_piece_has_a_process_of_its_own_even_with_one_job() -> None:
    found = [
        result for _, result in Local(1).run(pieces.process_ids, list(range(3)), share=Share(1))
    ]
    assert len({process for process, _ in found} | {os.getpid()}) == 4
    assert len({keeper for _, keeper in found}) == 1
    assert not any(
        _is_running(process) for process in [*(process for process, _ in found), found[0][1]]
    )


def test_what_a_piece_leaves_running_is_gone_before_its_outcome_comes(tmp_path: Path) -> None:
    work = pieces.leave_running
    for _, done in Local(1).run(work, [tmp_path / "0", tmp_path / "1"], share=Share(1)):
        assert len(set(done)) == 2
        assert not any(map(_is_running, done))
    ((_, failed),) = Local(1).run(
        pieces.leave_running_and_crash, [tmp_path / "2"], share=Share(1), attempts=1
    )
    assert failed.status == -signal.SIGSEGV
    assert not _is_running(int((tmp_path / "2").read_text()))


def test_one_attempt_says_how_it_ended() -> None:
    found = in_order(Local(1).run(pieces.killed_at_2, list(range(4)), share=Share(1), attempts=1))
    assert [isinstance(each, Failure) for _, each in found] == [False, False, True, False]
    assert found[2][1].kind == "ended"
    assert found[2][1].status == -signal.SIGKILL
    assert found[2][1].reason.startswith("its process was killed (SIGKILL)")
    ((_, failed),) = Local(1).run(pieces.close_everything, [0], share=Share(1), attempts=1)
    assert (failed.kind, failed.status) == ("ended", 3)
    assert failed.reason == "its process ended (exit status 3)"


def test_each_attempt_is_a_beginning(tmp_path: Path) -> None:
    begun: list[int] = []
    work, marker = pieces.killed_once, tmp_path / "marker"
    outcomes = Local(1).run(
        work, [marker], share=Share(1), on_begin=lambda index, _: begun.append(index)
    )
    assert list(outcomes) == [(0, "done")]
    assert begun == [0, 0]
    places: list[tuple[int, str | None]] = []
    for jobs in (1, 2):
        places.clear()
        list(Local(jobs).run(pieces.square, [1, 2, 3], on_begin=lambda *what: places.append(what)))
        assert sorted(places) == [(0, None), (1, None), (2, None)]


def test_a_piece_may_work_on_pieces_itself() -> None:
    assert list(Local(1).run(pieces.side_by_side, [4], share=Share(None))) == [(0, 14)]


def test_work_that_cannot_be_imported_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces.square, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "square", pieces.square, raising=False)
    ((_, failed),) = Local(1).run(pieces.square, [2], share=Share(1))
    assert failed.kind == "raised"
    assert "square" in failed.reason


def test_no_piece_begins_beside_another_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: (1000, 500))
    found = [
        result
        for _, result in Local(4).run(pieces.place, [0, 1], share=Share(None, memory_bytes=400))
    ]
    assert found[0][3] <= found[1][2]
    # There is room for two slots, until others use it.
    monkeypatch.setattr(machine, "memory", iter([(1000, 900), *[(1000, 300)] * 99]).__next__)
    found = [
        result
        for _, result in Local(4).run(pieces.place, [0, 1], share=Share(None, memory_bytes=400))
    ]
    assert found[0][3] <= found[1][2]


def test_more_than_there_is_is_one_sentence_before_anything_begins() -> None:
    begun: list[int] = []
    with pytest.raises(GraphDoctorError, match="Each piece needs 5000 cores"):
        list(
            Local(2).run(
                pieces.square, [1], share=Share(5000), on_begin=lambda index, _: begun.append(index)
            )
        )
    assert begun == []


def test_closing_the_iterator_ends_pieces_at_work(tmp_path: Path) -> None:
    work = pieces.wait_for
    outcomes = Local(2).run(
        work, [(tmp_path / "0", 0.0), (tmp_path / "1", 60.0)], share=Share(None)
    )
    next(outcomes)
    _until((tmp_path / "1").exists)
    outcomes.close()
    assert not _is_running(int((tmp_path / "1").read_text()))


def test_a_keeper_that_is_killed_takes_its_piece_along(tmp_path: Path) -> None:
    ((_, failed),) = Local(1).run(
        pieces.kill_keeper, [tmp_path / "pid"], share=Share(1), attempts=1
    )
    assert (failed.kind, failed.status) == ("ended", -signal.SIGKILL)
    _until(lambda: not _is_running(int((tmp_path / "pid").read_text())))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_parent_ends(tmp_path: Path, number: signal.Signals) -> None:
    _end_sleepers(tmp_path, number, "leave_running_and_sleep", "share")
    # Pieces were told to end, and could put away what they had begun.
    assert sorted(path.name for path in (tmp_path / "pieces").iterdir()) == [
        "0",
        "0.pid",
        "1",
        "1.pid",
    ]
