"""``graphdoctor report``: a recording again, without running anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from graphdoctor.commands.named import diagnose_place, kept_study, place_named
from graphdoctor.commands.options import (
    NAMED_HELP,
    RANK,
    CommonOptions,
    ExecutorOptions,
    Given,
    PageOptions,
    StagesOptions,
    argument,
    with_options,
)
from graphdoctor.commands.output import Output, choose_page
from graphdoctor.commands.running import project_settings
from graphdoctor.facts.diagnosis import Result
from graphdoctor.facts.spec import option
from graphdoctor.studies.documents import JOB
from graphdoctor.studies.ranks.job import several_ranks
from graphdoctor.views.formats import DIAGNOSIS

_PAGE = Path("graphdoctor-report.html")
_AS_FOUND = ("text", "markdown")
"""Formats in which what a study found is shown; the others hold the run that it was made of, with
its graphs."""


def _of_one_rank(
    staged: StagesOptions, compiles: Sequence[str], output: Output[Result]
) -> Iterator[tuple[str, ...]]:
    if staged.stages:
        yield ("--stages",)
    if compiles:
        yield ("--html", *(part for compile_id in compiles for part in ("--compile", compile_id)))
    if output.format.name not in JOB.names:
        yield ("--format", output.format.name)


@with_options(formats=DIAGNOSIS.names, without=("python", "timeout"))
def report(
    common: CommonOptions,
    staged: StagesOptions,
    reading: ExecutorOptions,
    page: PageOptions,
    flags: Given,
    recording: Annotated[
        str | None, argument(f"A {NAMED_HELP}. By default, the last recording.")
    ] = None,
    rank: int | None = RANK,
    compiles: list[str] | None = option(
        None,
        "With --html, show the graphs, code and guards of this compile, such as 12/0. The page of a"
        " large log shows those of a few. Repeatable.",
        flag="--compile",
        metavar="ID",
    ),
) -> None:
    """Show a recording again without running anything.

    By default, it is the last recording. If it is of several ranks, they are put side by side.

    Examples:
        graphdoctor report: the last recording again
        graphdoctor report -o report.html: as a page
    """
    from graphdoctor.studies.ranks.job import job_report

    settings = project_settings(common.recordings)
    output = choose_page(DIAGNOSIS, common, flags, _PAGE, page=page)
    selection = common.selection(settings)
    if not output.needs.is_page:
        flags.refuse(("compiles",), without="--html")
    needs = replace(output.needs, stages=staged.asked(flags), compile_ids=tuple(compiles or ()))
    executor = reading.executor()
    place = place_named(recording, settings)
    if recording is None:
        output = replace(output, recording=place.path.name)
    ranks = () if rank is not None or place.kind == "document" else place.folder.ranks
    if len(ranks) > 1:
        for options_of_rank in _of_one_rank(staged, compiles or (), output):
            raise several_ranks(place.location, ranks, "report", *options_of_rank)
        output.showing(JOB).write(job_report(place.location, ranks, executor, selection))
    elif (
        output.format.name in _AS_FOUND
        and not staged.stages
        and rank is None
        and (study := kept_study(place))
    ):
        output.showing(study.document).write(study.content)
    else:
        # Names are those of the folder that it was made in, as its fixes' are.
        if place.root is not None:
            output = replace(output, options=replace(output.options, root=place.root))
        output.write(diagnose_place(place, selection, needs, rank=rank, executor=executor))
