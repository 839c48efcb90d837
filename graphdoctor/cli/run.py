"""``graphdoctor run``: a script as it is, and what torch.compile did in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.cli.options import (
    Colour,
    ColourOption,
    OutputOptions,
    PythonOption,
    ShownOptions,
    TimeoutOption,
    with_options,
)


@with_options
def run(
    script: Annotated[str, typer.Argument(help="A Python file or a folder with __main__.py.", show_default=False)],
    shown: ShownOptions,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="The script's own arguments; options of ours stand before it.", show_default=False),
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="The script is a module's name, as in python -m.")] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write the report to this file too: .html, .json or .txt.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file that --report names.")] = False,
    timeout: TimeoutOption = None,
    python: PythonOption = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Add operations and code of each graph, and torch's full words."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary on standard error.")] = False,
    color: ColourOption = Colour.auto,
) -> None:
    """Run a script as python would, and say on standard error what torch.compile did in it.

    The exit status is the script's own.
    """
    from graphdoctor.capture.script import find_script
    from graphdoctor.cli.results import Output, Shown, show_summary
    from graphdoctor.cli.running import record_script
    from graphdoctor.config import load_settings

    settings = load_settings(Path.cwd())
    output = Output.choose_file(OutputOptions(output=report, force=force, verbose=verbose, quiet=quiet, color=color))
    chosen = Shown.choose(settings, shown)
    found = find_script(script, arguments or [], is_module=module)
    recording, status = record_script(found, settings, python=python, timeout_s=timeout)
    show_summary(recording, chosen, output)
    raise typer.Exit(status)
