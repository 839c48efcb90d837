"""The application: only the command that is asked for is imported."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from graphdoctor import __version__
from graphdoctor.commands.commands import ABOUT, NAMES, columns, overview
from graphdoctor.commands.help import Command
from graphdoctor.views.printable import printable

_UsageError: Any = typer.BadParameter.__base__
"""What typer raises for bad usage; it has no public name of its own for that."""
_CONTEXT: dict[str, dict[str, Any]] = {
    # Everything after the script belongs to the script.
    "run": {"allow_interspersed_args": False},
}


class _Overview(typer.core.TyperGroup):
    """The group of all commands, whose help needs none of them."""

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]  # noqa: ARG002
        """As ``graphdoctor.commands.main`` prints it without typer."""
        return overview(columns()).rstrip("\n")

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
        """As typer's, with what was typed made safe to show in a complaint."""
        with _safe_complaints():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401 - as above
        """As typer's, where the command's own options are read."""
        with _safe_complaints():
            return super().invoke(ctx)


@contextlib.contextmanager
def _safe_complaints() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        error.message = printable(error.message)
        raise


def application(names: Sequence[str] = NAMES) -> typer.Typer:
    """The application with some of its commands."""
    app = typer.Typer(
        name="graphdoctor",
        cls=_Overview,
        help=ABOUT,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(graphdoctor)
    for name in names:
        command = getattr(importlib.import_module(f"graphdoctor.commands.{name}"), name)
        app.command(name, cls=Command, context_settings=_CONTEXT.get(name))(command)
    return app


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"graphdoctor {__version__}")
        raise typer.Exit


def graphdoctor(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """See what torch.compile did to your model, why, and what to change."""
