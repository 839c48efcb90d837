"""``graphdoctor diff``: two runs, or two surveys, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.commands.named import NamedRun, diagnoses_to_compare, last_recording, place_named
from graphdoctor.commands.options import (
    FAIL_ON,
    NAMED_HELP,
    CommonOptions,
    ExecutorOptions,
    Given,
    PageOptions,
    argument,
    with_options,
)
from graphdoctor.commands.output import choose_page
from graphdoctor.commands.running import project_settings
from graphdoctor.commands.settings import Settings, repository_of
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import FailOn, option
from graphdoctor.facts.survey_comparison import SurveyComparison
from graphdoctor.rules.diagnosis.comparison import compare
from graphdoctor.studies.documents import SURVEY_COMPARISON
from graphdoctor.version import __version__
from graphdoctor.views.formats import COMPARISON

_PAGE = Path("graphdoctor-diff.html")
_ONLY_RUNS = ("ranks", "select", "ignore", "own_code", "on", "reading_jobs")
"""Parameters that say nothing of surveys."""


@with_options(formats=SURVEY_COMPARISON.names, without=("python", "timeout"))
def diff(
    common: CommonOptions,
    reading: ExecutorOptions,
    page: PageOptions,
    flags: Given,
    before: Annotated[
        str,
        argument(
            f"The run to start from: a {NAMED_HELP}. Or a survey: a .parquet or .json file, or a"
            " folder."
        ),
    ],
    after: Annotated[
        str | None,
        typer.Argument(help="What to compare it with. By default, the last recording or survey."),
    ] = None,
    ranks: list[int] | None = option(
        None,
        "Of a recording of several ranks, this one; twice, to compare two ranks of one recording.",
        flag="--rank",
        metavar="N",
        least=0,
    ),
    fail_on: FailOn | None = FAIL_ON,
) -> None:
    """Compare two runs: new and gone findings, graphs, coverage, time.

    -v also shows the findings that stayed the same.

    Two surveys are compared piece by piece. Exits with 0 if nothing got worse, 1 if something did,
    and 2 if something can't be told any more; of two runs, always with 0.

    Examples:
        graphdoctor diff before.json: against the last recording
        graphdoctor diff before.json after.json -o diff.html: as a page
    """
    if (surveys := _surveys(before, after)) is not None:
        flags.refuse(_ONLY_RUNS, without="two recordings")
        table = choose_page(SURVEY_COMPARISON, common, flags, _PAGE, page=page)
        comparison = _compared(*surveys, project_settings(common.recordings), fail_on=fail_on)
        table.write(comparison)
        if comparison.exit_code:
            raise typer.Exit(comparison.exit_code)
        return
    flags.refuse(("fail_on",), without="two surveys")
    settings = project_settings(common.recordings)
    output = choose_page(COMPARISON, common, flags, _PAGE, page=page)
    selection = common.selection(settings)
    executor = reading.executor()
    first = place_named(before, settings)
    if ranks is not None and len(ranks) == 2 and after is None:
        second = first
    else:
        second = _last_recording(settings, first) if after is None else place_named(after, settings)
    one_rank, other_rank = _chosen(ranks or (), first, second)
    diagnosis, other = diagnoses_to_compare((first, second), (one_rank, other_rank), executor)
    names = (_name(first, one_rank), _name(second, other_rank))
    output.write(compare(diagnosis, other, names=names, selection=selection))


def _surveys(before: str, after: str | None) -> tuple[Path, Path | None] | None:
    from graphdoctor.studies.survey.run import is_survey

    first = Path(before)
    if after is None:
        return (first, None) if is_survey(first) else None
    second = Path(after)
    are_surveys = is_survey(first), is_survey(second)
    if all(are_surveys):
        return first, second
    if not any(are_surveys):
        return None
    survey, other = (before, after) if are_surveys[0] else (after, before)
    if not Path(other).exists():
        raise GraphDoctorError(
            f"There is no survey at {other}.", hint=f"{survey} is one; name another to compare."
        )
    raise GraphDoctorError(
        f"{survey} is a survey, and {other} isn't.", hint="diff compares two surveys, or two runs."
    )


def _compared(
    before: Path, after: Path | None, settings: Settings, *, fail_on: FailOn | None
) -> SurveyComparison:
    from graphdoctor.studies.survey.comparison import compare_surveys
    from graphdoctor.studies.survey.run import last_survey, read_survey

    here = Path.cwd()
    repository = repository_of(here)
    second = last_survey(settings.store) if after is None else after
    survey, other = read_survey(before), read_survey(second)
    if after is None and (survey.name, survey.started) == (other.name, other.started):
        raise GraphDoctorError(
            f"{before} is itself the last survey.", hint="Run one again, or name a second one."
        )
    return compare_surveys(
        survey,
        other,
        version=__version__,
        paths=(str(before), str(second)),
        folder=None
        if repository in (None, here)
        else here.relative_to(repository or here).as_posix(),
        fail_on=fail_on or "warning",
    )


def _chosen(
    ranks: Sequence[int], first: NamedRun, second: NamedRun
) -> tuple[int | None, int | None]:
    if len(ranks) > 2:
        raise GraphDoctorError("--rank was given more than twice.", hint="diff compares two ranks.")
    if ranks:
        return ranks[0], ranks[-1]
    for place in (first, second):
        if place.kind != "document" and len(place.folder.ranks) > 1:
            raise GraphDoctorError(
                f"{place.location} has several ranks, and diff compares one with one.",
                hint=(
                    "--rank 0 --rank 1 compares two ranks of one recording, --rank 0 the same rank"
                    " of two."
                ),
            )
    return None, None


def _name(place: NamedRun, rank: int | None) -> str:
    return str(place.location) if rank is None else f"{place.location} rank {rank}"


def _last_recording(settings: Settings, first: NamedRun) -> NamedRun:
    last = last_recording(settings)
    if isinstance(first.location, Path) and last.path.resolve() == first.location.resolve():
        raise GraphDoctorError(
            f"{first.location} is itself the last recording.",
            hint=(
                "Record again after your change, or name a second run. graphdoctor keep NAME keeps"
                f" one until then; of the others {settings.keep_recordings} stay (the setting"
                " keep-recordings)."
            ),
        )
    return last
