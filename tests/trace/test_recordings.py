"""Real logs of each torch version: whole, bare, cut and damaged."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.reader import read_recording
from tests.conftest import RECORDED_LOGS
from tests.recorded import log_content

RECORDINGS = RECORDED_LOGS
VERSIONS = sorted(folder.name for folder in RECORDINGS.iterdir() if (folder / "item").is_dir())
LOGS = sorted(
    {"/".join(log.relative_to(RECORDINGS).parts[:2]) for log in RECORDINGS.rglob("*.log")}
)
assert VERSIONS and LOGS
DEMO = Path("/home/user/demo")

CUT = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def told(recording):
    """What a recording says happened, a line for each fact."""
    diagnosis = diagnose(recording, RULES, root=DEMO, version="0")
    yield f"torch {recording.environment.torch}, partial: {recording.is_partial}, coverage: {recording.coverage}"
    for gap in recording.gaps:
        yield f"gap {gap.code} {gap.kind}: {gap.message}"
    counts = diagnosis.summary
    yield (
        f"{counts.calls} calls, {counts.compiles} compiles, {counts.graphs} graphs, {counts.break_records} breaks, "
        f"{counts.skipped_frames} frames skipped, {counts.recompiles} recompiles"
    )
    for finding in diagnosis.findings:
        where = finding.location
        counted = f"{finding.code} {finding.torch_id} {finding.count} times"
        yield f"finding {counted} at {where.file}:{where.line} in {where.function}"
    for frame in recording.frames:
        yield f"frame of {frame.function} at line {frame.line}, resumes at {frame.resumes_at}"
    for compile_ in recording.compiles:
        path = " > ".join(
            f"{entry.function}:{entry.line}" for entry in compile_.stack if entry.origin == "user"
        )
        yield f"compile {compile_.compile_id} {compile_.outcome} by {path}, timed: {bool(compile_.duration_s)}"
    for record in recording.breaks:
        path = " > ".join(
            f"{entry.function} ({entry.qualname}) {entry.line}:{entry.column}-{entry.end_column} {entry.text}"
            for entry in record.stack
            if entry.origin == "user"
        )
        reasons = " < ".join(reason.gb_type for reason in record.chain)
        yield f"break in {record.compile_id} {record.effect}, exact: {record.is_stack_exact}: {path}: {reasons}"
    for graph in recording.graphs:
        inputs = graph.inputs and ", ".join(str(input_.name) for input_ in graph.inputs)
        yield f"graph {graph.index} of {graph.compile_id}: {graph.op_count} ops, of {inputs}, code: {bool(graph.code)}"
    assert recording.picture is not None
    for stage in recording.picture.graphs:
        kinds = [node.opcode for node in stage.nodes]
        yield (
            f"stage {stage.stage} of {stage.of} of {stage.compile_id}, graph {stage.graph_index}: {len(kinds)} nodes, "
            f"takes {kinds.count('placeholder')}, gives {len(stage.nodes[-1].inputs)}, unread {stage.unread_lines}"
        )
    for code in recording.picture.generated:
        yield f"code {code.stage} of {code.compile_id}, graph {code.graph_index}: {', '.join(code.kernels)}"


@pytest.mark.parametrize("name", LOGS)
def test_what_a_recording_says_happened(name, snapshot):
    assert "\n".join(told(read_recording(RECORDINGS / name, picture=True))) == snapshot


def damaged(tmp_path, log, name="damaged"):
    folder = tmp_path / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "dedicated_log_torch_trace_x.log").write_bytes(log)
    return read_recording(folder)


def facts(recording):
    """What could be invented: sites, compile ids, graphs."""
    return (
        {
            (record.stack[-1].file, record.stack[-1].line)
            for record in recording.breaks
            if record.stack
        },
        {compile_.compile_id for compile_ in recording.compiles},
        {graph.compile_id for graph in recording.graphs},
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@CUT
@given(data=st.data())
def test_log_cut_anywhere_is_read_to_the_cut(version, tmp_path, data):
    log = log_content(f"{version}/item")
    at = data.draw(st.integers(0, len(log)))

    recording = damaged(tmp_path, log[:at])

    whole = damaged(tmp_path, log, "whole")
    for part, all_of_it in zip(facts(recording), facts(whole), strict=True):
        assert part <= all_of_it
    assert len(recording.breaks) <= len(whole.breaks)
    assert len(recording.calls) <= len(whole.calls)
    diagnose(recording, RULES, root=DEMO, version="0")


@CUT
@given(junk=st.binary(min_size=1, max_size=40), where=st.floats(0, 1, exclude_max=True))
def test_bytes_that_do_not_belong_there_never_stop_the_reader(tmp_path, junk, where):
    log = log_content(f"{VERSIONS[0]}/break_in_try")
    at = int(len(log) * where)

    recording = damaged(tmp_path, log[:at] + junk + log[at:])

    # A header has no sum: a byte in it can part a break from its compile, but makes no second break
    # of it.
    assert len(recording.calls) <= 1
    assert len(facts(recording)[0]) <= 1
    assert len(recording.compiles) <= 2
    diagnose(recording, RULES, root=DEMO, version="0")


@CUT
@given(
    noise=st.text(
        st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), max_size=60
    ),
    data=st.data(),
)
def test_output_of_the_program_between_two_lines_changes_nothing(tmp_path, noise, data):
    lines = log_content(f"{VERSIONS[0]}/break_in_try").split(b"\n")
    at = data.draw(st.integers(0, len(lines) - 1))

    recording = damaged(tmp_path, b"\n".join([*lines[:at], noise.encode(), *lines[at:]]))

    assert recording == damaged(tmp_path, b"\n".join(lines), "whole")


@pytest.mark.parametrize("version", VERSIONS)
def test_windows_line_ends_change_nothing(version, tmp_path):
    log = log_content(f"{version}/print_in_helper")

    windows = damaged(tmp_path, log.replace(b"\n", b"\r\n"))
    whole = damaged(tmp_path, log, "whole")
    assert [counted.count for counted in windows.evidence.records] == [
        counted.count for counted in whole.evidence.records
    ]
    # Its records are larger, by a character for each line.
    assert windows == whole.replace(
        evidence=whole.evidence.replace(records=windows.evidence.records)
    )


def test_invalid_utf_8_in_a_payload_is_replaced_and_told(tmp_path):
    log = log_content(f"{VERSIONS[0]}/break_in_try")
    at = log.index(b"Developer debug context")

    recording = damaged(tmp_path, log[:at] + b"\xff" + log[at + 1 :])

    assert len(recording.breaks) == 1
    damage = [gap.message for gap in recording.gaps if gap.kind == "log_damage"]
    assert len(damage) == 2
    assert "changed after torch wrote" in damage[0]
    assert "invalid UTF-8 in 1 record " in damage[1]
