"""``graphdoctor lsp``: findings where the code is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.commands.gate import known_baseline, policies
from graphdoctor.commands.options import ShownOptions, with_options
from graphdoctor.commands.settings import GateTarget, load_project
from graphdoctor.commands.terminal import say_serving
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import grouped
from graphdoctor.facts.spec import RunSpec
from graphdoctor.trials.launch.store import Store

if TYPE_CHECKING:
    from graphdoctor.servers.lsp.known import Home


@with_options()
def lsp() -> None:
    """Serve findings to editors (Language Server Protocol).

    An editor starts it, and speaks on standard input and output until it closes them. It runs a
    program only when a command of the editor asks for it.

    Examples:
        graphdoctor lsp: what an editor is told to start
        graphdoctor lsp --help: what it says here
    """
    try:
        from graphdoctor.servers.lsp.server import Server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in (
            "anyio",
            "lsprotocol",
            "pygls",
        ):
            raise
        raise GraphDoctorError(
            "The package pygls isn't installed.", hint='pip install "graphdoctor[lsp]"'
        ) from error
    say_serving()
    Server(_home_of).start_io()


def _home_of(folder: Path) -> Home:
    from graphdoctor.servers.lsp.known import Home

    try:
        project = load_project(folder)
        _, baseline = known_baseline(project, None, is_without=False)
        targets = project.targets or (GateTarget(RunSpec(target=""), name=""),)
        judged_by = policies(targets, project, shown=ShownOptions(), baseline=baseline)
    except GraphDoctorError:
        # Settings that are being written, or wrong: their own commands say so.
        return Home(folder, Store(folder, keep_count=1))
    settings = project.settings
    store = Store(project.root, keep_count=settings.keep_recordings, folder=settings.recordings)
    return Home(project.root, store, grouped((one.target, judged_by[one.name]) for one in targets))
