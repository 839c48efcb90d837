"""``graphdoctor unpack``: every record in a file or in the index, and nothing outside the
folder."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from graphdoctor.trace.unpack import unpack
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace import unpack as folders
from graphdoctor.trace.picture import FileNames, compile_folder, safe_name
from tests.conftest import REPOSITORY, RunCli
from tests.each import for_each
from tests.trace.mutated_logs import mutated_logs

LOWERED = REPOSITORY / "tests" / "recordings" / "2.13.0" / "lowered.bare"
"""A log of Inductor, with a backward graph."""


def record(payload: bytes | None = None, *, pid: int = 7, **metadata: object) -> bytes:
    """A record as torch writes it."""
    if payload is not None:
        metadata["has_payload"] = hashlib.md5(payload, usedforsecurity=False).hexdigest()
    head = f"V1121 02:58:17.809000 {pid} torch/a.py:1] {json.dumps(metadata)}\n".encode()
    return head + b"".join(
        b"\t" + line + b"\n" for line in ([] if payload is None else payload.split(b"\n"))
    )


def artifact(name: str, payload: bytes | None, encoding: str = "string", **metadata: Any) -> bytes:
    pid = metadata.pop("pid", 7)
    return record(payload, pid=pid, artifact={"name": name, "encoding": encoding}, **metadata)


def unpacked(tmp_path: Path, *records: bytes, name: str = "a.log") -> tuple[Path, dict[str, Any]]:
    """The folder, and its index."""
    (tmp_path / name).write_bytes(b"".join(records))
    into = tmp_path / "out"
    unpack(tmp_path / name, into, version="1")
    return into, json.loads((into / "index.json").read_bytes())


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "index.json"
    }


COMPILE = {"frame_id": 0, "frame_compile_id": 1}


def test_each_payload_is_a_file_as_it_is(tmp_path: Path) -> None:
    into, index = unpacked(
        tmp_path,
        artifact("before_post_grad_graph", b"def f():\n\treturn \xff", **COMPILE),
        artifact("triton_kernel_info", b'{"a": 1}', "json", **COMPILE, attempt=1),
        record(b"a = 1", inductor_output_code={"filename": "/cache/ab/cab.py"}, **COMPILE),
        record(b"int a;", graph_dump={"name": "inductor_aot_kernel_code", "type": "cpp"}),
        artifact("empty", b"", **COMPILE),
        record(b"1", artifact={"name": "odd", "encoding": [None]}, **COMPILE),
    )
    assert files_in(into) == {
        "0_1/before_post_grad_graph.txt": b"def f():\n\treturn \xff",
        "0_1/triton_kernel_info.json": b'{"a": 1}',
        "0_1/inductor_output_code.py": b"a = 1",
        "no_compile/graph_dump_inductor_aot_kernel_code.cpp": b"int a;",
        "0_1/empty.txt": b"",
        "0_1/odd.txt": b"1",
    }
    assert index["records"][1]["metadata"]["attempt"] == 1


def test_the_index_says_which_records_have_no_payload(tmp_path: Path) -> None:
    into, index = unpacked(
        tmp_path,
        record(create_unbacked_symbol={"symbol": "u0"}, **COMPILE),
        record(describe_tensor={"id": 3}, **COMPILE),
        artifact("a", b"1", **COMPILE),
        b"V1121 02:58:17.809000 7 torch/a.py:1] {broken\n",
        b"the program's own line\n",
    )
    assert [(row["kind"], row["file"]) for row in index["records"]] == [
        ("create_unbacked_symbol", None),
        ("describe_tensor", None),
        ("a", "0_1/a.txt"),
    ]
    assert index["records"][0]["metadata"]["create_unbacked_symbol"] == {"symbol": "u0"}
    assert index["counts"] == {
        "records": 3,
        "without_payload": 2,
        "unreadable": 1,
        "altered": 0,
        "stray_lines": 1,
    }
    assert index["kinds"]["a"]["count"] == 1
    assert index["problems"] == [
        "Couldn't read 1 record of the trace log; the last one is cut off."
    ]
    assert list(files_in(into)) == ["0_1/a.txt"]


def test_metrics_are_a_file_though_they_are_no_payload(tmp_path: Path) -> None:
    into, index = unpacked(tmp_path, record(compilation_metrics={"co_name": "f"}, **COMPILE))
    assert json.loads((into / "0_1" / "compilation_metrics.json").read_bytes()) == {"co_name": "f"}
    assert index["records"][0]["metadata"] == {"compilation_metrics": {}} | COMPILE


def test_events_are_one_list(tmp_path: Path) -> None:
    into, index = unpacked(
        tmp_path,
        *(record(json.dumps({"name": n}).encode(), chromium_event={}, **COMPILE) for n in "ab"),
        record(b"no JSON", chromium_event={}, **COMPILE),
    )
    assert json.loads((into / "chromium_events.json").read_bytes()) == [
        {"name": "a"},
        {"name": "b"},
    ]
    assert [(row["file"], row.get("item")) for row in index["records"]] == [
        ("chromium_events.json", 0),
        ("chromium_events.json", 1),
        ("0_1/chromium_event.json", None),
    ]


@pytest.mark.slow
@settings(max_examples=100, derandomize=True, deadline=None)
@given(log=mutated_logs())
def test_whatever_a_log_has_in_it_every_record_is_in_the_index(log: bytes) -> None:
    with TemporaryDirectory() as temporary:
        path, into = Path(temporary) / "a.log", Path(temporary) / "out"
        path.write_bytes(log)
        try:
            done = unpack(path, into, version="1")
        except GraphDoctorError as error:
            assert "isn't a torch trace log" in str(error)
            return
        index = json.loads((into / "index.json").read_bytes())
        assert (
            len(index["records"])
            == done.records
            == sum(kind["count"] for kind in index["kinds"].values())
        )
        assert {row["file"] for row in index["records"] if row["file"]} == {*files_in(into)}
        assert {entry.name for entry in Path(temporary).iterdir()} == {"a.log", "out"}


HOSTILE = (
    "../../outside",
    "/etc/passwd",
    "..",
    ".",
    "",
    "CON",
    "nul.tar",
    "Com1",
    "a" * 5000,
    "a\x00b",
    "C:\\x",
)
HOSTILE += ("tail. ", "\u202egpj", "-rf", "index", "~")


def test_no_name_leaves_the_folder(tmp_path: Path) -> None:
    made = [
        each
        for name in HOSTILE
        for each in (
            artifact(name, b"1", frame_id=name, frame_compile_id=name),
            record(b"2", dump_file={"name": name}, rank=name),
            record(b"3", **{name: {}}),
        )
    ]
    into, index = unpacked(tmp_path, *made)
    assert sorted(files_in(into).values()) == sorted([b"1", b"2", b"3"] * len(HOSTILE))
    assert {path.name for path in tmp_path.iterdir()} == {"a.log", "out"}
    for row in index["records"]:
        assert (into / row["file"]).resolve().is_relative_to(into.resolve())
        assert all(len(part) < 120 for part in row["file"].split("/"))


@given(st.text(max_size=300))
def test_a_safe_name_is_one_on_every_system(text: str) -> None:
    name = safe_name(text)
    assert name.isascii()
    assert 0 < len(name) <= 96
    assert not {*name} & {*'/\\:*?"<>| \0\n'}
    assert name[0] not in "." and name[-1] != "."
    assert name.split(".")[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt9"}
    assert safe_name(name) == name


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "A", "a_2", "A_2", "b"]), st.sampled_from([".txt", ".TXT"]))
    )
)
def test_names_differ_where_case_is_ignored(wanted: list[tuple[str, str]]) -> None:
    names = FileNames()
    taken = [names.take(*one).casefold() for one in wanted]
    assert len({*taken}) == len(taken)


def test_records_of_one_name_are_numbered(tmp_path: Path) -> None:
    into, _ = unpacked(
        tmp_path, *(artifact(name, name.encode(), **COMPILE) for name in ("a", "A", "a", "a_2"))
    )
    assert files_in(into) == {
        "0_1/a.txt": b"a", "0_1/A_2.txt": b"A", "0_1/a_3.txt": b"a", "0_1/a_2_2.txt": b"a_2",
    }  # fmt: skip


def test_a_compile_after_a_reset_has_a_folder_of_its_own(tmp_path: Path) -> None:
    start = record(dynamo_start={}, frame_id=0, frame_compile_id=1, attempt=0)
    into, index = unpacked(
        tmp_path,
        start,
        artifact("a", b"1", **COMPILE),
        record(dynamo_start={}, frame_id=0, frame_compile_id=1, attempt=1),
        artifact("a", b"2", **COMPILE),
        start,
        artifact("a", b"3", **COMPILE),
    )
    assert files_in(into) == {"0_1/a.txt": b"1", "0_1/a_2.txt": b"2", "reset1_0_1/a.txt": b"3"}
    assert index["records"][-1]["reset"] == 1


@for_each(
    "compile_id, folder",
    [("0/1", "0_1"), ("!0/1/0", "autograd0_1_0"), ("!2", "autograd2"), (None, "no_compile")],
)
def test_a_folder_is_called_as_its_compile(compile_id: str | None, folder: str) -> None:
    assert compile_folder(compile_id) == folder


def test_each_rank_has_a_folder(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for rank in (0, 3):
        text = artifact("a", b"%d" % rank, pid=rank + 1, **COMPILE)
        (logs / f"dedicated_log_torch_trace_rank_{rank}_x.log").write_bytes(text)
    unpack(logs, tmp_path / "out", version="1")
    assert files_in(tmp_path / "out") == {"rank0/0_1/a.txt": b"0", "rank3/0_1/a.txt": b"3"}


def test_each_rank_of_one_log_has_a_folder(tmp_path: Path) -> None:
    into, index = unpacked(
        tmp_path,
        *(artifact("a", b"%d" % n, pid=n % 2 + 1, rank=n % 2, **COMPILE) for n in range(4)),
    )
    assert files_in(into) == {
        "rank0/0_1/a.txt": b"0", "rank1/0_1/a.txt": b"1", "rank0/0_1/a_2.txt": b"2", "rank1/0_1/a_2.txt": b"3",
    }  # fmt: skip
    assert [row["process"] for row in index["records"]] == ["rank0", "rank1"] * 2


def test_a_folder_with_files_is_refused_unless_told(tmp_path: Path) -> None:
    into, _ = unpacked(tmp_path, artifact("a", b"old", **COMPILE))
    (into / "mine.txt").write_text("mine")
    (tmp_path / "a.log").write_bytes(artifact("a", b"new", **COMPILE))
    with pytest.raises(GraphDoctorError, match="isn't empty"):
        unpack(tmp_path / "a.log", into, version="1")
    assert files_in(into)["0_1/a.txt"] == b"old"
    unpack(tmp_path / "a.log", into, version="1", is_replacing=True)
    assert files_in(into) == {"0_1/a.txt": b"new", "mine.txt": b"mine"}


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("theirs")
    into = tmp_path / "out"
    into.mkdir()
    (tmp_path / "a.log").write_bytes(artifact("a", b"1", **COMPILE))
    (into / "0_1").symlink_to(outside)
    with pytest.raises(GraphDoctorError, match="symbolic link"):
        unpack(tmp_path / "a.log", into, version="1", is_replacing=True)
    (into / "0_1").unlink()
    (into / "0_1").mkdir()
    (into / "0_1" / "a.txt").symlink_to(outside / "a.txt")
    (into / "index.json.part").unlink()
    (into / "index.json.part").symlink_to(outside / "a.txt")
    unpack(tmp_path / "a.log", into, version="1", is_replacing=True)
    assert (outside / "a.txt").read_text() == "theirs"
    assert not (into / "0_1" / "a.txt").is_symlink()


def test_a_full_disk_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_here: RunCli
) -> None:
    (tmp_path / "a.log").write_bytes(
        artifact("a", b"1", **COMPILE) + artifact("b", b"1", **COMPILE)
    )
    made: list[Path] = []
    new_file = folders._new_file

    def full(path: Path) -> Any:
        made.append(path)
        if path.name == "b.txt":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return new_file(path)

    monkeypatch.setattr(folders, "_new_file", full)
    found = run_here("unpack", "a.log", "-o", "out")
    assert (found.returncode, found.stdout) == (2, "")
    assert "error: Can't write to out: No space left on device." in found.stderr
    assert "without index.json, the folder is incomplete" in found.stderr
    assert not (tmp_path / "out" / "index.json").exists()


def test_a_real_log_is_unpacked_whole(tmp_path: Path, run_here: RunCli) -> None:
    found = run_here("unpack", LOWERED, "-o", "out")
    assert (found.returncode, found.stdout) == (0, "")
    index = json.loads((tmp_path / "out" / "index.json").read_bytes())
    files = files_in(tmp_path / "out")
    assert {row["file"] for row in index["records"] if row["file"]} == {*files}
    for row in index["records"]:
        whole = row["metadata"].get("has_payload")
        is_metrics = row["kind"] == "compilation_metrics"
        assert (row["file"] is None) == (whole is None and not is_metrics)
        if whole is not None and "item" not in row:
            assert hashlib.md5(files[row["file"]], usedforsecurity=False).hexdigest() == whole
    assert f"lists {len(index['records'])} records" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing", "-o", "out"), "There is no recording, log or JSON document at nothing."),
        (("whole.json", "-o", "out"), "is a JSON document; artifacts are in a trace log."),
        (("a.log", "-o", "a.log"), "a.log is a file, not a folder."),
    ],
)
def test_what_cannot_be_unpacked_is_named(
    tmp_path: Path, run_here: RunCli, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "a.log").write_bytes(artifact("a", b"1"))
    (tmp_path / "whole.json").write_text("{}")
    found = run_here("unpack", *arguments)
    assert (found.returncode, found.stdout) == (2, "")
    assert words in found.stderr
