"""Logs of several processes, and of one that reset Dynamo, as one recording."""

import re
from pathlib import Path

from graphdoctor.facts.guards import RecompileCause
from graphdoctor.facts.recording import CaptureGap
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.logs import find_logs, find_processes, name_processes
from graphdoctor.trace.merge import Part, generated_names, merge, with_generated
from graphdoctor.trace.reader import read_recording
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.factories import compiled, entry, frame, record, recording
from tests.recorded import log_content

VERSION = "2.13.0"
PID = 4242
"""Process id in the logs under ``tests/recordings``."""


def log_of(name="print_in_helper.bare", *, pid=PID, hour=None):
    """A recorded log as another process would have written it."""
    content = log_content(f"{VERSION}/{name}")
    content = re.sub(rb"^(V\d{4} \S+) %d " % PID, rb"\1 %d " % pid, content, flags=re.MULTILINE)
    if hour is not None:
        content = re.sub(rb"^(V\d{4}) \d\d:", rb"\1 %02d:" % hour, content, flags=re.MULTILINE)
    return content


def write(folder, **logs):
    for name, content in logs.items():
        (folder / f"dedicated_log_torch_trace_{name}.log").write_bytes(content)
    return folder


def diagnosed(path):
    return diagnose(read_recording(path), RULES, root=path, version="0")


# Parts to one.


def two_compiles():
    return recording(
        compiles=(compiled("0/0"), compiled("1/0")),
        frames=(frame(0), frame(1, resumes_at=12)),
        breaks=(record(entry(12)),),
    )


def test_parts_are_merged_under_ids_that_are_their_own():
    alone = two_compiles()
    assert merge([Part(alone)]) is alone
    merged = merge([Part(alone), Part(alone, "p2"), Part(alone, "rank1", 1)])

    prefixes = ("", "p2:", "rank1:reset1:")
    assert [compile_.compile_id for compile_ in merged.compiles] == [
        f"{prefix}{n}/0" for prefix in prefixes for n in (0, 1)
    ]
    assert [record_.compile_id for record_ in merged.breaks] == [
        f"{prefix}0/0" for prefix in prefixes
    ]
    processes = [None, None, "p2", "p2", "rank1", "rank1"]
    assert [compile_.process for compile_ in merged.compiles] == processes
    # Frames are numbered through, and compiles still lead to them.
    assert [(frame_.frame_id, frame_.process) for frame_ in merged.frames] == list(
        enumerate(processes)
    )
    assert [compile_.frame_id for compile_ in merged.compiles] == [0, 1, 2, 3, 4, 5]
    assert [graph.index for graph in merged.graphs] == list(range(len(merged.graphs)))
    assert not merged.is_partial
    assert merge([Part(alone), Part(alone.replace(is_partial=True), "p2")]).is_partial


def test_nearest_entry_is_of_its_process_or_forking_parent():
    cause = RecompileCause(nearest="0/0", changes=(), is_exact=True)
    again = compiled("0/1", reasons=("size",)).replace(cause=cause)
    part = recording(compiles=(compiled("0/0"), again), frames=(frame(0),))
    child = recording(compiles=(again,), frames=(frame(0),))

    for parts, nearest in (([part, part], ["0/0", "p2:0/0"]), ([two_compiles(), child], ["0/0"])):
        merged = merge([Part(parts[0]), Part(parts[1], "p2")])
        assert [compile_.cause.nearest for compile_ in merged.compiles if compile_.cause] == nearest


def test_other_processs_gap_names_it_and_duplicates_merge():
    common = CaptureGap(code="GD904", message="Common.")
    particular = CaptureGap(code="GD902", message="While compiling 0/1.")
    first = two_compiles().replace(gaps=(common,))
    second = two_compiles().replace(gaps=(common, particular))

    merged = merge([Part(first), Part(second, "p2")])

    assert [gap.message for gap in merged.gaps] == ["Common.", "p2: While compiling 0/1."]


# Which log is whose.


