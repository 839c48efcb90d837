"""Logs that are still being written: what is new since the last look, and nothing twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.following import (
    BreakSeen,
    Counts,
    LogBegun,
    LogStartedOver,
    RecompileSeen,
    SoFar,
)
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.follow import Follower
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.storage.places import LogFile
from graphdoctor.views.progress import seen_text, so_far_text
from tests.trace.test_merge import PID, log_of


def pieces(content: bytes, size: int) -> list[bytes]:
    return [content[start : start + size] for start in range(0, len(content), size)]


def seen_while_written(
    path: Path, content: bytes, size: int
) -> tuple[list[object], *tuple[Counts, ...]]:
    path.write_bytes(b"")
    follower, seen = Follower(path), []
    with path.open("ab", buffering=0) as stream:
        for piece in pieces(content, size):
            stream.write(piece)
            seen += follower.look()
    assert list(follower.look()) == []
    return seen, *follower.so_far.processes


@pytest.mark.parametrize("name", ["item", "print_in_helper.bare", "break_in_try.bare"])
@pytest.mark.parametrize("size", [997, 60_000, 10**7])
def test_what_is_seen_and_counted_is_what_the_report_has(tmp_path, name, size):
    path = tmp_path / "rank_3.log"
    seen, counts = seen_while_written(path, log_of(name), size)

    summary = diagnose(read_recording(path), RULES, root=tmp_path, version="0").summary
    assert (counts.graphs, counts.recompiles) == (summary.graphs, summary.recompiles)
    assert counts.compile_s == pytest.approx(summary.compile_time_s)
    assert counts.break_sites == summary.break_sites
    assert sum(isinstance(item, RecompileSeen) for item in seen) == summary.recompiles
    assert (
        len({(item.file, item.line) for item in seen if isinstance(item, BreakSeen)})
        == summary.break_sites
    )
    assert {item.writer.rank for item in seen if isinstance(item, BreakSeen | RecompileSeen)} <= {3}


def test_the_lines_say_what_happened_where(tmp_path):
    seen, counts = seen_while_written(tmp_path / "x.log", log_of("item"), 5000)

    assert [seen_text(item, root=Path("/home/user/demo")) for item in seen] == [
        "Following x.log",
        "x.log [0/0] item.py:8 breaks the graph: Unsupported Tensor.item() call with capture_scalar_outputs=False",
        "x.log [1/1] `scale` from line 8 recompiled: (a value from line 8) was 1.0",
    ]
    assert re.fullmatch(
        r"\d graphs · 1 break site · 1 recompile · \d\.\d\d s compiling",
        so_far_text(SoFar(1, (counts,))),
    )


def test_nothing_is_read_twice(tmp_path, monkeypatch):
    path = tmp_path / "x.log"
    path.write_bytes(log_of("item"))
    follower = Follower(path)
    list(follower.look())
    starts = []
    whole = LogFile.open
    monkeypatch.setattr(
        LogFile, "open", lambda log, start=0: starts.append(start) or whole(log, start)
    )

    list(follower.look())
    assert starts == [0]  # only the first bytes, to see whether it is still the same log
    size = path.stat().st_size
    with path.open("ab") as stream:
        stream.write(b"more\n")
    list(follower.look())
    assert starts == [0, 0, size]


def test_a_record_that_is_half_written_waits(tmp_path):
    path = tmp_path / "x.log"
    content = log_of("item")
    at = content.index(b"dynamo_graph_break_reason")
    inside = content.index(b"\n\t", at) + 40
    path.write_bytes(content[:inside])
    follower = Follower(path)

    assert [type(item) for item in follower.look()] == [LogBegun]
    with path.open("ab") as stream:
        stream.write(content[inside:])
    assert BreakSeen in [type(item) for item in follower.look()]


@pytest.mark.parametrize("how", ["truncated", "replaced", "copied over"])
def test_a_log_that_begins_anew_is_noticed(tmp_path, how):
    path = tmp_path / "x.log"
    path.write_bytes(log_of("item"))
    follower = Follower(path)
    list(follower.look())
    before = follower.so_far
    other = log_of("print_in_helper.bare")
    if how == "replaced":
        (tmp_path / "y").write_bytes(other)
        (tmp_path / "y").replace(path)
    else:
        path.write_bytes(other[: 1000 if how == "truncated" else None])

    first, *_ = follower.look()
    assert first == LogStartedOver("x.log", "truncated" if how == "truncated" else "replaced")
    if how != "truncated":
        assert follower.so_far == counted_anew(path)
        assert follower.so_far != before


def counted_anew(path: Path) -> SoFar:
    fresh = Follower(path)
    list(fresh.look())
    return fresh.so_far


def test_a_log_that_is_gone_and_comes_back_is_counted_once(tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(log_of("item"))
    follower = Follower(path)
    list(follower.look())
    before = follower.so_far
    path.unlink()

    assert list(follower.look()) == [LogStartedOver("x.log", "gone")]
    assert list(follower.look()) == []
    path.write_bytes(log_of("item"))
    list(follower.look())
    assert follower.so_far == before


def test_ranks_that_appear_later_are_followed_too(tmp_path):
    follower = Follower(tmp_path)
    assert list(follower.look()) == []
    assert so_far_text(follower.so_far) == "Waiting for a log"
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "rank_0.log").write_bytes(log_of("item"))
    assert next(follower.look()) == LogBegun("rank_0.log")
    list(follower.look())
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "rank_0.log").write_bytes(log_of("item"))
    (tmp_path / "rank_1.log").write_bytes(log_of("item", pid=7))

    found = list(follower.look())
    assert [item for item in found if isinstance(item, LogBegun)] == [LogBegun("rank_1.log")]
    assert {item.writer.rank for item in found if isinstance(item, RecompileSeen)} == {1}
    assert follower.so_far.logs == 2
    one, other = follower.so_far.processes
    assert one == other
    assert so_far_text(follower.so_far).startswith(
        "each of 2 processes: 3 graphs · 1 break site · 1 recompile · "
    )
    uneven = SoFar(
        2,
        (
            Counts(graphs=3, recompiles=1, compile_s=1.0),
            Counts(graphs=4, recompiles=1, compile_s=2.5),
        ),
    )
    assert (
        so_far_text(uneven)
        == "each of 2 processes: 3–4 graphs · 0 break sites · 1 recompile · 1.00–2.50 s compiling"
    )


def test_a_console_with_prefixes_is_followed_rank_by_rank(tmp_path):
    one, other = (
        [
            b"[rank%d]:" % rank + line
            for line in log_of("item", pid=PID + rank).splitlines(keepends=True)
        ]
        for rank in (0, 1)
    )
    console = b"".join(line for pair in zip(one, other, strict=True) for line in pair)
    seen, one, other = seen_while_written(tmp_path / "console", console, 9999)

    assert one == other
    assert sorted(item.writer.rank for item in seen if isinstance(item, RecompileSeen)) == [0, 1]


def test_a_damaged_record_is_passed_over(tmp_path):
    content = log_of("item").replace(
        b'"frame_id": 1, "frame_compile_id": 1', b'"frame_id": [], "frame_compile_id": {}'
    )
    _, counts = seen_while_written(tmp_path / "x.log", content, 50_000)

    assert counts.graphs == 3


def test_a_place_without_anything_is_refused(tmp_path):
    with pytest.raises(GraphDoctorError, match="There is nothing at"):
        list(Follower(tmp_path / "none").look())
