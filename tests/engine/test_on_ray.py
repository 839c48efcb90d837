"""Pieces on a real Ray cluster of two nodes, all of it on the loopback."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.engine import on_ray
from graphdoctor.engine.local import Local
from graphdoctor.engine.on_ray import OnRay
from graphdoctor.engine.work import Done, Failed, Outcome
from graphdoctor.errors import GraphDoctorError
from tests.engine import pieces

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on its loopback"),
]

_LOOPBACK = "127.0.0.2"  # Ray takes 127.0.0.1 for the machine's address in its network
_CLIENT_PORT = 23001


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        # For the nodes, which import what this process imports.
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        from ray.cluster_utils import Cluster

        node = {"num_cpus": 1, "node_ip_address": _LOOPBACK, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=node | {"ray_client_server_port": _CLIENT_PORT})
        try:
            yield cluster
        finally:
            cluster.shutdown()


def in_order(outcomes: Any) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: outcome.index)


def test_a_killed_node_changes_nothing_of_the_answer(cluster: Any, capfd: pytest.CaptureFixture[str]) -> None:
    second = cluster.add_node(num_cpus=1, node_ip_address=_LOOPBACK)
    found = []
    for outcome in OnRay(cluster.address).run(pieces.slow_square, list(range(12))):
        found.append(outcome)
        if len(found) == 3:
            cluster.remove_node(second, allow_graceful=False)
    alone = in_order(Local(1).run(pieces.slow_square, list(range(12))))
    assert pickle.dumps(in_order(found)) == pickle.dumps(alone)
    assert capfd.readouterr().out == ""


def test_a_piece_that_fails_for_good_costs_no_other(cluster: Any) -> None:
    found = in_order(OnRay(cluster.address).run(pieces.killed_at_2, list(range(4))))
    assert [type(outcome) for outcome in found] == [Done, Done, Failed, Done]
    failure = found[2].failure
    assert failure.kind == "lost"
    assert failure.reason.startswith("Ray gave it up: ")
    found = in_order(OnRay(cluster.address).run(pieces.fail_at_3, list(range(8))))
    assert found[3].failure.reason == "KeyError: 'three'"
    assert [outcome.index for outcome in found if isinstance(outcome, Done)] == [0, 1, 2, 7]


def test_ray_client_gives_the_same_answer(cluster: Any) -> None:
    address = f"ray://{_LOOPBACK}:{_CLIENT_PORT}"
    found = in_order(OnRay(address, at_once=2).run(pieces.square, list(range(5)), ahead=2))
    assert found == in_order(Local(1).run(pieces.square, list(range(5))))


@pytest.mark.parametrize("version", [None, "0.0.1"])
def test_a_node_with_another_version_is_refused(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    def answer() -> Any:
        return lambda _version, _folder, _packed: (version, b"")

    monkeypatch.setattr(on_ray, "_remote_work", answer)
    words = "isn't installed" if version is None else "is 0.0.1, not "
    with pytest.raises(GraphDoctorError, match=words):
        list(OnRay(cluster.address).run(pieces.square, [1]))


def test_a_cluster_of_this_machine_is_started_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    found = in_order(OnRay(None, at_once=1).run(pieces.process_id, [0, 1]))
    assert os.getpid() not in {done.result for done in found}
    assert not ray.is_initialized()


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_report_from_a_cluster_is_that_of_one_process(cluster: Any, run_cli: Any, tmp_path: Path, form: str) -> None:
    (log,) = (Path(__file__).parents[1] / "recordings" / "2.13.0" / "print_in_helper.bare").glob("*.log")
    (tmp_path / "job").mkdir()
    for rank in range(4):
        shutil.copy(log, tmp_path / "job" / f"dedicated_log_torch_trace_rank_{rank}_abc.log")
    there = os.environ | {"RAY_ADDRESS": cluster.address}
    found = run_cli("report", "job", "--format", form, "--on", "ray", env=there)
    alone = run_cli("report", "job", "--format", form, "--jobs", "1")
    assert (found.returncode, found.stdout, found.stderr) == (0, alone.stdout, "")
