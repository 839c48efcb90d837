"""Compressed logs read as they are, and streams that end too early."""

import gzip
import lzma
import pickle
import random
import re
import subprocess
import sys
from contextlib import suppress
from contextvars import ContextVar

import pytest
import zstandard

from graphdoctor.commands.named import place_named
from graphdoctor.commands.settings import Settings
from graphdoctor.errors import GraphDoctorError
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.comparison import partial_text
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.storage import streams
from graphdoctor.trace.storage.places import local_log
from graphdoctor.trace.storage.streams import CutStreamError, Limits
from tests.trace.test_merge import log_of

COMPRESS = {"gzip": gzip.compress, "xz": lzma.compress, "zstd": zstandard.ZstdCompressor().compress}


def gaps(path):
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


def test_log_can_be_opened_midway_in_another_process(tmp_path, compression):
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

    with pytest.raises(
        GraphDoctorError, match=f"log.gz can't be read: its {compression} stream is"
    ):
        place_named(str(path), Settings())


def digits(between):
    """Some MiB that compress little."""
    return between.join(
        b"%x" % number for number in random.Random(1).choices(range(10**9), k=2**18)
    )


RATIO = r"after \d+ MiB of its {0} stream, it holds 100 times as much as it takes, the limit that `log-ratio` sets"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "limits", "said"),
    [
        (b"a" * 2**23, Limits(log_ratio=100), RATIO),
        (b"\n" * 2**23, Limits(log_ratio=100), RATIO),
        (b"\t" + b"\n\t" * 2**22, Limits(log_ratio=100), RATIO),
        (
            digits(b""),
            Limits(log_line_mib=1),
            "a line is longer than 1 MiB, the limit that `log-line-mib` sets",
        ),
        (
            b"\t" + digits(b"\n\t"),
            Limits(log_record_mib=2),
            "a record is longer than 2 MiB, the limit that `log-rec",
        ),
        (digits(b"\n") + b"\n", Limits(log_line_mib=1, log_record_mib=1), None),
    ],
    ids=["long", "empty", "payload", "line", "record", "many"],
)
def test_what_a_log_can_hold_has_limits(tmp_path, compression, monkeypatch, attack, limits, said):
    path = tmp_path / "log"
    pack = COMPRESS[compression]
    path.write_bytes(pack(log_of()) + pack(attack))
    monkeypatch.setattr(streams, "LIMITS", ContextVar("LIMITS", default=limits))

    messages = gaps(path)
    assert len(messages) == (said is not None)
    assert said is None or re.search(said.format(compression), messages[0])
    assert sum(map(len, read_until_cut(path))) < limits.log_ratio * path.stat().st_size + 2**25


def read_until_cut(path):
    with local_log(path).open() as stream, suppress(CutStreamError):
        while read := stream.read1():
            yield read


@pytest.mark.slow
@pytest.mark.parametrize("line", [b"a" * 2**20, b"\n" * 2**20], ids=["line", "newlines"])
def test_a_gigabyte_of_one_line_takes_little_memory(tmp_path, line):
    path = tmp_path / "log.zst"
    packed = zstandard.ZstdCompressor(level=19).compressobj()
    path.write_bytes(b"".join([*(packed.compress(line) for _ in range(2**10)), packed.flush()]))
    assert path.stat().st_size < 200_000
    program = """if True:
        from pathlib import Path
        from graphdoctor.commands.app import application
        try:
            application(["report"])(["report", %r], standalone_mode=False)
        finally:
            print("kB", Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    """
    process = subprocess.run(
        [sys.executable, "-c", program % str(path)], capture_output=True, text=True, check=False
    )

    assert "`log-ratio`" in process.stderr
    assert int(process.stdout.split("kB ")[1]) < 300_000


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
