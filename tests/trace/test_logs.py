"""Which files are trace logs, whatever they are called."""

import gzip
import io
import tarfile
import zipfile

import pytest

from graphdoctor.commands.named import place_named, place_or_target
from graphdoctor.commands.settings import Settings
from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.logs import find_logs, find_processes
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.storage import Url, location_of
from tests.trace.test_merge import log_of


def prefixed(content, prefix):
    return [prefix + line for line in content.splitlines(keepends=True)]


def write(folder, **files):
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def names(folder):
    return [log.name for log in find_logs(folder)]


def ranks(path):
    return [process.rank for process in find_processes(find_logs(path), main_pid=None)]


def test_a_folder_s_logs_are_found_by_what_they_hold(tmp_path):
    log = log_of()
    write(
        tmp_path,
        **{
            "rank_0.log": log,
            "worker3.txt.gz": gzip.compress(log),
            "notes": b"V for victory\n",
            "model.pt": b"\0" * 99,
        },
    )

    assert names(tmp_path) == ["rank_0.log", "worker3.txt.gz"]
    assert len({compile_.compile_id for compile_ in read_recording(tmp_path).compiles}) == 8


def test_launchers_nested_folders_are_searched_and_name_ranks(tmp_path):
    log = log_of()
    write(
        tmp_path,
        **{
            f"job_x__attempt_0__{rank}__{name}": content
            for rank in (0, 1)
            for name, content in (
                ("stderr.log", b"W torch says something\n" + log),
                ("stdout.log", b"loss 1\n"),
            )
        },
    )

    assert names(tmp_path) == ["job_x/attempt_0/0/stderr.log", "job_x/attempt_0/1/stderr.log"]
    assert ranks(tmp_path) == [0, 1]


def test_files_of_recordings_and_nested_recordings_are_untouched(tmp_path):
    log = log_of()
    write(
        tmp_path,
        **{
            "one__recording.json": b'{"format": 1}',
            "one__copy.log": log,
            ".hidden__rank_0.log": log,
        },
    )

    assert names(tmp_path) == []
    assert names(tmp_path / "one") == []


def test_links_and_pipes_aren_t_followed(tmp_path):
    outside = write(tmp_path / "outside", **{"rank_0.log": log_of()})
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "rank_0.log").symlink_to(outside / "rank_0.log")
    (folder / "below").symlink_to(outside)

    assert names(folder) == []


def refusal(path):
    with pytest.raises(GraphDoctorError) as caught:
        place_named(str(path), Settings())
    return caught.value.message, caught.value.hint


def test_something_else_before_each_line_is_refused_with_a_hint(tmp_path):
    write(tmp_path, pod=b"".join(prefixed(log_of(), b"2026-01-01T00:00:00Z stdout F ")))

    message, hint = refusal(tmp_path / "pod")
    assert message.endswith(
        "it is neither a torch trace log nor a JSON document that graphdoctor wrote."
    )
    assert hint == (
        "Each line of its records begins with other text, such as '2026-01-01T00:00:00Z stdout F ': remove that."
    )


def test_archives_are_refused_with_a_hint_to_addresses(tmp_path):
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.writestr("job/rank_0.log", log_of())
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        member = tarfile.TarInfo("job/rank_0.log")
        member.size = len(log_of())
        archive.addfile(member, io.BytesIO(log_of()))
    write(tmp_path, **{"rank_0.log": log_of()})

    for kind in ("zip", "tar"):
        address = f"{kind}://::{tmp_path}/logs.{kind}"
        assert (
            refusal(tmp_path / f"logs.{kind}")[1]
            == f"It's a {kind} archive: name what is in it, {address}"
        )
        assert place_named(address, Settings()).kind == "folder"
        assert read_recording(location_of(address)) == read_recording(tmp_path / "rank_0.log")
        inside = f"{kind}://job/rank_0.log::{tmp_path}/logs.{kind}"
        assert place_named(inside, Settings()).kind == "log"
        assert read_recording(location_of(inside)) == read_recording(tmp_path / "rank_0.log")


def test_addresses_are_told_from_paths_and_targets():
    for text in ("model.py::Net", "package.module:name", "C:\\logs", "model.py:make()"):
        assert place_or_target(text, Settings()) is None
        assert not isinstance(location_of(text), Url)
    for text in ("s3://bucket", "zip://::logs.zip", "simplecache::s3://bucket/x", "abfs://c@a/x"):
        assert isinstance(location_of(text), Url)
