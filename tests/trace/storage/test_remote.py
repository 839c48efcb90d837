"""Logs in an object store: listed, read in ranges, and never half-read in silence."""

import gzip
import importlib
import pickle
import socket
import sys
import threading
import time
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from graphdoctor.commands.named import place_named
from graphdoctor.commands.settings import Settings
from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.folder import open_folder
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.storage.places import LogFile, location_of, place_at
from graphdoctor.trace.storage.remote import Url, below
from graphdoctor.trace.storage.streams import CutStreamError
from tests.conftest import RECORDED_LOGS
from tests.trace.test_merge import PID, log_of

S3FileSystem = pytest.importorskip("s3fs", reason="needs s3fs").S3FileSystem
pytest.importorskip("moto", reason="needs moto, a store to read from")
store = importlib.import_module("tests.trace.storage.s3").store

pytestmark = pytest.mark.slow

RECORDINGS = RECORDED_LOGS / "2.13.0"
NOISE = b"[noise]\n" * 2_000_000
"""Lines that a program prints: they make a log that takes several ranges."""


@pytest.fixture(scope="module")
def running():
    with store() as served:
        recording = RECORDINGS / "print_in_helper"
        recorded = {
            f"own/{path.relative_to(recording)}": path.read_bytes()
            for path in recording.rglob("*.*")
        }
        ranks = {f"job/rank_{rank}.log": log_of(pid=PID + rank) for rank in range(3)}
        packed = {"packed/rank_0.log.gz": gzip.compress(log_of())}
        served.put(
            "logs",
            **ranks,
            **recorded,
            **packed,
            **{
                "job/": b"",
                "job/model.pt": b"\0" * 50,
                "long/rank_0.log": log_of() + NOISE + log_of(pid=7),
            },
            **{"empty/": b"", "notes/readme.txt": b"nothing here\n", "report.json": b"{}"},
        )
        yield served


@pytest.fixture
def s3(running, monkeypatch):
    running.heal()
    monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # s3fs tries again, too, with pauses.
    monkeypatch.setattr(S3FileSystem, "retries", 1)
    monkeypatch.setattr("graphdoctor.trace.storage.remote._PAUSE_S", 0.0)
    S3FileSystem.clear_instance_cache()
    yield running
    S3FileSystem.clear_instance_cache()


def write(folder, **files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def refusal(text):
    with pytest.raises(GraphDoctorError) as caught:
        read_recording(place_named(text, Settings()).location)
    return caught.value.message, caught.value.hint


def test_a_job_s_folder_reads_as_its_copy_does(s3, tmp_path):
    copy = write(
        tmp_path / "job", **{f"rank_{rank}.log": log_of(pid=PID + rank) for rank in range(3)}
    )

    place = place_named("s3://logs/job/", Settings())
    assert place.kind == "folder"
    assert read_recording(place.location) == read_recording(copy)


def test_log_is_read_in_ranges_by_another_process(s3):
    log = place_at(location_of("s3://logs/long/rank_0.log"))
    assert isinstance(log, LogFile)
    log = pickle.loads(pickle.dumps(log))
    s3.requests.clear()
    start = len(log_of()) + len(NOISE)
    with log.open(start) as stream:
        assert stream.read() == log_of(pid=7)

    ranges = [range_ for _, _, range_ in s3.requests if range_]
    assert ranges[0] == f"bytes={start}-{start + 2**16 - 1}"
    assert len(ranges) == 2

    s3.requests.clear()
    with log.open() as stream:
        assert stream.read(10) == log_of()[:10]
    assert [range_ for _, _, range_ in s3.requests if range_] == [f"bytes=0-{2**16 - 1}"]


def test_connection_cut_a_few_times_is_resumed(s3, tmp_path):
    place = place_at(Url("s3://logs/long/rank_0.log"))
    s3.cut_at = 1000
    s3.cuts_left = 2

    with place.open() as stream:
        assert stream.read() == log_of() + NOISE + log_of(pid=7)
    assert s3.cuts_left == 0


def test_log_whose_connection_stays_cut_is_a_gap(s3):
    folder = open_folder(Url("s3://logs/job"))
    whole = {rank: folder.logs[rank] for rank in range(3)}
    s3.cut_at = 5000
    s3.only = "rank_1"
    read = {}
    for rank, log in whole.items():
        try:
            with log.open() as stream:
                read[rank] = stream.read()
        except CutStreamError as error:
            assert (rank, error.name) == (1, "rank_1.log")
    assert read == {rank: log_of(pid=PID + rank) for rank in (0, 2)}

    recording = read_recording(Url("s3://logs/job"))
    (gap,) = [gap for gap in recording.gaps if gap.kind == "log_cut"]
    assert gap.message == "Couldn't read rank_1.log to its end: the connection was cut."
    alone = [compile_ for compile_ in recording.compiles if ":" not in compile_.compile_id]
    assert len(alone) == len(read_recording(Url("s3://logs/job/rank_0.log")).compiles)


def test_an_object_that_shrinks_is_not_taken_for_whole(s3):
    log = place_at(Url("s3://logs/job/rank_0.log"))
    grown = LogFile(log.location, log.name, log.size_bytes + 10)

    with grown.open() as stream, pytest.raises(CutStreamError, match="it ends after") as caught:
        stream.read()
    assert (
        caught.value.reason == f"it ends after {log.size_bytes:,} of {log.size_bytes + 10:,} bytes"
    )


def test_what_isn_t_there_is_said(s3):
    assert refusal("s3://logs/nowhere")[0] == "There is nothing at s3://logs/nowhere."
    assert refusal("s3://no-such-bucket/job")[0] == "There is nothing at s3://no-such-bucket/job."
    for folder in ("empty", "notes"):
        assert refusal(f"s3://logs/{folder}")[0] == (
            f"s3://logs/{folder} contains neither a recording nor a torch trace log."
        )
    assert refusal("s3://logs/notes/readme.txt")[0] == (
        "s3://logs/notes/readme.txt holds no trace record: it is neither a torch trace log nor a JSON document that "
        "graphdoctor wrote."
    )


def test_missing_credentials_are_said(s3, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))

    assert refusal("s3://logs/job")[0] == "s3://logs/job can't be read: no credentials were found."


