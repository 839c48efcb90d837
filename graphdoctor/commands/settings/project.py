"""A project as the gate sees it: where it is, its settings, and the targets to run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.commands.settings.settings import PYPROJECT, Settings, find_pyproject, read_table, settings_of
from graphdoctor.commands.settings.targets import GateTarget, read_targets

BASELINE = "graphdoctor-baseline.json"


@dataclass(frozen=True)
class Project:
    """One project.

    Args:
        root: The folder of pyproject.toml, or the working directory without one; findings' paths are relative to it.
        pyproject: The file, or None if there is none.
        settings: Its settings.
        targets: The gate's targets, in order.
    """

    root: Path
    pyproject: Path | None
    settings: Settings
    targets: tuple[GateTarget, ...]

    @property
    def baseline(self) -> Path:
        """The path of the baseline file, which may not exist."""
        return self.settings.baseline or self.root / BASELINE


def load_project(start: Path, environment: Mapping[str, str] | None = None) -> Project:
    """The project that a directory belongs to.

    Args:
        start: The directory; the nearest pyproject.toml in it or above it counts.
        environment: Environment variables; None for those of the process.

    Raises:
        GraphDoctorError: As ``load_settings`` and ``read_targets``.
    """
    path = find_pyproject(start)
    table = read_table(path) if path else {}
    settings = settings_of(path, table, start, environment)
    targets = read_targets(path, table.get("targets", [])) if path else ()
    return Project(path.parent if path else start, path, settings, targets)


def project_folder(start: Path) -> Path | None:
    """The nearest folder, from a directory up, whose pyproject.toml configures graphdoctor or has a baseline beside it.

    Raises:
        GraphDoctorError: A pyproject.toml on the way can't be read.
    """
    path = find_pyproject(start)
    while path is not None:
        if read_table(path) or (path.parent / BASELINE).is_file():
            return path.parent
        above = path.parent.parent
        path = find_pyproject(above) if above != path.parent else None
    return None


def repository_of(start: Path) -> Path | None:
    """The root of the git repository that a directory is in; None outside any."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def projects_below(folder: Path) -> Iterator[Path]:
    """Folders, from this one down, whose pyproject.toml configures graphdoctor; without environments and hidden ones.

    Raises:
        GraphDoctorError: A pyproject.toml can't be read.
    """
    for place, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if _is_searched(Path(place, name)))
        if PYPROJECT in files and read_table(Path(place, PYPROJECT)):
            yield Path(place)


def _is_searched(folder: Path) -> bool:
    is_package_folder = folder.name in ("node_modules", "site-packages", "__pycache__")
    return not is_package_folder and not folder.name.startswith(".") and not (folder / "pyvenv.cfg").exists()
