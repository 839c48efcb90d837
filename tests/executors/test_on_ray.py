"""Pieces on a real Ray cluster of two nodes, all of it on the loopback."""

import builtins
import contextlib
import os
import pickle
import random
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors import on_ray
from graphdoctor.executors.executor import Environment, Failure, Share
from graphdoctor.executors.local import Local
from graphdoctor.executors.on_ray import OnRay
from tests.executors import pieces
from tests.executors.test_local import in_order, is_running, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on its loopback"
    ),
]

_LOOPBACK = "127.0.0.2"  # Ray takes 127.0.0.1 for the machine's address in its network
_OTHER_LOOPBACK = "127.0.0.3"


def _free_port():
    """Below those that Linux gives out, and those of Ray Client's servers (23000 to 24000)."""
    while True:
        port = random.randrange(10_000, 20_000)
        with socket.socket() as listening, contextlib.suppress(OSError):
            listening.bind((_LOOPBACK, port))
            return port


@pytest.fixture(scope="module")
def client_port():
    return _free_port()


@pytest.fixture(scope="module")
def client(cluster, client_port):
    def listens():
        with (
            contextlib.suppress(ConnectionRefusedError),
            socket.create_connection((_LOOPBACK, client_port)),
        ):
            return True
        return False

    until(listens)
    return f"ray://{_LOOPBACK}:{client_port}"


@pytest.fixture(scope="module")
def cluster(client_port):
    pytest.importorskip("ray", reason="needs Ray")
    # Ray's sockets lie there, so its path has to be short.
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # For the nodes, which import what this process imports.
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("TMPDIR", folder)  # another worker of pytest may have a cluster, too
        from ray.cluster_utils import Cluster

        node = {
            "num_cpus": 1,
            "num_gpus": 1,
            "node_ip_address": _LOOPBACK,
            "include_dashboard": False,
            "ray_client_server_port": client_port,
        }
        cluster = Cluster(initialize_head=True, head_node_args=node)
        try:
            yield cluster
        finally:
            cluster.shutdown()


@pytest.mark.nightly
def test_a_killed_node_changes_nothing_of_the_answer(cluster, capfd):
    node = cluster.add_node(num_cpus=1, num_gpus=1, node_ip_address=_OTHER_LOOPBACK)
    cluster.wait_for_nodes()
    outcomes = []
    own_print = builtins.print
    for outcome in OnRay(cluster.address).run(pieces.slow_square, list(range(12))):
        outcomes.append(outcome)
        if len(outcomes) == 3:
            cluster.remove_node(node, allow_graceful=False)
    alone = in_order(Local(1).run(pieces.slow_square, list(range(12))))
    assert pickle.dumps(in_order(outcomes)) == pickle.dumps(alone)
    assert capfd.readouterr().out == ""
    # Ray would replace it, and torch break graphs elsewhere for it.
    assert builtins.print is own_print
    # Ray tells whoever is connected when it finds the node dead, on their stderr.
    cluster.wait_for_nodes(timeout=120)


@pytest.mark.nightly
def test_a_piece_that_fails_for_good_costs_no_other(cluster):
    outcomes = dict(OnRay(cluster.address).run(pieces.killed_at_2, list(range(4))))
    assert [outcomes[index] for index in (0, 1, 3)] == [0, 1, 3]
    assert outcomes[2].kind == "lost"
    assert outcomes[2].reason.startswith("Ray gave it up: ")
    outcomes = dict(OnRay(cluster.address).run(pieces.fail_at_3, list(range(8))))
    assert outcomes[3].reason == "KeyError: 'three'"
    assert [index for index in outcomes if not isinstance(outcomes[index], Failure)] == [0, 1, 2, 7]


@pytest.mark.nightly
def test_ray_client_gives_the_same_answer(cluster, client):
    outcomes = in_order(OnRay(client, at_once=2).run(pieces.square, list(range(5))))
    assert outcomes == in_order(Local(1).run(pieces.square, list(range(5))))


@pytest.mark.nightly
def test_a_connection_that_ray_client_aborts_is_tried_again(cluster, client, monkeypatch):
    import ray

    addresses = []
    connect = ray.init

    def init(address, **options):
        addresses.append(address)
        if len(addresses) == 1:
            raise ConnectionAbortedError("Starting Ray client server failed.")
        return connect(address, **options)

    monkeypatch.setattr(on_ray, "_PAUSE_S", 0.0)
    monkeypatch.setattr(ray, "init", init)
    assert list(OnRay(client).run(pieces.square, [3])) == [(0, 9)]
    assert addresses == [client] * 2


@pytest.mark.nightly
def test_a_piece_has_its_gpu_or_sees_none(cluster):
    for share, visible in ((Share(1, gpus=1, memory_bytes=2**27), "0"), (Share(1), "")):
        outcomes = dict(OnRay(cluster.address).run(pieces.place, [0, 1], share=share))
        assert [outcomes[index][1] for index in (0, 1)] == [visible] * 2
        first, second = sorted(outcomes.values(), key=lambda place: place[2])
        assert first[3] <= second[2]


@pytest.mark.nightly
def test_a_share_that_no_node_has_is_refused(cluster):
    words = "needs 1 core and 3 GPUs and 1,048,576 GiB of memory, but no node of the Ray cluster"
    share = Share(1, gpus=3, memory_bytes=2**50)
    with pytest.raises(GraphDoctorError, match=words):
        list(OnRay(cluster.address).run(pieces.square, [1], share=share))


@pytest.mark.nightly
def test_nodes_work_in_a_copy_of_the_folder(cluster, tmp_path):
    (tmp_path / "here.txt").write_text("copied")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "__init__.py").write_text("NAME = 'shipped'\n")
    environment = Environment(
        working_dir=str(tmp_path),
        env_vars={"SURVEYED": "yes"},
        py_modules=(str(tmp_path / "library"),),
    )
    executor = OnRay(cluster.address, runtime_env=environment)
    ((_, (folder, *others)),) = executor.run(pieces.surroundings, [0])
    assert folder not in {str(tmp_path), str(Path.cwd())}
    assert others == ["copied", "yes", "shipped"]


@pytest.mark.parametrize(
    ("version", "words"), [(None, "isn't installed"), ("0.0.1", "is 0.0.1, not ")]
)
@pytest.mark.nightly
def test_a_node_with_another_version_is_refused(cluster, monkeypatch, version, words):
    monkeypatch.setattr(on_ray, "_remote_work", lambda: lambda *_: (version, b""))
    with pytest.raises(GraphDoctorError, match=words):
        list(OnRay(cluster.address).run(pieces.square, [1]))


@pytest.mark.nightly
def test_closing_the_iterator_ends_running_pieces(cluster, tmp_path):
    markers = [tmp_path / "quick", tmp_path / "long"]
    outcomes = OnRay(cluster.address).run(pieces.sleep_in_folder, markers)
    next(outcomes)
    until(markers[1].exists)
    outcomes.close()
    until(lambda: not is_running(int(markers[1].read_text())))


def test_a_cluster_of_this_machine_is_started_and_ended(monkeypatch):
    ray = pytest.importorskip("ray", reason="needs Ray")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    outcomes = in_order(OnRay(None, at_once=1).run(pieces.process_id, [0, 1]))
    assert os.getpid() not in {result for _, result in outcomes}
    assert not ray.is_initialized()
