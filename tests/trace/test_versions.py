"""Logs of older torch, what each torch writes, and what ``fullgraph=True`` refused, in torch's own
records."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from graphdoctor.facts.recording import Recording
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.versions import lacking, parsed_version
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.recorded import log_content
from tests.recordings.make import with_new_sums

THREAD = 139877824898048


def kinds(recording: Recording) -> set[str]:
    return {str(gap.kind) for gap in recording.gaps}


def test_a_torch_that_graphdoctor_runs_with_lacks_nothing() -> None:
    assert "old_log" not in kinds(read_recording(RECORDED_LOGS / "2.13.0" / "refused.bare"))
    assert lacking((2, 11)) == []


# As torch wrote it before 2.5: headers with threads, metrics without `has_guarded_code` and
# `duration_us`, no breaks.


def line(value: dict[str, object], payload: str = "", *, thread: int = THREAD) -> str:
    header = f"V0403 07:28:48.051000 {thread} torch/_dynamo/x.py:1] {json.dumps(value)}\n"
    return header + "".join(f"\t{each}\n" for each in payload.splitlines())


def compile_records(
    frame: int, name: str, at: int, *, restarted: bool = True, **metrics: object
) -> str:
    where = {"frame_id": frame, "frame_compile_id": 0}
    stack = [
        {"line": 30, "name": "<module>", "filename": 0},
        {"line": 410, "name": "_fn", "filename": 1},
    ]
    found = {
        "co_name": name,
        "co_filename": "/home/user/demo/net.py",
        "co_firstlineno": at,
        "guard_count": 9,
        "graph_op_count": 1,
        "entire_frame_compile_time_s": 0.25,
        "backend_compile_time_s": 0.125,
        "fail_type": None,
        "fail_reason": None,
        "restart_reasons": ["'skip function graph_break in file decorators.py'"]
        if restarted
        else [],
    }
    text = line({"dynamo_start": {"stack": stack}, **where, "attempt": 0})
    for attempt in range(1 + restarted):
        text += line(
            {"dynamo_output_graph": {}, **where, "attempt": attempt}, "class GraphModule:\n    pass"
        )
    return text + line({"compilation_metrics": found | metrics, **where, "attempt": int(restarted)})


def old_log() -> str:
    strings = (
        "/home/user/demo/net.py",
        "/venv/lib/python3.10/site-packages/torch/_dynamo/eval_frame.py",
    )
    text = "".join(line({"str": [name, number]}) for number, name in enumerate(strings))
    text += compile_records(0, "fn", 3)
    text += compile_records(1, "torch_dynamo_resume_in_fn_at_5", 5)
    text += compile_records(2, "torch_dynamo_resume_in_fn_at_7", 7, restarted=False)
    failed = {
        "guard_count": None,
        "fail_type": "<class 'torch._dynamo.exc.BackendCompilerFailed'>",
        "fail_reason": "x",
    }
    return text + compile_records(3, "broken", 20, restarted=False, **failed)


@pytest.fixture
def old(tmp_path: Path) -> Recording:
    (tmp_path / "a.log").write_text(old_log())
    return read_recording(tmp_path / "a.log")


def test_three_that_succeeded_are_compiled_and_have_their_time(old: Recording) -> None:
    assert [compile_.outcome for compile_ in old.compiles] == [
        "compiled",
        "compiled",
        "compiled",
        "failed",
    ]
    assert {(compile_.duration_s, compile_.backend_s) for compile_ in old.compiles} == {
        (0.25, 0.125)
    }
    failure = old.compiles[-1].failure
    assert failure is not None
    assert failure.type == "BackendCompilerFailed"


def test_a_frame_that_was_restarted_is_one_graph(old: Recording) -> None:
    assert [graph.compile_id for graph in old.graphs] == ["0/0", "1/0", "2/0", "3/0"]


def test_functions_are_those_of_the_metrics(old: Recording) -> None:
    assert [(frame.function, frame.line, frame.resumes_at) for frame in old.frames] == [
        ("fn", 3, None),
        ("fn", 5, 5),
        ("fn", 7, 7),
        ("broken", 20, None),
    ]


def test_breaks_are_where_torch_resumed(old: Recording) -> None:
    assert [(found.compile_id, found.stack[-1].line, found.effect) for found in old.breaks] == [
        ("0/0", 5, "resumed"),
        ("1/0", 7, "resumed"),
    ]


def test_it_says_that_it_is_older_than_what_is_understood(old: Recording) -> None:
    (told,) = [gap.message for gap in old.gaps if gap.kind == "old_log"]
    assert told.startswith(
        "A torch older than 2.6 wrote this log, and logs of a torch older than 2.6 aren't fully"
    )


def test_threads_are_no_processes(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(old_log() + line({"str": ["/x.py", 2]}, thread=THREAD + 64))
    recording = read_recording(tmp_path / "a.log")

    assert "several_processes" not in kinds(recording)
    assert {compile_.process for compile_ in recording.compiles} == {None}


# What each torch writes.


@for_each(
    "text, version",
    [("2.6.0+cu124", (2, 6)), ("2.10.0a0+git1", (2, 10)), ("", None), (None, None), ("x", None)],
)
def test_versions_are_read(text: str | None, version: tuple[int, int] | None) -> None:
    assert parsed_version(text) == version


VERSIONS = sorted(folder.parent.name for folder in RECORDED_LOGS.glob("*/refused.bare"))
DEMO = Path("/home/user/demo")
LINE, DEFINITION = 6, 11
"""Of the ``if``, and of the function that was to be compiled."""


def finding(path: Path):
    found = diagnose(read_recording(path), RULES, root=DEMO, version="0").findings
    (refused,) = (each for each in found if "raised" in each.break_effects)
    return refused


def log(version: str) -> str:
    return log_content(f"{version}/refused.bare").decode()


def without_user_stack(text: str) -> str:
    return re.sub(r"\n\tfrom user code:\n(?:\t.*\n)*?\t\n", "\n\t\n", text)


@pytest.mark.parametrize("version", VERSIONS)
def test_without_the_stack_the_metrics_have_the_line(tmp_path, version):
    (tmp_path / "a.log").write_text(with_new_sums(without_user_stack(log(version))))

    refused = finding(tmp_path / "a.log")

    assert (refused.location.file, refused.location.line) == ("refused.py", LINE)
    words = json.dumps([refused.message, *(fix.title for fix in refused.fixes)])
    assert "``" not in words
    assert "if `" not in words


@pytest.mark.parametrize("version", VERSIONS)
def test_without_both_it_is_the_function_and_never_its_caller(tmp_path, version):
    text = without_user_stack(log(version)).replace(
        f'"fail_user_frame_lineno": {LINE}', '"fail_user_frame_lineno": null'
    )
    (tmp_path / "a.log").write_text(with_new_sums(text))

    assert finding(tmp_path / "a.log").location.line == DEFINITION
