"""Chooses the engine: what ``--jobs`` and ``--on`` ask for.

Comes in: options and environment variables. Goes out: an ``Engine``; nothing is started yet, and Ray isn't imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.environment import Environment
from graphdoctor.executors.local import Local
from graphdoctor.executors.machine import cores
from graphdoctor.executors.work import Engine

RAY = "ray"
RAY_CLIENT = "ray://"
_ADDRESS_VARIABLE = "RAY_ADDRESS"


def engine_for(
    *,
    jobs: int | None = None,
    on: str | None = None,
    runtime_env: Environment | None = None,
    environment: Mapping[str, str] | None = None,
) -> Engine:
    """The engine that options ask for.

    Args:
        jobs: ``--jobs``: how many pieces at once; None for as many as there are cores.
        on: ``--on``: ``ray``, or ``ray://host:port``; None for this machine's processes.
        runtime_env: What the nodes of a cluster are given before; None for nothing.
        environment: Environment variables; None for those of this process.

    Raises:
        GraphDoctorError: ``on`` names no engine, or this machine is to have a runtime environment.
    """
    if on is None:
        if runtime_env is not None:
            raise GraphDoctorError("A runtime environment is for the nodes of a cluster.", hint="Use it with --on ray.")
        return Local(cores() if jobs is None else jobs)
    environment = os.environ if environment is None else environment
    if on == RAY:
        address = environment.get(_ADDRESS_VARIABLE) or None
        address = None if address == "local" else address
    elif on.startswith(RAY_CLIENT) and on != RAY_CLIENT:
        address = on
    else:
        raise GraphDoctorError(
            f"--on {on} names no engine.", hint="Engines are ray and ray://HOST:PORT, such as ray://head:10001."
        )
    from graphdoctor.executors.on_ray import OnRay

    return OnRay(address, jobs, runtime_env)
