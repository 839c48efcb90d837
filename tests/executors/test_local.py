"""Pieces in this process and in workers: every piece comes out, whatever becomes of the others."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors import local, machine, on_ray
from graphdoctor.executors.executor import Environment, Failure, Share
from graphdoctor.executors.local import Local, executor_for
from graphdoctor.executors.machine import Machine, cores, gpus, memory, slots_for
from graphdoctor.executors.on_ray import OnRay
from tests.each import for_each
from tests.executors import pieces

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds processes to cores")


@pytest.fixture(autouse=True, params=["fork"])
def start_method(request, monkeypatch):
    monkeypatch.setattr(local, "_start_method", lambda: request.param)
    return request.param


def in_order(outcomes):
    return sorted(outcomes, key=lambda outcome: outcome[0])


@pytest.mark.parametrize("start_method", ["fork", "spawn"], indirect=True)
def test_all_outcomes_come_with_their_index(start_method):
    outcomes = in_order(Local(2).run(pieces.square, list(range(20))))
    assert outcomes == [(number, number * number) for number in range(20)]


@for_each("jobs, count, processes", [(4, 0, 0), (1, 3, 1), (4, 1, 1), (2, 6, 2)])
def test_workers_are_as_many_as_jobs(jobs, count, processes):
    used = {result for _, result in Local(jobs).run(pieces.process_id, list(range(count)))}
    assert (len(used), os.getpid() in used) == (processes, processes == 1)


@for_each("jobs, share", [(1, None), (2, None), (1, Share(None))])
def test_a_piece_that_raises_is_an_outcome(jobs, share):
    outcomes = dict(Local(jobs).run(pieces.fail_at_3, list(range(8)), share=share))
    assert [outcomes[index] for index in (0, 1, 2, 7)] == [0, 1, 2, 7]
    assert outcomes[3].reason == "KeyError: 'three'"
    assert "fail_at_3" in outcomes[3].details
    assert outcomes[4] == Failure("raised", "Can't read four.")
    assert outcomes[5] == Failure("memory", "it ran out of memory")
    assert outcomes[6].reason == "SystemExit: 1"


@for_each(
    "work, share, reason",
    [
        (pieces.killed_at_2, None, "its process was killed (SIGKILL), as the system does"),
        (pieces.leave_at_2, None, "its process ended (exit status 7)"),
        (pieces.killed_at_2, Share(None), "its process was killed (SIGKILL), as the system does"),
        (pieces.leave_at_2, Share(None), "its process ended (exit status 7)"),
    ],
)
def test_a_worker_that_ends_fails_its_piece_alone(work, share, reason):
    outcomes = in_order(Local(2).run(work, list(range(6)), share=share))
    assert [outcome for _, outcome in outcomes if not isinstance(outcome, Failure)] == [
        0,
        1,
        3,
        4,
        5,
    ]
    failure = outcomes[2][1]
    assert failure.kind == "ended"
    assert failure.reason.startswith(reason)


def test_a_piece_whose_worker_is_killed_runs_once_more(tmp_path):
    markers = [tmp_path / str(number) for number in range(4)]
    outcomes = in_order(Local(2).run(pieces.killed_once, markers))
    assert outcomes == [(number, "done") for number in range(4)]


@for_each(
    "thread_count, has_torch, method", [(1, False, "fork"), (2, False, "spawn"), (1, True, "spawn")]
)
def test_workers_are_forked_from_a_process_without_threads_or_torch(
    monkeypatch, thread_count, has_torch, method
):
    monkeypatch.undo()
    monkeypatch.setattr(threading, "active_count", lambda: thread_count)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    if has_torch:
        monkeypatch.setitem(sys.modules, "torch", sys)
    assert local._start_method() == (method if sys.platform == "linux" else "spawn")


# Pieces with a share.


@linux
@pytest.mark.slow
@pytest.mark.skipif(cores() < 2, reason="needs two cores")
def test_pieces_that_run_at_once_share_neither_cores_nor_gpus(monkeypatch):
    monkeypatch.setattr(machine, "_gpu_count", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,2")
    slots = []
    outcomes = Local(8).run(
        pieces.place,
        list(range(6)),
        share=Share(1, gpus=1),
        on_begin=lambda index, slot: slots.append((index, slot)),
    )
    places = [place for _, place in in_order(outcomes)]
    assert {gpu for _, gpu, _, _ in places} == {"5", "2"}
    overlapping = [
        (place, other)
        for number, place in enumerate(places)
        for other in places[:number]
        if place[2] < other[3] and other[2] < place[3]
    ]
    assert overlapping
    assert not any(place[0] & other[0] or place[1] == other[1] for place, other in overlapping)
    assert sorted(index for index, _ in slots) == list(range(6))
    assert {slot.partition(", ")[2] for _, slot in slots} == {"GPU 5", "GPU 2"}


@linux
@for_each("gpus, visible", [(0, ""), (None, "0,1")])
def test_a_piece_without_its_own_gpus_sees_none_or_all(monkeypatch, gpus, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    ((_, place),) = Local(1).run(pieces.place, [0], share=Share(None, gpus))
    assert place[:2] == (os.sched_getaffinity(0), visible)


@linux
@for_each("free_bytes", [(500, 500), (900, 300)])
def test_no_piece_begins_beside_another_without_memory(monkeypatch, free_bytes):
    # The second has room for two slots, until others use it.
    values = iter([(1000, free_bytes[0]), *[(1000, free_bytes[1])] * 99])
    monkeypatch.setattr(machine, "memory", values.__next__)
    share = Share(None, memory_bytes=400)
    places = [place for _, place in Local(4).run(pieces.place, [0, 1], share=share)]
    assert places[0][3] <= places[1][2]


def test_too_large_share_is_refused_before_anything_begins():
    with pytest.raises(GraphDoctorError, match="Each piece needs 5,000 cores"):
        list(Local(2).run(pieces.square, [1], share=Share(5000)))


# The end.


@pytest.mark.slow
@pytest.mark.parametrize("share", [None, Share(None)])
def test_closing_the_iterator_ends_running_pieces(tmp_path, share):
    markers = [tmp_path / "quick", tmp_path / "long", tmp_path / "other"]
    outcomes = Local(2).run(pieces.sleep_in_folder, markers, share=share)
    next(outcomes)
    until(markers[1].exists)
    outcomes.close()
    assert not is_running(int(markers[1].read_text()))


_SLEEPERS = """
import sys
from pathlib import Path
from graphdoctor.executors.executor import Share
from graphdoctor.executors.local import Local
from tests.executors import pieces
if __name__ == "__main__":
    markers = [Path(sys.argv[1]) / "0", Path(sys.argv[1]) / "1"]
    share = Share(None) if len(sys.argv) > 2 else None
    list(Local(2).run(pieces.sleep_in_folder, markers, share=share))
