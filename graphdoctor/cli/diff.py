"""``graphdoctor diff``: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.cli.options import (
    NAMED_HELP,
    EngineOptions,
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
    from collections.abc import Sequence

    from graphdoctor.config import Settings
    from graphdoctor.runs.named import Place

_PAGE = Path("graphdoctor-diff.html")


@with_options(formats=COMPARISON.names)
def diff(
    shown: ShownOptions,
    written: OutputOptions,
    reading: EngineOptions,
    given: Given,
    before: Annotated[str, typer.Argument(help=f"The run to start from: a {NAMED_HELP}.", show_default=False)],
    after: Annotated[
        str | None, typer.Argument(help="The run to compare it with. By default, the last recording.")
    ] = None,
    ranks: Annotated[
        list[int] | None,
        typer.Option(
            "--rank",
            metavar="N",
            min=0,
            help="Of a recording of several ranks, this one; twice, to compare two ranks of one recording.",
            show_default=False,
        ),
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
    engine = reading.engine()
    first = place_named(before, settings)
    if ranks is not None and len(ranks) == 2 and after is None:
        second = first
    else:
        second = _last_recording(settings, first) if after is None else place_named(after, settings)
    one_rank, other_rank = _chosen(ranks or (), first, second)
    one, other = diagnoses_to_compare((first, second), (one_rank, other_rank), engine)
    names = (_name(first, one_rank), _name(second, other_rank))
    output.write(compare(one, other, names=names, selection=selection))


def _chosen(ranks: Sequence[int], first: Place, second: Place) -> tuple[int | None, int | None]:
    """The rank to read of each side."""
    from graphdoctor.runs.job import ranks_at

    if len(ranks) > 2:
        raise GraphDoctorError("--rank was given more than twice.", hint="diff compares two ranks.")
    if len(ranks) == 2:
        return ranks[0], ranks[1]
    if ranks:
        return ranks[0], ranks[0]
    for place in (first, second):
        if place.kind != "document" and len(ranks_at(place.location)) > 1:
            raise GraphDoctorError(
                f"{place.location} has several ranks, and diff compares one with one.",
                hint="--rank 0 --rank 1 compares two ranks of one recording, --rank 0 the same rank of two.",
            )
    return None, None


def _name(place: Place, rank: int | None) -> str:
    return str(place.location) if rank is None else f"{place.location} rank {rank}"


def _last_recording(settings: Settings, first: Place) -> Place:
    """The last recording, which has to be another than the first argument."""
    from graphdoctor.runs.named import last_recording

    last = last_recording(settings)
    if isinstance(first.location, Path) and last.path.resolve() == first.location.resolve():
        raise GraphDoctorError(
            f"{first.location} is itself the last recording.",
            hint="Record again after your change, or name a second run.",
        )
    return last
