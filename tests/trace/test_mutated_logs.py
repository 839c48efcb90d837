"""An odd value costs one record, never the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from graphdoctor.facts.recording import Recording
from graphdoctor.trace.reader import read_recording
from tests.trace.mutated_logs import LogRecord, mutated_logs, read_and_show, records_of

NAME = "2.13.0/refused.bare"


@pytest.mark.slow
@settings(
    max_examples=500,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(log=mutated_logs())
def test_whatever_a_log_has_in_it_there_is_a_report(tmp_path: Path, log: bytes) -> None:
    read_and_show(log, tmp_path / "a.log")


def read(folder: Path, records: list[LogRecord]) -> Recording:
    (folder / "a.log").write_text("".join(record.text for record in records))
    return read_recording(folder / "a.log")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("guard_count", 1e30),
        ("guard_count", -1),
        ("graph_op_count", "3"),
        ("duration_us", -1),
        ("duration_us", 1e30),
        ("aot_autograd_cumulative_compile_time_us", []),
        ("fail_type", {}),
        ("restart_reasons", 5),
        ("has_guarded_code", "yes"),
        ("co_name", 3),
    ],
)
def test_an_odd_value_costs_its_own_record_alone(tmp_path: Path, name: str, value: object) -> None:
    records = list(records_of(NAME))
    whole = read(tmp_path, records)
    at = next(
        index
        for index, record in enumerate(records)
        if "compilation_metrics" in record.value and record.value["frame_id"] == 1
    )
    metrics = records[at].value["compilation_metrics"] | {name: value}
    records[at] = replace(records[at], value=records[at].value | {"compilation_metrics": metrics})

    recording = read(tmp_path, records)

    told = {gap.kind: gap for gap in recording.gaps}
    assert told["unreadable_record"].code == "GD902"
    assert "1 `compilation_metrics` record" in told["unreadable_record"].message
    # Its end is in the log; only what it says can't be read.
    assert "unfinished_compile" not in told
    assert [each.compile_id for each in recording.compiles] == [
        each.compile_id for each in whole.compiles
    ]
    others = [each for each in recording.compiles if each.frame_id != 1]
    assert others == [each for each in whole.compiles if each.frame_id != 1]
    assert recording.graphs == whole.graphs
    assert recording.breaks == whole.breaks
