"""Logs that lack something: their beginning, or any compile of Dynamo's, as those of torch.export
and AOTInductor."""

import re

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.reader import read_recording
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.recorded import log_content

NAMES = sorted(
    str(log.parent.relative_to(RECORDED_LOGS)) for log in RECORDED_LOGS.glob("*/*.bare/*.log")
)
WITH_EVENTS = "2.13.0/print_in_helper.bare"
CUTS = 130


def read(folder, log):
    (folder / "a.log").write_bytes(log)
    try:
        return read_recording(folder / "a.log")
    except GraphDoctorError:
        return None  # no record is left


def is_told(recording):
    return "log_beginning" in {gap.kind for gap in recording.gaps}


@for_each("name", NAMES)
def test_a_whole_log_has_its_beginning(name):
    assert not is_told(read_recording(RECORDED_LOGS / name))


@pytest.mark.parametrize("name", [WITH_EVENTS, "2.15.0/print_in_helper.bare"])
def test_wherever_a_log_is_cut_off_the_loss_is_told(tmp_path, name):
    log = log_content(name)
    untold = []
    for number in range(1, CUTS + 1):
        at = len(log) * number // (CUTS + 1)
        recording = read(tmp_path, log[at:])
        if recording is not None and not is_told(recording):
            untold.append(at)

    assert untold == []


@pytest.mark.parametrize("name", ["2.13.0/refused.bare"])
def test_redefined_file_is_the_one_the_metrics_name(tmp_path, name):
    log = log_content(name)
    start = [match.start() for match in re.finditer(rb'(?m)^V[^\n]*\{"dynamo_start"', log)][1]

    recording = read(tmp_path, log[start:])

    assert recording is not None
    assert is_told(recording)
    assert {frame.file for frame in recording.frames} == {"/home/user/demo/refused.py"}
    files = {entry.file for compile_ in recording.compiles for entry in compile_.stack}
    assert files == {"/home/user/demo/refused.py"}


def test_program_output_may_precede_the_first_record(tmp_path):
    recordings = [
        read(tmp_path, line + log_content(WITH_EVENTS))
        for line in (b'{"step": 1}\n', b"}\n", b"set: {1}\n")
    ]

    assert [is_told(recording) for recording in recordings] == [False] * 3


def said(recording):
    (gap,) = [gap for gap in recording.gaps if gap.kind == "nothing_compiled"]
    assert gap.code == "GD905"
    return gap.message


def record(value, *payload):
    return f"V1122 22:01:20.904000 7 torch/x.py:1] {value}\n" + "".join(
        f"\t{line}\n" for line in payload
    )


def test_a_log_of_an_export_says_what_it_has():
    recording = read_recording(RECORDED_LOGS / "2.13.0" / "exported.bare")

    assert said(recording) == ("Dynamo compiled nothing in this log.")


@for_each(
    "value, writer",
    [
        ('{"artifact": {"name": "exported_program", "encoding": "string"}}', "torch.export"),
        ('{"graph_dump": {"name": "inductor_aot_wrapper_code", "type": "cpp"}}', "AOTInductor"),
    ],
)
def test_the_writer_of_such_a_log_is_named(tmp_path, value, writer):
    (tmp_path / "a.log").write_text(record(value, "x"))

    assert said(read_recording(tmp_path / "a.log")) == (
        f"Dynamo compiled nothing in this log, which {writer} wrote."
    )


def test_partial_log_is_reported_as_partial(tmp_path):
    (tmp_path / "a.log").write_text(
        "\tthe end of a payload\n" + record('{"aot_inference_graph": {}}', "class <lambda>:")
    )

    assert said(read_recording(tmp_path / "a.log")) == (
        "What is left of this log has no compile of Dynamo."
    )
