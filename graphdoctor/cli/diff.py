"""``graphdoctor diff``: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.cli.options import (
    NAMED_HELP,
    Given,
    HtmlOption,
    OpenOption,
    OutputOptions,
    RecordingsOption,
    ShownOptions,
    with_options,
)
from graphdoctor.errors import GraphDoctorError
from graphdoctor.render.formats import COMPARISON

if TYPE_CHECKING:
    from graphdoctor.config import Settings
    from graphdoctor.runs.named import Place

_PAGE = Path("graphdoctor-diff.html")


@with_options(formats=COMPARISON.names)
def diff(
    shown: ShownOptions,
    written: OutputOptions,
    given: Given,
    before: Annotated[str, typer.Argument(help=f"The run to start from: a {NAMED_HELP}.", show_default=False)],
    after: Annotated[
        str | None, typer.Argument(help="The run to compare it with. By default, the last recording.")
    ] = None,
    html: HtmlOption = False,
    is_opened: OpenOption = True,
    recordings: RecordingsOption = None,
) -> None:
    """Compare two runs: new and gone findings, graphs, coverage, time.

    -v also shows the findings that stayed the same.
    """
    from graphdoctor.cli.output import choose_page
    from graphdoctor.cli.running import project_settings
    from graphdoctor.diagnosis.comparison import compare
    from graphdoctor.runs.diagnose import diagnoses_to_compare
    from graphdoctor.runs.named import place_named

    settings = project_settings(recordings)
    output = choose_page(COMPARISON, written, given, _PAGE, html=html, is_opened=is_opened)
    selection = shown.selection(settings)
    first = place_named(before, settings)
    second = _last_recording(settings, first) if after is None else place_named(after, settings)
    one, other = diagnoses_to_compare((first, second))
    output.write(compare(one, other, names=(str(first.path), str(second.path)), selection=selection))


def _last_recording(settings: Settings, first: Place) -> Place:
    """The last recording, which has to be another than the first argument."""
    from graphdoctor.runs.named import last_recording

    last = last_recording(settings)
    if last.path.resolve() == first.path.resolve():
        raise GraphDoctorError(
            f"{first.path} is itself the last recording.", hint="Record again after your change, or name a second run."
        )
    return last
