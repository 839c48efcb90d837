"""Pieces on a real Ray cluster of two nodes, all of it on the loopback."""

from __future__ import annotations

import builtins
import contextlib
import os
import pickle
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors import on_ray
from graphdoctor.executors.executor import Environment, Failure, Outcome, Share
from graphdoctor.executors.local import Local
from graphdoctor.executors.on_ray import OnRay
from tests.conftest import RECORDED_LOGS
from tests.executors import pieces
from tests.executors.ports import free_port
from tests.executors.test_local import _is_running, _until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on its loopback"
    ),
]

_LOOPBACK = "127.0.0.2"  # Ray takes 127.0.0.1 for the machine's address in its network
_OTHER_LOOPBACK = "127.0.0.3"


@pytest.fixture(scope="module")
def client_port() -> int:
    """A free one, as several workers of pytest may have a cluster each."""
    return free_port(_LOOPBACK)


@pytest.fixture(scope="module")
def client(cluster: Any, client_port: int) -> str:
    """Where its clients connect: the cluster doesn't wait until its server listens."""

    def listens() -> bool:
        with (
            contextlib.suppress(ConnectionRefusedError),
            socket.create_connection((_LOOPBACK, client_port)),
        ):
            return True
        return False

    _until(listens)
    return f"ray://{_LOOPBACK}:{client_port}"


@pytest.fixture(scope="module")
def cluster(client_port: int) -> Iterator[Any]:
    pytest.importorskip("ray")
    # Cores are claimed by files there. Ray's sockets lie there as well, so its path has to be
    # short.
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
        }
        cluster = Cluster(
            initialize_head=True, head_node_args=node | {"ray_client_server_port": client_port}
        )
        try:
            yield cluster
        finally:
            cluster.shutdown()


@pytest.fixture
def mortal_node(cluster: Any) -> Iterator[Any]:
    """A second node with a GPU, for a test that kills it."""
    node = cluster.add_node(num_cpus=1, num_gpus=1, node_ip_address=_OTHER_LOOPBACK)
    cluster.wait_for_nodes()
    yield node
    # Ray tells whoever is connected when it finds the node dead, on their stderr.
    cluster.wait_for_nodes(timeout=120)


def in_order(outcomes: Any) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: outcome[0])


