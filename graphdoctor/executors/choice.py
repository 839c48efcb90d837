"""Chooses the executor: what ``--jobs`` and ``--on`` ask for, and what the nodes of a cluster are given before.

Comes in: options and environment variables. Goes out: an ``Executor``; nothing is started yet, and Ray isn't imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Executor
from graphdoctor.executors.local import Local
from graphdoctor.executors.machine import cores

RAY = "ray"
RAY_CLIENT = "ray://"


@dataclass(frozen=True)
class Environment:
    """A runtime environment of Ray's.

    ``working_dir``: a folder that nodes get a copy of; None to work in the folder of the same path as here.
    """

    working_dir: Path | None = None
    pip: tuple[str, ...] = ()
    env_vars: Mapping[str, str] = field(default_factory=dict)
    py_modules: tuple[Path, ...] = ()

    def described(self) -> dict[str, object]:
        """As ``ray.init`` takes it; empty for none.

        Raises:
            GraphDoctorError: A folder doesn't exist.
        """
        for folder in (*filter(None, [self.working_dir]), *self.py_modules):
            if not folder.is_dir():
                raise GraphDoctorError(f"{folder} can't be copied to the nodes of a cluster: it isn't a folder.")
        fields = {
            "working_dir": self.working_dir and str(self.working_dir.absolute()),
            "pip": list(self.pip),
            "env_vars": dict(self.env_vars),
            "py_modules": [str(folder.absolute()) for folder in self.py_modules],
        }
        return {name: value for name, value in fields.items() if value}


def executor_for(
    *,
    jobs: int | None = None,
    on: str | None = None,
    runtime_env: Environment | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Executor:
    """The executor that options ask for."""
    if on is None:
        if runtime_env is not None:
            raise GraphDoctorError("A runtime environment is for the nodes of a cluster.", hint="Use it with --on ray.")
        return Local(cores() if jobs is None else jobs)
    if on == RAY:
        named = environment.get("RAY_ADDRESS") or None
        address = None if named == "local" else named
    elif on.startswith(RAY_CLIENT) and on != RAY_CLIENT:
        address = on
    else:
        raise GraphDoctorError(
            f"--on {on} names no executor.", hint="Executors are ray and ray://HOST:PORT, such as ray://head:10001."
        )
    from graphdoctor.executors.on_ray import OnRay

    return OnRay(address, jobs, runtime_env)
