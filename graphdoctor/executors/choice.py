"""Chooses the executor that ``--jobs`` and ``--on`` ask for. Starts nothing, and imports no Ray."""

from __future__ import annotations

import os
from collections.abc import Mapping

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Environment, Executor


def executor_for(
    *,
    jobs: int | None = None,
    on: str | None = None,
    runtime_env: Environment | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Executor:
    """Return the executor for the options of a command."""
    if on is None:
        from graphdoctor.executors.local import Local
        from graphdoctor.executors.machine import cores

        if runtime_env is not None:
            raise GraphDoctorError(
                "A runtime environment is for the nodes of a cluster.", hint="Use it with --on ray."
            )
        return Local(jobs or cores())
    from graphdoctor.executors.on_ray import OnRay

    if on == "ray":
        address = environment.get("RAY_ADDRESS") or None
        return OnRay(None if address == "local" else address, jobs, runtime_env)
    if not on.startswith("ray://") or on == "ray://":
        raise GraphDoctorError(
            f"--on {on} names no executor.",
            hint="Executors are ray and ray://HOST:PORT, such as ray://head:10001.",
        )
    return OnRay(on, jobs, runtime_env)
