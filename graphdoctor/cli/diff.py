"""``graphdoctor diff``: two runs side by side."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.cli.diagnoses import NAMED_HELP
from graphdoctor.cli.options import Format, HtmlOption, OpenOption, OutputOptions, ShownOptions, with_options
from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from graphdoctor.cli.results import Output
    from graphdoctor.config import Settings
    from graphdoctor.model.comparison import DiagnosisComparison

_FILE_WIDTH = 120
_PAGE = Path("graphdoctor-diff.html")


@with_options
def diff(
    shown: ShownOptions,
    written: OutputOptions,
    before: Annotated[str, typer.Argument(help=f"What to start from: {NAMED_HELP}.", show_default=False)],
    after: Annotated[
        str | None,
        typer.Argument(help="What to compare it with, named likewise; by default the last recording."),
    ] = None,
    html: HtmlOption = False,
    is_opened: OpenOption = True,
) -> None:
    """Say what changed between two runs: findings that are new or gone, graphs, coverage, time.

    -v shows the findings that are the same too.
    """
    from graphdoctor.cli.diagnoses import place_named, read_diagnoses
    from graphdoctor.cli.results import Output, Shown
    from graphdoctor.config import load_settings
    from graphdoctor.diagnosis.comparison import compare

    settings = load_settings(Path.cwd())
    output = Output.choose_page(written, _PAGE, "comparison") if html else Output.choose(written, "comparison")
    chosen = Shown.choose(settings, shown)
    first = place_named(before)
    second = _last_recording(settings, first) if after is None else place_named(after)
    one, other = read_diagnoses((first, second))
    comparison = compare(one, other, names=(str(first), str(second)), selection=chosen.selection())
    _write(comparison, output)
    if html and is_opened:
        output.show()


def _last_recording(settings: Settings, first: Path) -> Path:
    """The last recording, which has to be another than the first argument."""
    from graphdoctor.capture.store import Store

    last = Store(Path.cwd(), keep_count=settings.keep_recordings).last()
    if last.resolve() == first.resolve():
        raise GraphDoctorError(
            f"{first} is the last recording itself.", hint="Record again after your change, or name a second one."
        )
    return last.relative_to(Path.cwd())


def _write(comparison: DiagnosisComparison, output: Output) -> None:
    from graphdoctor.cli.terminal import file_console, stdout_console
    from graphdoctor.render.comparison import render_comparison
    from graphdoctor.render.json import render_json

    if output.format is Format.json:
        output.write_text(render_json(comparison))
    elif output.format is Format.html:
        from graphdoctor.render.html.comparison import render_comparison_page

        output.write_text(render_comparison_page(comparison, has_source=output.has_source))
    elif output.format is Format.markdown:
        from graphdoctor.render.markdown import render_comparison_markdown

        output.write_text(render_comparison_markdown(comparison))
    elif output.path is None:
        render_comparison(comparison, stdout_console(output.colour), is_verbose=output.is_verbose)
    else:
        buffer = StringIO()
        console = file_console(buffer, output.colour, width=_FILE_WIDTH)
        render_comparison(comparison, console, is_verbose=output.is_verbose)
        output.write_text(buffer.getvalue())
