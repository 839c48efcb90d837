"""A log without its beginning, as one that was rotated or tailed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.recording import Recording
from graphdoctor.trace.reader import read_recording
from tests.each import for_each

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
NAMES = sorted(str(log.parent.relative_to(RECORDINGS)) for log in RECORDINGS.glob("*/*.bare/*.log"))
WITH_EVENTS = "2.13.0/print_in_helper.bare"
CUTS = 130


@cache
def content(name: str) -> bytes:
    (log,) = (RECORDINGS / name).glob("*.log")
    return log.read_bytes()


def read(folder: Path, log: bytes) -> Recording | None:
    (folder / "a.log").write_bytes(log)
    try:
        return read_recording(folder / "a.log")
    except GraphDoctorError:
        return None  # no record is left


def is_told(recording: Recording) -> bool:
    return "log_beginning" in {gap.kind for gap in recording.gaps}


@for_each("name", NAMES)
def test_a_whole_log_has_its_beginning(name: str) -> None:
    assert not is_told(read_recording(RECORDINGS / name))


@pytest.mark.parametrize("name", [WITH_EVENTS, "2.15.0/print_in_helper.bare"])
def test_wherever_a_log_is_cut_off_the_loss_is_told(tmp_path: Path, name: str) -> None:
    log = content(name)
    untold = []
    for number in range(1, CUTS + 1):
        at = len(log) * number // (CUTS + 1)
        recording = read(tmp_path, log[at:])
        if recording is not None and not is_told(recording):
            untold.append(at)

    assert untold == []


def test_between_records_too(tmp_path: Path) -> None:
    log = content(WITH_EVENTS)
    starts = [match.start() for match in re.finditer(rb"(?m)^V\d{4} ", log)][1:]
    untold = []
    for at in starts:
        recording = read(tmp_path, log[at:])
        if recording is not None and not is_told(recording):
            untold.append(log[at : at + 200])

    assert untold == []


@pytest.mark.parametrize("name", ["2.6.0/refused.bare", "2.8.0/refused.bare", "2.13.0/refused.bare"])
def test_a_frame_whose_file_was_defined_before_is_in_the_file_that_the_metrics_name(tmp_path: Path, name: str) -> None:
    log = content(name)
    start = [match.start() for match in re.finditer(rb'(?m)^V[^\n]*\{"dynamo_start"', log)][1]

    recording = read(tmp_path, log[start:])

    assert recording is not None
    assert is_told(recording)
    assert {frame.file for frame in recording.frames} == {"/home/user/demo/refused.py"}
    files = {entry.file for compile_ in recording.compiles for entry in compile_.stack}
    assert files == {"/home/user/demo/refused.py"}


def test_a_program_may_print_an_object_or_its_end_before_the_first_record(tmp_path: Path) -> None:
    recordings = [read(tmp_path, line + content(WITH_EVENTS)) for line in (b'{"step": 1}\n', b"}\n", b"set: {1}\n")]

    assert [is_told(recording) for recording in recordings] == [False] * 3
