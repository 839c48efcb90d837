"""Compressed logs read as they are, and streams that end too early."""

from __future__ import annotations

import gzip
import lzma
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from graphdoctor.commands.named import place_named
from graphdoctor.commands.settings import Settings
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.wording import partial_text
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.storage.log_file import CutStreamError, local_log
from tests.trace.test_merge import log_of

COMPRESS = {"gzip": gzip.compress, "xz": lzma.compress, "zstd": zstandard.ZstdCompressor().compress}


def gaps(path: Path) -> list[str]:
    return [gap.message for gap in read_recording(path).gaps if gap.code == "GD902"]


@pytest.fixture(params=COMPRESS)
def compression(request):
    return request.param


@pytest.mark.parametrize("name", ["log.gz", "anything.txt"])
def test_a_compressed_log_says_what_the_log_says(tmp_path, compression, name):
    (tmp_path / "plain.log").write_bytes(log_of())
    (tmp_path / name).write_bytes(COMPRESS[compression](log_of()))

    assert place_named(str(tmp_path / name), Settings()).kind == "log"
    assert read_recording(tmp_path / name) == read_recording(tmp_path / "plain.log")


def test_a_compressed_log_in_a_folder_of_trace_logs_is_read(tmp_path, compression):
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for folder, content in ((plain, log_of()), (packed, COMPRESS[compression](log_of()))):
        folder.mkdir()
        (folder / "dedicated_log_torch_trace_x.log").write_bytes(content)

    assert read_recording(packed) == read_recording(plain)


def test_a_log_can_be_opened_in_another_process_and_from_its_middle(tmp_path, compression):
    content = log_of()
    for name, stored in (("plain", content), ("packed", COMPRESS[compression](content))):
        (tmp_path / name).write_bytes(stored)
        log = pickle.loads(pickle.dumps(local_log(tmp_path / name)))
        with log.open(1000) as stream:
            assert stream.read() == content[1000:]
        with log.open(len(content) + 5) as stream:
            assert stream.read() == b""
    assert local_log(tmp_path / "plain").is_seekable
    assert not local_log(tmp_path / "packed").is_seekable


def test_joined_and_padded_streams_are_read_to_their_end(tmp_path, compression):
    pack, path = COMPRESS[compression], tmp_path / "log"
    path.write_bytes(pack(b"a\n" * 40_000) + pack(b"b\n") + b"\0" * 12)

    with local_log(path).open() as stream:
        assert stream.read() == b"a\n" * 40_000 + b"b\n"


@pytest.mark.parametrize("cut_bytes", [1, 9, 400])
def test_a_cut_stream_is_a_gap_and_its_last_lines_are_not_taken_for_whole(tmp_path, compression, cut_bytes):
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

    with pytest.raises(GraphDoctorError, match=f"log.gz can't be read: its {compression} stream is"):
        place_named(str(path), Settings())


def test_what_follows_a_stream_and_is_none_is_damage(tmp_path, compression):
    path = tmp_path / "log"
    path.write_bytes(COMPRESS[compression](b"a\n") + b"something else")

    with local_log(path).open() as stream, pytest.raises(CutStreamError, match="damaged"):
        stream.read()


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
