"""A project's configuration: ``[tool.graphdoctor]`` in pyproject.toml, ``GRAPHDOCTOR_*``, and the gate's targets."""

from graphdoctor.commands.settings.project import Project, load_project, project_folder, projects_below, repository_of
from graphdoctor.commands.settings.settings import Settings, load_settings, unknown_variables
from graphdoctor.commands.settings.targets import GateTarget

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
