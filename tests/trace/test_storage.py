"""Logs as they lie: compressed, in a store, in an archive; and those that end too early."""

import gzip
import lzma
import pickle
import random
import socket
import subprocess
import sys
import zipfile

import pytest
import zstandard

from graphdoctor.commands.named import place_named
from graphdoctor.commands.settings import Settings
from graphdoctor.errors import GraphDoctorError
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.comparison import partial_text
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.folder import open_folder
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.storage import CutStreamError, LogFile, Url, local_log, location_of, place_at
from tests.conftest import RECORDED_LOGS
from tests.trace.test_merge import PID, log_of

COMPRESS = {"gzip": gzip.compress, "xz": lzma.compress, "zstd": zstandard.ZstdCompressor().compress}


def gaps(location):
    return [gap.message for gap in read_recording(location).gaps if gap.code == "GD902"]


def refusal(text):
    with pytest.raises(GraphDoctorError) as caught:
        read_recording(place_named(text, Settings()).location)
    return caught.value.message, caught.value.hint


@pytest.fixture(params=COMPRESS)
def compression(request):
    return request.param


@pytest.mark.parametrize("name", ["log.gz", "anything.txt"])
def test_a_compressed_log_says_what_the_log_says(tmp_path, compression, name):
    (tmp_path / "plain.log").write_bytes(log_of())
    (tmp_path / name).write_bytes(COMPRESS[compression](log_of()))

    assert place_named(str(tmp_path / name), Settings()).kind == "log"
    assert read_recording(tmp_path / name) == read_recording(tmp_path / "plain.log")


def test_log_can_be_opened_midway_in_another_process(tmp_path, compression):
    content = log_of()
    for name, stored in (("plain", content), ("packed", COMPRESS[compression](content))):
        (tmp_path / name).write_bytes(stored)
        log = pickle.loads(pickle.dumps(local_log(tmp_path / name)))
        assert log.is_seekable == (name == "plain")
        with log.open(1000) as stream:
            assert stream.read() == content[1000:]
        with log.open(len(content) + 5) as stream:
            assert stream.read() == b""


def test_joined_and_padded_streams_are_read_to_their_end(tmp_path, compression):
    pack = COMPRESS[compression]
    path = tmp_path / "log"
    path.write_bytes(pack(b"a\n" * 40_000) + pack(b"b\n") + b"\0" * 12)

    with local_log(path).open() as stream:
        assert stream.read() == b"a\n" * 40_000 + b"b\n"


@pytest.mark.parametrize("cut_bytes", [1, 9, 400])
def test_cut_stream_is_a_gap_with_incomplete_last_lines(tmp_path, compression, cut_bytes):
    path = tmp_path / "rank_0.gz"
    path.write_bytes(COMPRESS[compression](log_of())[:-cut_bytes])

    assert f"Couldn't read rank_0.gz to its end: its {compression} stream is cut off." in gaps(path)
    diagnosis = diagnose(read_recording(path), RULES, root=tmp_path, version="0")
    assert diagnosis.recording.is_partial
    assert partial_text(diagnosis) == "the log ends early"


def test_a_damaged_stream_is_a_gap(tmp_path, compression):
    noise = b"".join(b"%r\n" % number for number in random.Random(1).sample(range(10**9), 30_000))
    packed = bytearray(COMPRESS[compression](log_of() + noise))
    middle = len(packed) // 2
    packed[middle : middle + 64] = bytes(64)
    path = tmp_path / "log"
    path.write_bytes(packed)

    assert f"Couldn't read log to its end: its {compression} stream is damaged." in gaps(path)


def test_a_stream_that_holds_nothing_readable_is_refused_by_name(tmp_path, compression):
    path = tmp_path / "log.gz"
    path.write_bytes(COMPRESS[compression](log_of())[:12])

    message, _ = refusal(str(path))
    assert f"log.gz can't be read: its {compression} stream is" in message


@pytest.mark.parametrize("line", [b"a" * 2**20, b"\n" * 2**20], ids=["line", "newlines"])
def test_a_stream_made_to_harm_is_cut(tmp_path, line):
    path = tmp_path / "log.zst"
    packed = zstandard.ZstdCompressor(level=19).compressobj()
    lines = (packed.compress(line) for _ in range(2**10))
    path.write_bytes(b"".join([packed.compress(log_of()), *lines, packed.flush()]))

    assert gaps(path)[0].endswith("its zstd stream holds 250 times as much as it takes.")
    held = 0
    with local_log(path).open() as stream, pytest.raises(CutStreamError):
        while content := stream.read1():
            held += len(content)
    assert held < 251 * path.stat().st_size


@pytest.mark.slow
def test_a_plain_log_is_read_without_decompressors_and_fsspec(tmp_path):
    (tmp_path / "plain.log").write_bytes(log_of())
    program = """if True:
        import sys
        from graphdoctor.commands.app import application
        application(["report"])(["report", *sys.argv[1:]], standalone_mode=False)
        print(sorted({"fsspec", "zstandard", "torch"} & set(sys.modules)))
    """
    process = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "plain.log")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert process.stdout.splitlines()[-1] == "[]", process.stderr


