"""A project as the gate sees it: where it is, what is set, what is to be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.config.settings import Settings, find_pyproject, read_table, settings_of
from graphdoctor.config.targets import GateTarget, read_targets

BASELINE = "graphdoctor-baseline.json"


@dataclass(frozen=True)
class Project:
    """One project.

    Args:
        root: The pyproject.toml's folder, else the working directory; paths of findings are relative to it.
        pyproject: The file, or None where there is none.
        settings: What is set.
        targets: The targets of its gate, in order.
    """

    root: Path
    pyproject: Path | None
    settings: Settings
    targets: tuple[GateTarget, ...]

    @property
    def baseline(self) -> Path:
        """The baseline file, which need not exist."""
        return self.settings.baseline or self.root / BASELINE


def load_project(start: Path, environment: Mapping[str, str] | None = None) -> Project:
    """The project that a directory belongs to.

    Args:
        start: The directory; the nearest pyproject.toml in it or above counts.
        environment: Environment variables; those of the process when None.

    Raises:
        GraphDoctorError: As ``load_settings`` and ``read_targets``.
    """
    path = find_pyproject(start)
    table = read_table(path) if path else {}
    settings = settings_of(path, table, start, environment)
    targets = read_targets(path, table.get("targets", [])) if path else ()
    return Project(path.parent if path else start, path, settings, targets)
