"""The application and its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from graphdoctor import __version__
from graphdoctor.cli.baseline import baseline
from graphdoctor.cli.bundle import bundle
from graphdoctor.cli.check import check
from graphdoctor.cli.diff import diff
from graphdoctor.cli.explain import explain
from graphdoctor.cli.fix import fix
from graphdoctor.cli.guards import guards
from graphdoctor.cli.init import init
from graphdoctor.cli.lint import lint
from graphdoctor.cli.recompiles import recompiles
from graphdoctor.cli.report import report
from graphdoctor.cli.rule import rule
from graphdoctor.cli.run import run
from graphdoctor.cli.schema import schema

app = typer.Typer(
    name="graphdoctor",
    help="Tells you what torch.compile did to your model, and why.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"graphdoctor {__version__}")
        raise typer.Exit


@app.callback()
def graphdoctor(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Tells you what torch.compile did to your model, and why."""


app.command()(explain)
app.command()(fix)
app.command()(recompiles)
app.command()(guards)
# Everything behind the script belongs to the script.
app.command(context_settings={"allow_interspersed_args": False})(run)
app.command()(report)
app.command()(diff)
app.command()(check)
app.command()(baseline)
app.command()(init)
app.command()(lint)
app.command()(bundle)
app.command()(rule)
app.command()(schema)