@for_each(
    "logs, main_pid, expected, names",
    [
        # Without a known main process the lowest rank comes first.
        (
            {"rank_1_a": (1, PID), "rank_0_b": (2, PID), "x": (3, PID)},
            None,
            [0, 1, None],
            [None, "rank1", "p3"],
        ),
        # Without ranks the first record decides, whatever the names and the times of the files.
        ({"b": (1, 7), "a": (2, 8)}, None, [7, 8], [None, "p2"]),
        ({"a": (1, 7), "b": (2, 8)}, 8, [8, 7], [None, "p2"]),
        # In a recording of ours, two logs of one process are one; other folders can hold those of
        # several machines.
        ({"a": (1, PID), "b": (2, PID)}, PID, [PID], [None]),
        ({"a": (1, PID), "b": (2, PID)}, None, [PID, PID], [None, "p2"]),
        # Equal names of two runs are told apart.
        (
            {"rank_0_a": (1, PID), "rank_1_b": (1, PID), "rank_1_c": (1, PID)},
            None,
            [0, 1, 1],
            [None, "rank1", "p3"],
        ),
    ],
)
def test_which_log_is_whose(tmp_path_factory, logs, main_pid, expected, names):
    folder = tmp_path_factory.mktemp("logs")
    write(
        folder, **{name: log_of("item", hour=hour, pid=pid) for name, (hour, pid) in logs.items()}
    )
    processes = find_processes(find_logs(folder), main_pid=main_pid)

    by_rank = any(process.rank is not None for process in processes)
    assert [process.rank if by_rank else process.pid for process in processes] == expected
    assert name_processes(processes) == names
    assert sorted(log.name for process in processes for log in process.logs) == sorted(
        log.name for log in find_logs(folder)
    )


# Logs to one recording.


def test_ranks_of_a_job_are_counted_together_and_separately(tmp_path):
    alone = diagnosed(RECORDED_LOGS / VERSION / "print_in_helper.bare")
    log = log_of("print_in_helper.bare")
    both = diagnosed(write(tmp_path, rank_0_a=log, rank_1_b=log))

    once = [compile_.compile_id for compile_ in alone.recording.compiles]
    assert [compile_.compile_id for compile_ in both.recording.compiles] == once + [
        f"rank1:{compile_id}" for compile_id in once
    ]
    for count in ("compiles", "graphs", "break_records", "skipped_frames", "recompiles"):
        assert getattr(both.summary, count) == 2 * getattr(alone.summary, count)
    assert both.summary.break_sites == alone.summary.break_sites
    assert {finding.code for finding in both.findings} == {
        finding.code for finding in alone.findings
    }
    assert [graph.function for graph in both.recording.graphs] == 2 * [
        graph.function for graph in alone.recording.graphs
    ]
    assert "2 processes compiled" in next(
        gap.message for gap in both.recording.gaps if gap.code == "GD903"
    )


def test_a_process_that_compiled_nothing_is_left_out(tmp_path):
    write(
        tmp_path,
        a=log_of("item", hour=1),
        b=b"",
        c=b'V1121 09:00:00.0 9 x.py:1] {"artifact": {"name": "x"}}\n',
    )
    recording_ = read_recording(tmp_path)

    assert {compile_.process for compile_ in recording_.compiles} == {None}
    assert "GD903" not in {gap.code for gap in recording_.gaps}


def test_ids_that_begin_again_lie_behind_a_reset(tmp_path):
    log = log_of("print_in_helper.bare")
    write(tmp_path, x=log + log)
    once, twice = (
        read_recording(path, picture=True)
        for path in (RECORDED_LOGS / VERSION / "print_in_helper.bare", tmp_path)
    )

    for name in ("compiles", "graphs"):
        ids = [item.compile_id for item in getattr(once, name)]
        assert [item.compile_id for item in getattr(twice, name)] == ids + [
            f"reset1:{id_}" for id_ in ids
        ]
    stages = [
        (stage.compile_id, stage.graph_index)
        for stage in twice.picture.graphs
        if stage.stage == "dynamo"
    ]
    assert stages == [(graph.compile_id, graph.index) for graph in twice.graphs]
    assert "dynamo_reset" in {gap.kind for gap in twice.gaps}


RANDOM = "/tmp/net_Conv_propagate_8x1.py"
NAME = "<generated by net.Conv>"


def read(file):
    inside = entry(109, "print(x)", file=file, function="propagate")
    outside = entry(12, "return self.propagate(x)")
    facts = recording(
        breaks=(record(outside, inside),),
        compiles=(compiled(stack=(outside, inside)),),
        frames=(frame().replace(file=file),),
    )
    return with_generated(facts, generated_names([{file: "net.Conv"}]))


def test_path_is_nowhere_and_code_not_the_users():
    generated = read(RANDOM)
    assert RANDOM not in repr(generated)
    assert generated.frames[0].file == NAME
    outside, inside = generated.compiles[0].stack
    assert (outside.origin, inside.file, inside.origin) == ("user", NAME, "generated")
    # A finding is the same, whatever its path was.
    findings = [
        diagnose(recorded, RULES, root=Path("/project"), version="1").findings[0]
        for recorded in (generated, read("/tmp/net_Conv_propagate_q77.py"))
    ]
    assert len({finding.fingerprint for finding in findings}) == 1
    location = findings[0].location
    assert (location.file, location.line, location.origin) == (NAME, 109, "generated")
