"""A survey on a real Ray cluster of two nodes on the loopback, one of which is killed on the
way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from graphdoctor.commands.settings import Settings
from graphdoctor.commands.survey_plan import SurveyAsked
from graphdoctor.commands.survey_run import Working, run_survey
from graphdoctor.executors.executor import Share
from graphdoctor.executors.local import Local
from graphdoctor.executors.on_ray import OnRay
from graphdoctor.facts.reading import plain
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.survey.survey_file import ListedTargets, SurveyOptions
from tests.commands.survey.test_run import Looks
from tests.commands.test_survey import BREAKS, EAGER_FAILS, GOOD, HELPER, SHARES
from tests.conftest import REPOSITORY
from tests.executors.ports import free_port

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on its loopback"
    ),
]

_FIRST, _SECOND = "127.0.0.4", "127.0.0.5"
_MEASURED = (
    "seconds",
    "started",
    "host",
    "peak_memory_bytes",
    "compile_s",
    "traceback",
    "attempts",
    "earlier",
    "causes",
)
"""What two runs on one machine don't have alike either; causes are compared by their places."""


@pytest.fixture
def client_port() -> int:
    return free_port(_FIRST)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, client_port: int) -> Iterator[Any]:
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "node_ip_address": _FIRST, "include_dashboard": False}
    cluster = Cluster(
        initialize_head=True, head_node_args=node | {"ray_client_server_port": client_port}
    )
    try:
        yield cluster
    finally:
        cluster.shutdown()


class _Kills(Looks):
    """Kills a node when a piece has begun there and another is finished."""

    def __init__(self, cluster: Any, node: Any) -> None:
        super().__init__()
        self._cluster, self._node = cluster, node
        self.places: list[str] = []

    def began(self, key, place):
        self.places.append((place or _FIRST).partition(", ")[0])

    def finished(self, row):
        super().finished(row)
        if self._node is not None and _SECOND in self.places:
            self._cluster.remove_node(self._node, allow_graceful=False)
            self._node = None


def test_a_killed_node_changes_nothing_of_the_table(cluster, client_port, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = {
        "good": GOOD,
        "breaks": BREAKS,
        "shares": SHARES,
        "helper": HELPER,
        "fails": EAGER_FAILS,
    }
    for name, text in programs.items():
        (tmp_path / f"{name}.py").write_text(text)
    targets = [
        ListedTargets(target=f"{name}.py", name=name) for name in programs if name != "helper"
    ]
    targets.append(ListedTargets(target="none.py", name="none"))
    asked = SurveyAsked(
        "table", targets, (), RunSpec(), None, SurveyOptions(timeout=300.0, retries=0, pages=False)
    )

    def surveyed(executor, looks):
        working = Working(executor, Share(1))
        return run_survey(asked, Settings(), working, looks).report

    here = surveyed(Local(1), Looks())
    node = cluster.add_node(num_cpus=1, node_ip_address=_SECOND)
    cluster.wait_for_nodes()
    kills = _Kills(cluster, node)
    there = surveyed(OnRay(f"ray://{_FIRST}:{client_port}"), kills)
    assert _SECOND in kills.places
    assert kills._node is None
    assert [_comparable(row) for row in there.rows] == [_comparable(row) for row in here.rows]
    assert [row.status for row in there.rows] == ["ok", "ok", "ok", "eager_failed", "load_failed"]


def _comparable(row):
    kept = {name: value for name, value in plain(row).items() if name not in _MEASURED}
    return kept | {
        "causes": [
            (cause.code, cause.location, cause.fingerprint, cause.count) for cause in row.causes
        ]
    }
