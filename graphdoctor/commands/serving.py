"""``graphdoctor lsp`` and ``graphdoctor mcp``: servers for editors and coding agents."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from typer.models import ArgumentInfo

from graphdoctor.commands.app import command_of
from graphdoctor.commands.commands import COMMANDS
from graphdoctor.commands.judging import policies_without_runs
from graphdoctor.commands.options import ShownOptions, with_options
from graphdoctor.commands.settings import load_project
from graphdoctor.commands.terminal import say_serving
from graphdoctor.errors import GraphDoctorError, missing_package
from graphdoctor.facts.base import grouped
from graphdoctor.facts.spec import option
from graphdoctor.trials.launch.store import Store
from graphdoctor.views.words import first_sentence

if TYPE_CHECKING:
    from graphdoctor.servers.lsp.known import Home


@with_options()
def lsp() -> None:
    """Serve findings to editors (Language Server Protocol).

    An editor starts it, and speaks on standard input and output until it closes them. It runs a
    program only when a command of the editor asks for it.

    Examples:
        graphdoctor lsp: the command that an editor starts
        graphdoctor lsp --help: what it says here
    """
    try:
        from graphdoctor.servers.lsp.server import Server
    except ModuleNotFoundError as error:
        _refuse_missing(error, "lsp", "pygls", "lsprotocol")
        raise
    say_serving()
    Server(_home_of).start_io()


def _refuse_missing(error: ModuleNotFoundError, command: str, *packages: str) -> None:
    """Say which extra installs a package that is missing, if it is one of these."""
    if (error.name or "").partition(".")[0] in (*packages, "anyio"):
        raise missing_package(f"graphdoctor {command}", packages[0], command) from error


def _home_of(folder: Path) -> Home:
    from graphdoctor.servers.lsp.known import Home

    try:
        project = load_project(folder)
        judged_by = policies_without_runs(project, None, shown=ShownOptions())
    except GraphDoctorError:
        # Settings that are being written, or wrong: their own commands say so.
        return Home(folder, Store(folder, keep_count=1))
    settings = project.settings
    store = Store(project.root, keep_count=settings.keep_recordings, folder=settings.recordings)
    return Home(project.root, store, grouped(judged_by))


@with_options()
def mcp(
    is_read_only: bool = option(
        False, "Offer only what executes nothing: lint, report, rule.", flag="--read-only"
    ),
) -> None:
    """Serve these commands to coding agents (Model Context Protocol).

    A client starts it, and speaks on standard input and output until it closes them.

    Examples:
        graphdoctor mcp: the command that a client starts
        graphdoctor mcp --read-only: for an agent that may not run code
    """
    try:
        from graphdoctor.servers.mcp.server import Server
        from graphdoctor.servers.mcp.tools import OFFERS
    except ModuleNotFoundError as error:
        _refuse_missing(error, "mcp", "mcp")
        raise
    summaries = {name: text for group in COMMANDS.values() for name, text in group.items()}
    offers = {
        name: offer
        for name, offer in OFFERS.items()
        if offer.executes == "nothing" or not is_read_only
    }
    say_serving()
    offered = {
        name: (summaries[name], list(_taken(name, offer.takes))) for name, offer in offers.items()
    }
    Server(offered, _store_of).run("stdio")


def _taken(name: str, flags: tuple[str, ...]) -> Iterator[Any]:
    """Yield the arguments of a command and some of its options, from what its command line is made
    of.
    """
    from pydantic import Field

    from graphdoctor.servers.mcp.tools import Parameter

    for parameter in inspect.signature(command_of(name)).parameters.values():
        if get_origin(parameter.annotation) is not Annotated:
            continue
        kind, declared = get_args(parameter.annotation)[:2]
        if isinstance(declared, ArgumentInfo):
            yield Parameter(
                parameter.name, Annotated[kind, Field(description=declared.help)], parameter.default
            )
        elif (flag := str(declared.default).partition("/")[0]) in flags:
            annotation = Annotated[kind, Field(description=first_sentence(declared.help))]  # type: ignore[valid-type]
            yield Parameter(
                flag.removeprefix("--").replace("-", "_"),
                annotation,
                parameter.default,
                declared.default,
            )


def _store_of(folder: Path) -> Store:
    from graphdoctor.commands.settings import load_settings

    settings = load_settings(folder)
    return Store(folder, keep_count=settings.keep_recordings, folder=settings.recordings)
