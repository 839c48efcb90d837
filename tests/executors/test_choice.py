"""The executor that the options ask for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors import on_ray
from graphdoctor.executors.executor import Environment
from graphdoctor.executors.local import Local, executor_for
from graphdoctor.executors.machine import cores
from graphdoctor.executors.on_ray import OnRay
from tests.each import for_each
from tests.executors import pieces


def test_default_is_this_machine_with_one_job_per_core() -> None:
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
    nodes = Environment(pip=("einops==0.8",))
    executor = executor_for(on=on, jobs=2, runtime_env=nodes, environment=environment)
    assert executor == OnRay(address, 2, nodes)


@for_each("on", ["dask", "ray://", "", "RAY"])
def test_an_unknown_executor_is_refused(on: str) -> None:
    with pytest.raises(GraphDoctorError, match="names no executor"):
        executor_for(on=on, environment={})


def test_a_runtime_environment_needs_a_cluster() -> None:
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
def test_an_error_of_rays_is_one_line(text: str, summary: str) -> None:
    assert on_ray.error_summary(RuntimeError(text)) == summary


def test_choosing_imports_neither_ray_nor_torch() -> None:
    code = (
        "import sys; from graphdoctor.executors.local import executor_for\n"
        "executor_for(on='ray'); executor_for()\n"
        "print(sorted({'ray', 'torch', 'pydantic', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@for_each("address", ["ray://head", "ray://head:port", "nonsense", "ray://127.0.0.1:{port}"])
def test_an_address_without_an_answer_is_refused(address: str) -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = address.format(port=server.getsockname()[1])
    with pytest.raises(
        GraphDoctorError, match=f"There is no answer from a Ray cluster at {address}: "
    ):
        list(OnRay(address).run(pieces.square, [1]))