@pytest.mark.slow  # botocore tries a few times
def test_an_unreachable_address_is_said_without_endless_retries(s3, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
        begin = time.monotonic()
        message, _ = refusal("s3://logs/job")

    assert message == "s3://logs/job can't be read: the address can't be reached."
    assert time.monotonic() - begin < 60


def test_a_store_that_never_answers_is_given_up(s3, monkeypatch):
    monkeypatch.setattr("graphdoctor.trace.storage.remote._LIMIT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        message, _ = refusal("s3://logs/job")

    assert message == "s3://logs/job can't be read: there was no answer for 0.5 s."


def test_a_web_server_without_ranges_is_read_to_the_end(tmp_path):
    (tmp_path / "rank_0.log").write_bytes(log_of() + NOISE[:80_000] + log_of(pid=7))
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/rank_0.log"
        assert read_recording(Url(address)) == read_recording(tmp_path / "rank_0.log")
        assert refusal(address + "x")[0] == f"There is nothing at {address}x."
        server.shutdown()
    assert refusal(address)[0] == f"{address} can't be read: the address can't be reached."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ssh://me:secret@host/job", "ssh://me:***@host/job"),
        ("https://host/rank_0.log?X-Amz-Signature=secret", "https://host/rank_0.log?***"),
        ("zip://::https://host/logs.zip?sig=secret", "zip://::https://host/logs.zip?***"),
        ("s3://bucket/job", "s3://bucket/job"),
        ("s3://bucket/a?b:c@d", "s3://bucket/a?b:c@d"),
    ],
)
def test_an_address_is_shown_without_its_secrets(text, shown):
    address = location_of(text)

    assert (str(address), f"{address}") == (shown, shown)
    assert isinstance(address, Url)
    assert (address.whole, pickle.loads(pickle.dumps(address)).whole) == (text, text)


def test_files_in_a_folder_are_opened_with_its_secrets(s3, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "fsspec.core.url_to_fs",
        lambda address: asked.append(address) or (S3FileSystem(), "logs/job/rank_0.log"),
    )
    log = LogFile(below(Url("ssh://me:secret@host/job"), "rank_0.log"), "rank_0.log", 10)

    assert log.part(0, 5) == log_of()[:5]
    assert asked == ["ssh://me:secret@host/job/rank_0.log"]


def test_a_package_that_is_missing_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)

    assert refusal("gs://logs/job") == (
        "Reading gs:// needs the package gcsfs.",
        "pip install gcsfs",
    )


def test_commands_that_need_the_files_themselves_say_so(s3):
    with pytest.raises(GraphDoctorError) as caught:
        _ = place_named("s3://logs/own", Settings()).path

    assert caught.value.message == (
        "s3://logs/own isn't on this machine, and only report, diff, recompiles and guards read what is elsewhere."
    )


@pytest.mark.parametrize(
    "name", ["dedicated_log_torch_trace_rank_{}_abc.log", "attempt_0/{}/stderr.log", "rank_{}.log"]
)
def test_archived_ranks_are_known_by_their_names(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:
        for rank in range(2):
            archive.writestr(name.format(rank), log_of(pid=PID + rank))

    ranks = open_folder(location_of(f"zip://::{tmp_path / 'job.zip'}")).ranks

    assert [rank.rank for rank in ranks] == [0, 1]
