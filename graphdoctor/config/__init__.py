"""A project's configuration: ``[tool.graphdoctor]`` in pyproject.toml, ``GRAPHDOCTOR_*``, and the gate's targets."""

from graphdoctor.config.project import Project, load_project, project_folder, projects_below, repository_of
from graphdoctor.config.settings import Settings, load_settings, unknown_variables
from graphdoctor.config.targets import GateTarget

__all__ = [
    "GateTarget",
    "Project",
    "Settings",
    "load_project",
    "load_settings",
    "project_folder",
    "projects_below",
    "repository_of",
    "unknown_variables",
]
