"""What a cluster's nodes are given before they work on pieces: Ray's runtime environment.

Comes in: folders, packages and variables. Goes out: what ``ray.init`` takes. Ray isn't imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.errors import GraphDoctorError


@dataclass(frozen=True)
class Environment:
    """A runtime environment.

    Args:
        working_dir: A folder that each node gets a copy of and works in, without what its ``.gitignore`` names; None
            to work in the folder of the same path as here, where a node has it.
        pip: Packages that are installed on nodes, as pip names them.
        env_vars: Environment variables of the work.
        py_modules: Folders of packages that nodes get a copy of and can import.
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
            "working_dir": None if self.working_dir is None else str(self.working_dir.absolute()),
            "pip": list(self.pip),
            "env_vars": dict(self.env_vars),
            "py_modules": [str(folder.absolute()) for folder in self.py_modules],
        }
        return {name: value for name, value in fields.items() if value}
