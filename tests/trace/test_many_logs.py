"""A folder of many logs: four times as many of them are four times the work, counted in calls of
functions."""

import pickle
import sys

import pytest

from graphdoctor.trace.folder import open_folder
from graphdoctor.trace.reader import read_recording

FEW = 50
MANY = 200


@pytest.fixture(params=["of_ranks", "of_processes"])
def folder_of(request, tmp_path):
    """Makes a folder of so many logs without a record."""

    def made(count):
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            rank = f"rank_{number}_" if request.param == "of_ranks" else ""
            (folder / f"dedicated_log_torch_trace_{rank}{number}x.log").touch()
        return folder

    return made


def calls_of(work):
    count = 0

    def counted(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("what", ["ranks", "recording"])
def test_work_grows_as_the_number_of_logs(folder_of, what):
    def work(folder):
        return open_folder(folder).ranks if what == "ranks" else read_recording(folder)

    few, many = (folder_of(count) for count in (FEW, MANY))
    work(few)  # what is made once
    counts = [calls_of(lambda folder=folder: work(folder)) for folder in (few, many)]

    assert counts[1] < counts[0] * MANY / FEW * 1.2


def test_rank_goes_to_its_worker_with_its_logs_only(folder_of):
    sizes = [
        [len(pickle.dumps(rank)) for rank in open_folder(folder_of(count)).ranks]
        for count in (FEW, MANY)
    ]
    assert max(sizes[1], default=0) <= max(sizes[0], default=0) + 100