# Elsewhere.


@pytest.fixture
def store():
    """A store in memory; puts files there, by their paths."""
    system = pytest.importorskip("fsspec").filesystem("memory")
    yield lambda files: system.pipe({f"/{name}": content for name, content in files.items()})
    system.rm("/", recursive=True)


def test_a_job_s_folder_reads_as_its_copy_does(store, tmp_path):
    ranks = {f"rank_{rank}.log": log_of(pid=PID + rank) for rank in range(3)}
    store({f"job/{name}": content for name, content in ranks.items()} | {"job/model.pt": b"\0"})
    for name, content in ranks.items():
        (tmp_path / name).write_bytes(content)

    place = place_named("memory://job/", Settings())
    assert place.kind == "folder"
    assert read_recording(place.location) == read_recording(tmp_path)


def test_a_recording_in_a_store_reads_as_its_copy_does(store):
    recording = RECORDED_LOGS / "2.13.0" / "print_in_helper"
    store({f"own/{it.relative_to(recording)}": it.read_bytes() for it in recording.rglob("*.*")})

    assert read_recording(Url("memory://own")) == read_recording(recording)


def test_remote_log_is_opened_midway_by_another_process(store):
    store({"rank_0.log": log_of()})
    log = place_at(location_of("memory://rank_0.log"))
    assert isinstance(log, LogFile)

    with pickle.loads(pickle.dumps(log)).open(1000) as stream:
        assert stream.read() == log_of()[1000:]


def test_log_that_fails_on_the_way_is_a_gap(store, monkeypatch):
    from fsspec.implementations.memory import MemoryFile

    store({f"job/rank_{rank}.log": log_of(pid=PID + rank) for rank in range(3)})
    folder = open_folder(Url("memory://job"))
    read = MemoryFile.read

    def failing(file, count=-1):
        if file.path.endswith("rank_1.log") and file.tell() > 0:
            raise ConnectionError("reset")
        return read(file, min(count, 5000))

    monkeypatch.setattr(MemoryFile, "read", failing)
    for rank in (0, 2):
        with folder.logs[rank].open() as stream:
            assert stream.read() == log_of(pid=PID + rank)
    messages = gaps(Url("memory://job"))
    assert "Couldn't read rank_1.log to its end: the address can't be reached." in messages


def test_an_object_that_shrinks_is_not_taken_for_whole(store):
    store({"rank_0.log": log_of()})
    log = place_at(Url("memory://rank_0.log"))
    size = log.size_bytes
    grown = LogFile(log.location, log.name, size + 10)

    with grown.open() as stream, pytest.raises(CutStreamError) as caught:
        stream.read()
    assert caught.value.reason == f"it ends after {size:,} of {size + 10:,} bytes"


def test_what_isn_t_there_is_said(store):
    store({"notes/readme.txt": b"nothing here\n"})

    assert refusal("memory://nowhere")[0] == "There is nothing at memory://nowhere."
    assert refusal("memory://notes")[0] == (
        "memory://notes contains neither a recording nor a torch trace log."
    )
    assert refusal("memory://notes/readme.txt")[0] == (
        "memory://notes/readme.txt holds no trace record: it is neither a torch trace log nor a "
        "JSON document that graphdoctor wrote."
    )


def test_an_unreachable_address_is_said():
    pytest.importorskip("aiohttp")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/rank_0.log"

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


def test_files_in_a_folder_are_opened_with_its_secrets():
    inside = Url("ssh://me:secret@host/job").below("rank_0.log")

    assert inside.whole == "ssh://me:secret@host/job/rank_0.log"


def test_a_package_that_is_missing_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)

    assert refusal("gs://logs/job") == (
        "Reading gs:// needs the package gcsfs.",
        "pip install gcsfs",
    )


def test_commands_that_need_the_files_themselves_say_so(store):
    store({"job/rank_0.log": log_of()})
    with pytest.raises(GraphDoctorError) as caught:
        _ = place_named("memory://job", Settings()).path

    assert caught.value.message == (
        "memory://job isn't on this machine, and only report, diff, recompiles and guards read "
        "what is elsewhere."
    )


@pytest.mark.parametrize(
    "name", ["dedicated_log_torch_trace_rank_{}_abc.log", "attempt_0/{}/stderr.log", "rank_{}.log"]
)
def test_archived_ranks_are_known_by_their_names(tmp_path, name):
    pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:
        for rank in range(2):
            archive.writestr(name.format(rank), log_of(pid=PID + rank))

    ranks = open_folder(location_of(f"zip://::{tmp_path / 'job.zip'}")).ranks

    assert [rank.rank for rank in ranks] == [0, 1]
