"""Work for executors: functions of module level, as they have to be."""

import os
import signal
import tempfile
import time
from pathlib import Path

from graphdoctor.errors import GraphDoctorError


def square(number):
    return number * number


def process_id(_piece):
    time.sleep(0.05)
    return os.getpid()


def fail_at_3(number):
    if number == 3:
        raise KeyError("three")
    if number == 4:
        raise GraphDoctorError("Can't read four.")
    if number == 5:
        raise MemoryError
    if number == 6:
        raise SystemExit(1)
    return number


def killed_at_2(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leave_at_2(number):
    if number == 2:
        os._exit(7)
    return number


def killed_once(marker):
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def slow_square(number):
    time.sleep(0.3)
    return number * number


def place(_piece):
    """Cores, GPUs, beginning and end."""
    begun = time.monotonic()
    time.sleep(0.2)
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
    return frozenset(os.sched_getaffinity(0)), gpus, begun, time.monotonic()


def sleep_in_folder(marker):
    """Writes its process, and sleeps with a folder that it removes."""
    with tempfile.TemporaryDirectory(dir=marker.parent):
        marker.with_suffix(".new").write_text(str(os.getpid()))
        marker.with_suffix(".new").rename(marker)
        time.sleep(60 if marker.name != "quick" else 0)


def surroundings(_piece):
    import library

    return str(Path.cwd()), Path("here.txt").read_text(), os.environ.get("SURVEYED"), library.NAME
