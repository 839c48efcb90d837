"""What else a log has, in the report: quiet, whole, and by compile on demand."""

from __future__ import annotations

import json
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.evidence import CacheAnswer, FakeKernel, LogEvidence, RecordCount, ShapeEvent
from graphdoctor.facts.reading import read_fact
from graphdoctor.views.log_words import log_rows
from graphdoctor.views.parts import Rows, View
from tests.conftest import REPOSITORY, RunCli
from tests.each import for_each
from tests.factories import diagnosed
from tests.views.outputs import on_terminal

RECORDINGS = REPOSITORY / "tests" / "recordings" / "2.13.0"
SIZED, EXPORTED, OURS = (
    RECORDINGS / name for name in ("lowered_sizes.bare", "lowered_export.bare", "item")
)
HEADER = "V1121 02:58:17.809000 7 torch/a.py:1] "


def answer(state: str, cache: str = "fx_graph_cache", **more: str) -> CacheAnswer:
    return read_fact(CacheAnswer, {"compile_id": "0/0", "cache": cache, "state": state, **more})


SIZE = ShapeEvent(
    kind="specialized",
    compile_id="0/1",
    expression="s7",
    source="L['x'].size()[1]",
    file="/project/model.py",
    line=4,
)
EVERYTHING = LogEvidence(
    records=(RecordCount(kind="x", count=1, size_bytes=1, is_shown=False),),
    cache_answers=(
        answer("miss", "aotautograd_cache"),
        *(answer("hit"), answer("hit"), answer("bypass", reason="other")),
        *(answer("bypass", reason="frozen\n parameters") for _ in range(2)),
    ),
    shapes=(
        SIZE,
        ShapeEvent(kind="dynamic", compile_id="0/0", expression="s7"),
        ShapeEvent(kind="unbacked", compile_id="0/0", expression="u0"),
        *(
            ShapeEvent(kind="guarded", compile_id=compile_id, expression="s7 < 9")
            for compile_id in ("0/0", "0/1")
        ),
    ),
    hidden_shapes=4,
    fake_kernels=(
        FakeKernel(op="a.b", is_missing=True),
        FakeKernel(op="a.b", is_missing=False, reason="dtype"),
    ),
    exported_programs=1,
    collectives=1,
)


def test_everything_in_a_log_is_counted_by_compile(snapshot: SnapshotAssertion) -> None:
    view = View(("log",), "log", (Rows(tuple(log_rows(diagnosed(evidence=EVERYTHING)))),))
    assert on_terminal(view, width=120, is_verbose=True) == snapshot


@for_each(
    "log, texts",
    [
        (SIZED, ("caches AOTAutograd's cache: ", "Also in the log: ", "fx_graph_runnable")),
        (EXPORTED, ("exported 1 program operators demo.twice.default has no fake kernel",)),
    ],
)
def test_a_log_of_others_says_what_is_in_it(
    log: Path, texts: tuple[str, ...], run_here: RunCli
) -> None:
    shown = run_here("report", log).stdout
    assert [text for text in texts if text not in " ".join(shown.split())] == []
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_recording_of_ours_says_it_when_asked(run_here: RunCli) -> None:
    assert "Also in the log" not in run_here("report", OURS).stdout
    assert "Also in the log: " in run_here("report", OURS, "-v").stdout


def test_each_kind_is_named_in_text_and_json(tmp_path: Path, run_here: RunCli) -> None:
    kinds = (
        "compiler_collective",
        "graph_dump_of_torch_2_99",
        "fx_graph_cache_hit",
        "foo_MODIFIED_BYTECODE",
    )
    lines = (HEADER + json.dumps({"artifact": {"name": kind}}) + "\n" for kind in kinds)
    (tmp_path / "a.log").write_text("".join(lines))
    text = run_here("report", "a.log").stdout
    assert "1 *_MODIFIED_BYTECODE, 1 compiler_collective, 1 graph_dump_of_torch_2_99;" in " ".join(
        text.split()
    )
    assert "Inductor's cache: hit" in text
    records = json.loads(run_here("report", "a.log", "--format", "json").stdout)["recording"][
        "evidence"
    ]["records"]
    assert {found["kind"]: found["is_shown"] for found in records} == {
        "compiler_collective": False,
        "graph_dump_of_torch_2_99": False,
        "fx_graph_cache_hit": True,
        "*_MODIFIED_BYTECODE": False,
    }
    assert sum(found["size_bytes"] for found in records) == (tmp_path / "a.log").stat().st_size


def test_more_kinds_than_torch_writes_are_counted(tmp_path: Path, run_here: RunCli) -> None:
    names = ("x" * 5000, *(f"kind_{number}" for number in range(500)))
    (tmp_path / "a.log").write_text(
        "".join(HEADER + json.dumps({name: {}}) + "\n" for name in names)
    )
    text = run_here("report", "a.log").stdout
    assert " and 421 more; tlparse" in " ".join(text.split())
    assert "x" * 200 not in "".join(text.split())
    assert len(text) < 5000


def test_each_rank_of_a_job_has_its_counts(tmp_path: Path, run_here: RunCli) -> None:
    log = (SIZED / "dedicated_log_torch_trace_recorded.log").read_text()
    more = HEADER + json.dumps({"artifact": {"name": "compiler_collective"}}) + "\n"
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "dedicated_log_torch_trace_rank_0_x.log").write_text(log)
    (tmp_path / "logs" / "dedicated_log_torch_trace_rank_1_x.log").write_text(log + more * 2)
    words = " ".join(run_here("report", "logs").stdout.split())
    assert "2 compiler_collective, " in words
    ranks = json.loads(run_here("report", "logs", "--format", "json").stdout)["ranks"]
    counts = [{found["kind"]: found["count"] for found in rank["records"]} for rank in ranks]
    assert [found.get("compiler_collective") for found in counts] == [None, 2]
    assert [found["fx_graph_runnable"] for found in counts] == [1, 1]