@pytest.mark.nightly
def test_a_killed_node_changes_nothing_of_the_answer(
    cluster: Any, mortal_node: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    found, own_print = [], builtins.print
    for outcome in OnRay(cluster.address).run(pieces.slow_square, list(range(12))):
        found.append(outcome)
        if len(found) == 3:
            cluster.remove_node(mortal_node, allow_graceful=False)
    alone = in_order(Local(1).run(pieces.slow_square, list(range(12))))
    assert pickle.dumps(in_order(found)) == pickle.dumps(alone)
    assert capfd.readouterr().out == ""
    # Ray would replace it, and torch break graphs elsewhere for it.
    assert builtins.print is own_print


@pytest.mark.nightly
def test_a_piece_that_fails_for_good_costs_no_other(cluster: Any) -> None:
    found = in_order(OnRay(cluster.address).run(pieces.killed_at_2, list(range(4))))
    assert [isinstance(each, Failure) for _, each in found] == [False, False, True, False]
    failure = found[2][1]
    assert failure.kind == "lost"
    assert failure.reason.startswith("Ray gave it up: ")
    found = in_order(OnRay(cluster.address).run(pieces.fail_at_3, list(range(8))))
    assert found[3][1].reason == "KeyError: 'three'"
    assert [index for index, each in found if not isinstance(each, Failure)] == [0, 1, 2, 7]


@pytest.mark.nightly
def test_ray_client_gives_the_same_answer(cluster: Any, client: str) -> None:
    found = in_order(OnRay(client, at_once=2).run(pieces.square, list(range(5)), ahead=2))
    assert found == in_order(Local(1).run(pieces.square, list(range(5))))


@pytest.mark.nightly
def test_ray_client_s_server_is_started_again_where_it_died(
    cluster: Any, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    tried: list[str] = []
    connect = ray.init

    def init(address: str, **options: Any) -> Any:
        tried.append(address)
        if len(tried) == 1:
            raise ConnectionAbortedError(
                "Initialization failure from server:\nStarting Ray client server failed."
            )
        return connect(address, **options)

    monkeypatch.setattr(on_ray, "_PAUSE_S", 0.0)
    monkeypatch.setattr(ray, "init", init)
    ((_, done),) = OnRay(client).run(pieces.square, [3])
    assert done == 9
    assert tried[:2] == [client] * 2

    def refuse(address: str, **_: Any) -> Any:
        tried.append(address)
        raise ConnectionAbortedError("Failed to create runtime_env for Ray client server")

    tried.clear()
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(GraphDoctorError, match="Failed to create runtime_env"):
        list(OnRay(client).run(pieces.square, [3]))
    assert tried == [client]


@pytest.mark.nightly
def test_two_pieces_are_never_on_one_gpu_though_a_node_is_killed(
    cluster: Any, client: str, mortal_node: Any
) -> None:
    places: dict[int, str | None] = {}
    found: list[Outcome] = []
    # Ray Client's end is on the first node; without it, this process may use the node that is
    # killed.
    outcomes = OnRay(client).run(
        pieces.place,
        list(range(12)),
        share=Share(1, gpus=1, memory_bytes=2**27),
        on_begin=places.__setitem__,
    )
    for outcome in outcomes:
        assert outcome[0] in places
        found.append(outcome)
        if len(found) == 5:
            cluster.remove_node(mortal_node, allow_graceful=False)
    assert [index for index, _ in in_order(found)] == list(range(12))
    nodes = {index: (place or _LOOPBACK).partition(", ")[0] for index, place in places.items()}
    assert set(nodes.values()) == {_LOOPBACK, _OTHER_LOOPBACK}
    for one, other in combinations(found, 2):
        (held, gpu, begun, ended), (other_held, other_gpu, other_begun, other_ended) = (
            one[1],
            other[1],
        )
        assert len(held) == len(other_held) == 1
        assert gpu == other_gpu == "0"
        if begun < other_ended and other_begun < ended:
            assert nodes[one[0]] != nodes[other[0]]
            assert not held & other_held


@pytest.mark.nightly
def test_a_share_is_worked_on_as_on_this_machine(cluster: Any, tmp_path: Path) -> None:
    on_ray, share = OnRay(cluster.address), Share(1)
    begun: list[int] = []
    found = in_order(
        on_ray.run(
            pieces.killed_at_2,
            [0, 2],
            share=share,
            attempts=1,
            on_begin=lambda index, _: begun.append(index),
        )
    )
    assert found == in_order(Local(1).run(pieces.killed_at_2, [0, 2], share=share, attempts=1))
    assert sorted(begun) == [0, 1]
    ((_, done),) = on_ray.run(pieces.leave_running, [tmp_path / "left"], share=share)
    assert not any(map(_is_running, done))
    outcomes = on_ray.run(
        pieces.wait_for, [(tmp_path / "0", 0.0), (tmp_path / "1", 60.0)], share=share
    )
    next(outcomes)
    _until((tmp_path / "1").exists)
    outcomes.close()
    _until(lambda: not _is_running(int((tmp_path / "1").read_text())))


@pytest.mark.nightly
def test_a_share_that_no_node_has_is_one_sentence(cluster: Any) -> None:
    words = "Each piece needs 1 core, 3 GPUs and 1,048,576 GiB of memory, but no node of the Ray cluster has that."
    with pytest.raises(GraphDoctorError, match=words):
        list(
            OnRay(cluster.address).run(
                pieces.square, [1], share=Share(1, gpus=3, memory_bytes=2**50)
            )
        )


@pytest.mark.nightly
def test_nodes_work_in_a_copy_of_the_folder(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "here.txt").write_text("copied")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "__init__.py").write_text("NAME = 'shipped'\n")
    environment = Environment(
        working_dir=tmp_path, env_vars={"SURVEYED": "yes"}, py_modules=(tmp_path / "library",)
    )
    for share in (None, Share(1)):
        ((_, done),) = OnRay(cluster.address, runtime_env=environment).run(
            pieces.surroundings, [0], share=share
        )
        folder, text, variable, name = done
        assert folder not in {str(tmp_path), str(Path.cwd())}
        assert (text, variable, name) == ("copied", "yes", "shipped")


@pytest.mark.parametrize("version", [None, "0.0.1"])
@pytest.mark.nightly
def test_a_node_with_another_version_is_refused(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    def answer() -> Any:
        return lambda *_: (version, b"")

    monkeypatch.setattr(on_ray, "_remote_work", answer)
    words = "isn't installed" if version is None else "is 0.0.1, not "
    with pytest.raises(GraphDoctorError, match=words):
        list(OnRay(cluster.address).run(pieces.square, [1]))


@pytest.mark.nightly
def test_closing_the_iterator_ends_what_runs(cluster: Any, tmp_path: Path) -> None:
    outcomes = OnRay(cluster.address).run(
        pieces.wait_for, [(tmp_path / "0", 0.0), (tmp_path / "1", 60.0)]
    )
    next(outcomes)
    _until((tmp_path / "1").exists)
    outcomes.close()
    _until(lambda: not _is_running(int((tmp_path / "1").read_text())))


def test_a_cluster_of_this_machine_is_started_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    found = in_order(OnRay(None, at_once=1).run(pieces.process_id, [0, 1]))
    assert os.getpid() not in {result for _, result in found}
    assert not ray.is_initialized()


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.nightly
def test_a_report_from_a_cluster_is_that_of_one_process(
    cluster: Any, run_cli: Any, tmp_path: Path, form: str
) -> None:
    (log,) = (RECORDED_LOGS / "2.13.0" / "print_in_helper.bare").glob("*.log")
    (tmp_path / "job").mkdir()
    for rank in range(4):
        shutil.copy(log, tmp_path / "job" / f"dedicated_log_torch_trace_rank_{rank}_abc.log")
    there = os.environ | {"RAY_ADDRESS": cluster.address}
    found = run_cli("report", "job", "--format", form, "--on", "ray", env=there)
    alone = run_cli("report", "job", "--format", form, "--jobs", "1")
    assert (found.returncode, found.stdout, found.stderr) == (0, alone.stdout, "")
