"""Which process wrote which record, where several write to one log."""

import re
from itertools import chain, zip_longest

import pytest

from graphdoctor.trace.logs import find_processes
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.storage import local_log
from tests.conftest import RECORDED_LOGS
from tests.trace.test_merge import PID, log_of

BARE = RECORDED_LOGS / "2.13.0" / "print_in_helper.bare"


def records(*, pid=PID, rank=None):
    """The records of a log, each with its payload, as a process of a job would have written
    them."""
    content = log_of(pid=pid)
    if rank is not None:
        content = content.replace(b', "frame_id"', b', "rank": %d, "frame_id"' % rank)
    return re.split(rb"(?m)^(?=V\d{4} )", content)[1:]


def interleaved(*logs):
    return b"".join(record for record in chain(*zip_longest(*logs)) if record is not None)


def alone():
    return read_recording(BARE)


def compile_s(recording):
    return sum(compile_.duration_s for compile_ in recording.compiles)


def kinds(recording):
    return {gap.kind for gap in recording.gaps}


@pytest.mark.parametrize(
    ("other_pid", "is_interleaved"),
    # Definitions of strings have no rank, so only the process id distinguishes them where they are
    # mixed.
    [(PID + 1, True), (PID + 1, False), (PID, False)],
)
def test_two_ranks_in_one_file_are_two_processes(tmp_path, other_pid, is_interleaved):
    logs = records(rank=0), records(pid=other_pid, rank=1)
    (tmp_path / "all.log").write_bytes(
        interleaved(*logs) if is_interleaved else b"".join(chain(*logs))
    )

    both = read_recording(tmp_path / "all.log")
    once = alone()

    assert len(both.compiles) == 2 * len(once.compiles)
    assert "dynamo_reset" not in kinds(both)
    assert {compile_.process for compile_ in both.compiles} == {None, "rank1"}
    assert compile_s(both) == pytest.approx(2 * compile_s(once))
    assert {frame.file for frame in both.frames} == {frame.file for frame in once.frames}


def test_a_process_that_the_samples_miss_is_found_while_reading(tmp_path):
    log = tmp_path / "all.log"
    padding = (
        b'V1121 05:51:44.142000 4242 x.py:1] {"artifact": {"name": "long"}}\n'
        + b"\tx\n" * 1_000_000
    )
    log.write_bytes(b"".join((*records(), padding, *records(pid=7), padding, padding, padding)))

    assert [process.pid for process in find_processes([local_log(log)], main_pid=None)] == [PID]
    recording = read_recording(log)
    assert {compile_.process for compile_ in recording.compiles} == {None, "p2"}
    assert "dynamo_reset" not in kinds(recording)


def test_a_forked_process_knows_the_strings_of_its_parent(tmp_path):
    log = tmp_path / "all.log"
    child = [record for record in records(pid=7) if b'{"str":' not in record]
    log.write_bytes(b"".join((*records(), *child)))

    recording = read_recording(log)

    assert "<unknown>" not in {
        entry.file for compile_ in recording.compiles for entry in compile_.stack
    }
    assert len(recording.compiles) == 2 * len(alone().compiles)


# Ranks.


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank_3.log", 3),
        ("rank3.log", 3),
        ("job-rank-3.log", 3),
        ("dedicated_log_torch_trace_rank_3_x1.log", 3),
        ("rank_3/trace.log", 3),
        ("rank3/torch_trace/trace.log", 3),
        ("none_x/attempt_0/3/trace.log", 3),
        ("3/trace.log", None),
        ("ranking_3.log", None),
        ("frank_3.log", None),
    ],
)
def test_names_of_files_and_folders_have_ranks(tmp_path, name, rank):
    log = tmp_path / name
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"".join(records()))

    assert [process.rank for process in find_processes([local_log(log)], main_pid=None)] == [rank]


def test_what_the_records_say_goes_before_names(tmp_path):
    log = tmp_path / "rank_3.log"
    log.write_bytes(b"".join(records(rank=5)))

    assert [process.rank for process in find_processes([local_log(log)], main_pid=None)] == [5]


def test_one_process_alone_has_the_rank_of_a_folder(tmp_path):
    for number, name in enumerate(("rank_3/b.log", "rank_3/a.log", "rank_4/c.log")):
        log = tmp_path / name
        log.parent.mkdir(exist_ok=True)
        log.write_bytes(b"".join(records(pid=number + 1)).replace(b" 05:", b" 0%d:" % number))
    logs = sorted(tmp_path.rglob("*.log"))

    ranks = {
        (process.pid, process.rank)
        for process in find_processes(map(local_log, logs), main_pid=None)
    }

    assert ranks == {(1, 3), (2, None), (3, 4)}
