"""A library's catalog as a probe lists it, and programs that it writes, loaded here: torch and the
library suffice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphdoctor.trials.launch.child import Setup
from tests.conftest import probe_python


def families(library: str) -> dict[str, str | None]:
    """The family of each architecture."""
    from graphdoctor.trials.launch.catalog import architectures

    catalog = architectures(library, Setup(python=probe_python(), timeout_s=240))
    return {architecture.name: architecture.family for architecture in catalog.architectures}


def written(library: str, name: str, folder: Path) -> tuple[Any, Any, Any]:
    """The program of an architecture, its model and its inputs."""
    from graphdoctor.facts.catalog import Program
    from graphdoctor.trials.launch.catalog import write_program

    program = write_program(library, name, folder, Setup(python=probe_python(), timeout_s=300))
    assert isinstance(program, Program)
    return program, *loaded(Path(program.path).read_text())


def loaded(source: str) -> tuple[Any, Any]:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program.py", "exec"), names)
    return names["build"](), names["example_inputs"]()