"""


@linux
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("has_share", [False, True])
def test_no_worker_outlives_its_parent(tmp_path, number, has_share):
    program = tmp_path / "sleepers.py"
    folder = tmp_path / "pieces"
    program.write_text(_SLEEPERS)
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, program, folder, *["share"] * has_share],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    markers = [folder / "0", folder / "1"]
    until(lambda: all(marker.exists() for marker in markers))
    started = [int(marker.read_text()) for marker in markers]
    if number == signal.SIGINT:
        os.killpg(parent.pid, number)  # as a terminal does
    else:
        parent.send_signal(number)
    _, printed = parent.communicate(timeout=30)
    assert printed.count(b"Traceback") == (number == signal.SIGINT)
    until(lambda: not any(map(is_running, started)))
    if has_share:
        # They could remove what they had made.
        assert sorted(folder.iterdir()) == markers


def is_running(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def until(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


# The choice.


def test_default_is_this_machine_with_one_job_per_core():
    assert executor_for(environment={"RAY_ADDRESS": "head:6379"}) == Local(cores())
    assert executor_for(jobs=3) == Local(3)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_cores_are_those_that_this_process_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [min(before)])
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)


@for_each(
    "on, environment, address",
    [
        ("ray", {}, None),
        ("ray", {"RAY_ADDRESS": ""}, None),
        ("ray", {"RAY_ADDRESS": "local"}, None),
        ("ray", {"RAY_ADDRESS": "head:6379"}, "head:6379"),
        ("ray://head:10001", {"RAY_ADDRESS": "other:6379"}, "ray://head:10001"),
    ],
)
def test_ray_is_at_its_address(on, environment, address):
    nodes = Environment(pip=("einops==0.8",))
    executor = executor_for(on=on, jobs=2, runtime_env=nodes, environment=environment)
    assert executor == OnRay(address, 2, nodes)


@for_each("on", ["dask", "ray://", "", "RAY"])
def test_an_unknown_executor_is_refused(on):
    with pytest.raises(GraphDoctorError, match="names no executor"):
        executor_for(on=on, environment={})


def test_a_runtime_environment_needs_a_cluster():
    with pytest.raises(GraphDoctorError, match="is for the nodes of a cluster"):
        executor_for(runtime_env=Environment(), environment={})


@for_each(
    "text, summary",
    [
        ("", "RuntimeError"),
        ("The worker died.\nSee its log.", "The worker died"),
        (
            'ray::work_there() (pid=1)\n  File "a.py", line 1, in f\n    import orjson\n'
            "ModuleNotFoundError: No module named 'orjson'\n",
            "ModuleNotFoundError: No module named 'orjson'",
        ),
    ],
)
def test_an_error_of_rays_is_one_line(text, summary):
    assert on_ray.error_summary(RuntimeError(text)) == summary


def test_choosing_imports_neither_ray_nor_torch():
    code = (
        "import sys; from graphdoctor.executors.local import executor_for\n"
        "executor_for(on='ray'); executor_for()\n"
        "print(sorted({'ray', 'torch', 'pydantic', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@for_each("address", ["ray://head", "ray://head:port", "nonsense", "ray://127.0.0.1:{port}"])
def test_an_address_without_an_answer_is_refused(address):
    pytest.importorskip("ray", reason="needs Ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = address.format(port=server.getsockname()[1])
    with pytest.raises(
        GraphDoctorError, match=f"There is no answer from a Ray cluster at {address}: "
    ):
        list(OnRay(address).run(pieces.square, [1]))


# The machine.


GIB = 2**30
EIGHT = Machine((0, 4, 1, 5, 2, 6, 3, 7), True, ("0", "1", "2"), 64 * GIB, 40 * GIB)


@for_each(
    "gpus, share, names",
    [
        (("0",), 0.25, ["0", "0", "0", "0"]),
        (("0", "1"), 0.5, ["0", "1", "0", "1"]),
        ((), 0.25, None),
    ],
)
def test_pieces_share_a_gpu_in_turns(gpus, share, names):
    there = replace(EIGHT, gpus=gpus)
    if names is None:
        with pytest.raises(GraphDoctorError, match=r"Each piece needs 0\.25 GPUs, but none"):
            slots_for(Share(None, share), there, most=4)
    else:
        slots = slots_for(Share(None, share), there, most=4)
        assert [slot.gpus for slot in slots] == [(name,) for name in names]


def test_one_process_at_a_time_holds_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(machine, "gpus", lambda: ("0", "MIG-1/2"))
    with machine.gpu_turn():
        locks = sorted(tmp_path.iterdir())
        assert len(locks) == 2
        for lock in locks:
            with lock.open("wb") as stream, pytest.raises(BlockingIOError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for lock in locks:
        with lock.open("wb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_turn_leaves_alone_what_a_planted_link_leads_to(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(machine, "gpus", lambda: ("0",))
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / f"graphdoctor-{os.getuid()}-gpu-0.lock").symlink_to(precious)
    with machine.gpu_turn():
        assert precious.read_text() == "kept"


def test_a_slot_has_whole_physical_cores():
    slots = slots_for(Share(2, gpus=1), EIGHT, most=8)
    assert [slot.cores for slot in slots] == [(0, 4), (1, 5), (2, 6)]
    assert [slot.name for slot in slots] == ["slot 1, GPU 0", "slot 2, GPU 1", "slot 3, GPU 2"]


@for_each(
    "share, there, words",
    [
        (Share(9), EIGHT, "Each piece needs 9 cores, but 8 can be used here."),
        (
            Share(1, gpus=1),
            replace(EIGHT, gpus=()),
            "Each piece needs 1 GPUs, but none can be used here.",
        ),
        (
            Share(1, gpus=1),
            replace(EIGHT, gpus=None),
            "The number of GPUs on this machine is unknown",
        ),
    ],
)
def test_a_share_that_cannot_be_given_is_one_sentence(share, there, words):
    with pytest.raises(GraphDoctorError) as raised:
        slots_for(share, there, most=2)
    assert raised.value.message.startswith(words)


@for_each(
    "count, named, found",
    [
        (2, None, ("0", "1")),
        (0, None, ()),
        (None, None, None),
        (4, "2,0", ("2", "0")),
        (4, "", ()),
        (4, "-1", ()),
        (4, "1,-1,2", ("1",)),
        (2, "0,5,1", ("0",)),
        (2, "0,0,1", ("0",)),
        (2, "GPU-8932f937, MIG-1a2b", ("GPU-8932f937", "MIG-1a2b")),
        (0, "0,GPU-8932f937", ()),
        (None, "0,1", ("0", "1")),
    ],
)
def test_gpus_are_those_that_may_be_used(monkeypatch, count, named, found):
    monkeypatch.setattr(machine, "_gpu_count", lambda: count)
    assert gpus({} if named is None else {"CUDA_VISIBLE_DEVICES": named}) == found


def system(root, cgroup, files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 800 kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        (root / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "cgroup" / name).write_text(text)
    return root / "proc", root / "cgroup"


@pytest.mark.parametrize(
    ("cgroup", "files", "total", "available"),
    [
        ("0::/\n", {}, 1000, 800),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/b/memory.current": "0\n"}, 1000, 800),
        ("0::/a/b\n", {"a/memory.max": "409600\n", "a/memory.current": "102400\n"}, 400, 300),
        (
            "0::/a\n",
            {
                "a/memory.max": "409600\n",
                "a/memory.current": "204800\n",
                "a/memory.stat": "anon 1\ninactive_file 102400\n",
            },
            400,
            300,
        ),
        ("0::/not/seen\n", {"memory.max": "512000\n", "memory.current": "614400\n"}, 500, 0),
    ],
)
def test_limits_of_control_groups_count(tmp_path, cgroup, files, total, available):
    assert memory(*system(tmp_path, cgroup, files)) == (total * 1024, available * 1024)
