"""What a program can rely on at its end happens although the probe skips Python's own shutdown."""

import gzip
import subprocess
import sys

PROGRAM = """
import atexit, gzip, tempfile, threading, time
from graphdoctor.probe.ways_in.process import leave

plain = open("plain.txt", "w")
plain.write("buffered")
packed = gzip.open("packed.gz", "wt")
packed.write("buffered")
temporary = tempfile.NamedTemporaryFile(dir=".", prefix="temporary")
atexit.register(print, "exit function")

def late():
    time.sleep(0.2)
    print("thread")

threading.Thread(target=late).start()
print("end", end="")
leave(7)
"""


def end(folder, program=PROGRAM):
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_process_exit_leaves_everything_as_python_does(tmp_path):
    ended = end(tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "endthread\nexit function\n", "")
    assert (tmp_path / "plain.txt").read_text() == "buffered"
    assert gzip.decompress((tmp_path / "packed.gz").read_bytes()) == b"buffered"
    assert not list(tmp_path.glob("temporary*"))


def test_exit_function_that_raises_is_reported_and_the_status_stays(tmp_path):
    ended = end(tmp_path, PROGRAM.replace("atexit.register(print", "atexit.register(int"))
    assert ended.returncode == 7
    assert "invalid literal" in ended.stderr
    assert (tmp_path / "plain.txt").read_text() == "buffered"


def test_closed_standard_output_is_no_trouble(tmp_path):
    ended = end(tmp_path, PROGRAM.replace("leave(7)", "import sys; sys.stdout.close(); leave(7)"))
    assert ended.returncode == 7
