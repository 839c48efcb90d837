"""Which executor the options ask for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors import on_ray
from graphdoctor.executors.executor import Environment, Failure, Job, Share, executor_for
from graphdoctor.executors.local import Local
from graphdoctor.executors.machine import cores
from graphdoctor.executors.on_ray import OnRay
from tests.each import for_each
from tests.executors import pieces


def test_without_a_cluster_it_is_this_machine_with_a_job_for_each_core() -> None:
    assert executor_for(environment={"RAY_ADDRESS": "head:6379"}) == Local(cores())
    assert executor_for(jobs=3) == Local(3)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_cores_are_those_that_this_process_may_use() -> None:
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
def test_ray_is_at_its_address(on: str, environment: dict[str, str], address: str | None) -> None:
    assert executor_for(on=on, environment=environment) == OnRay(address)
    assert executor_for(on=on, jobs=2, environment=environment) == OnRay(address, 2)


def test_a_runtime_environment_goes_to_ray(tmp_path: Path) -> None:
    given = Environment(tmp_path, ("einops==0.8",), {"A": "b"}, (tmp_path,))
    assert executor_for(on="ray", runtime_env=given, environment={}) == OnRay(
        None, runtime_env=given
    )
    assert given.described() == {
        "working_dir": str(tmp_path),
        "pip": ["einops==0.8"],
        "env_vars": {"A": "b"},
        "py_modules": [str(tmp_path)],
    }
    assert Environment().described() == {}


def test_what_cannot_be_chosen_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GraphDoctorError, match="is for the nodes of a cluster"):
        executor_for(runtime_env=Environment(), environment={})
    with pytest.raises(
        GraphDoctorError, match="can't be copied to the nodes of a cluster: it isn't a folder"
    ):
        Environment(working_dir=tmp_path / "missing").described()
    for on in ("dask", "ray://", "", "RAY"):
        with pytest.raises(GraphDoctorError, match="names no executor"):
            executor_for(on=on, environment={})


class _Stalled:
    """A cluster whose nodes have ended: it waits for others."""

    def __init__(self) -> None:
        self.cancelled: list[object] = []

    def wait(self, _references: object, **_how: object) -> tuple[list[object], list[object]]:
        return [], []

    def nodes(self) -> list[dict[str, object]]:
        return [
            {"Alive": False, "Resources": {"CPU": 8.0, "GPU": 8.0}},
            {"Alive": True, "Resources": {"CPU": 8.0}},
        ]

    def cancel(self, reference: object, *, force: bool) -> None:
        assert force
        self.cancelled.append(reference)

    def remote(self, *_piece: object) -> object:
        return object()


@for_each(
    "text, essence",
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
def test_an_error_of_rays_is_one_line(text: str, essence: str) -> None:
    assert on_ray.error_summary(RuntimeError(text)) == essence


def test_pieces_that_no_node_can_take_any_more_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_ray, "time", SimpleNamespace(monotonic=iter(range(0, 1000, 7)).__next__))
    stalled = _Stalled()
    job = Job(pieces.square, [1, 2], 2, Share(2, gpus=1), 1, None)
    found = list(on_ray._Pending(stalled, stalled, None, job).outcomes(None))
    failure = Failure("lost", "no node of the Ray cluster has 2 cores and 1 GPU any more")
    assert found == [(0, failure), (1, failure)]
    assert len(stalled.cancelled) == 2


def test_choosing_imports_neither_ray_nor_processes_of_torch() -> None:
    code = "import sys; from graphdoctor.executors.executor import executor_for; executor_for(on='ray'); executor_for()\n"
    code += "print(sorted({'ray', 'torch', 'pydantic', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_an_address_without_an_answer_is_one_sentence() -> None:
    pytest.importorskip("ray")
    for address in ("ray://head", "ray://head:port", "nonsense"):
        with pytest.raises(GraphDoctorError, match="isn't the address of a Ray cluster"):
            list(OnRay(address).run(pieces.square, [1]))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(
        GraphDoctorError, match=f"There is no answer from a Ray cluster at ray://127.0.0.1:{port}"
    ):
        list(OnRay(f"ray://127.0.0.1:{port}").run(pieces.square, [1]))


@pytest.mark.slow
def test_something_else_that_listens_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(on_ray, "_ANSWER_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        for form in ("ray://{}:{}", "{}:{}"):
            with pytest.raises(GraphDoctorError, match="what listens there isn't Ray"):
                list(OnRay(form.format(*server.getsockname())).run(pieces.square, [1]))


def test_without_ray_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(GraphDoctorError, match="needs Ray") as raised:
        list(OnRay(None).run(pieces.square, [1]))
    assert raised.value.hint == "pip install 'graphdoctor[ray]'"
