"""``graphdoctor survey``: many targets, each compiled in several ways."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from graphdoctor.commands.options import (
    COLOR,
    PYTHON,
    QUIET,
    RECORDINGS,
    RUN_OPTIONS,
    VERBOSE,
    Color,
    Given,
    argument,
    names_of,
    with_options,
)
from graphdoctor.commands.output import Output, check_outputs, check_shown
from graphdoctor.commands.running import EXIT_INTERRUPTED, project_settings
from graphdoctor.commands.settings import Settings
from graphdoctor.commands.survey_plan import SurveyAsked, listed_text, parse_shard, variant_of_text
from graphdoctor.commands.survey_progress import SurveyProgress
from graphdoctor.commands.survey_run import Working, run_survey
from graphdoctor.commands.survey_store import is_survey, last_survey, read_survey
from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.executors.choice import executor_for
from graphdoctor.executors.executor import Environment, Share
from graphdoctor.executors.machine import cores, gpus
from graphdoctor.facts.base import values_of
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.facts.survey import SurveyReport, SurveyRow
from graphdoctor.facts.wording import counted
from graphdoctor.studies.documents import SURVEY
from graphdoctor.studies.survey.merge import merge_surveys
from graphdoctor.studies.survey.parquet import check_installed
from graphdoctor.studies.survey.survey_file import (
    ListedTargets,
    SurveyFile,
    SurveyOptions,
    read_survey_file,
)
from graphdoctor.trials.launch.child import handling, interrupt
from graphdoctor.views.formats import RenderOptions

_DOCUMENTS = (".parquet", ".json")
_MOST_NAMED = 3


@dataclass(frozen=True)
class ListOptions:
    """What is in the list."""

    libraries: list[str] | None = option(
        None,
        "Every architecture of transformers, torch-geometric, timm, torchvision or diffusers, with its "
        "smallest configuration and random weights. Repeatable.",
        flag="--from",
        metavar="LIBRARY",
    )
    only: list[str] | None = option(
        None,
        "Of --from, only architectures of this name, such as 'gpt*'. Repeatable.",
        metavar="PATTERN",
    )
    exclude: list[str] | None = option(
        None,
        "Of --from and of patterns, leave out what has this name. Repeatable.",
        metavar="PATTERN",
    )
    variants: list[str] | None = option(
        None,
        "Run every target this way: mode=reduce-overhead, backend=inductor, dynamic=true, fullgraph=true, "
        "option.NAME=VALUE, config.NAME=VALUE, regional, dtype=bfloat16, batch=8, device=cuda, python=PATH; or "
        "several of these, with spaces between. Repeatable.",
        flag="--variant",
        metavar="NAME=VALUE",
    )
    shard: str | None = option(None, "Run one part of several, such as 3/8.", metavar="N/COUNT")
    resume: bool = option(
        False, "Go on with the last survey of this name: run what is missing or has changed."
    )


@dataclass(frozen=True)
class TableOptions:
    """Where the table goes, and how it looks."""

    format: str = option(
        SURVEY.names[0], "What to write to standard output: {formats}.", metavar="FORMAT"
    )
    output: list[Path] | None = option(
        None,
        "Also write the table to this file, as what its ending says. Repeatable.",
        flag="--output -o",
        metavar="FILE",
    )
    force: bool = option(False, "Overwrite files that -o names.")
    verbose: bool = VERBOSE
    quiet: bool = QUIET
    color: Color = COLOR

    def outputs(self, given: Given) -> tuple[Output[SurveyReport], ...]:
        """Standard output, then files; checked before anything runs."""
        if not self.output:
            given.refuse(("force",), without="-o")
        formats = [SURVEY.named(self.format), *map(SURVEY.of_path, self.output or ())]
        check_shown(formats[0])
        if any(format.name == "parquet" for format in formats):
            check_installed()
        options = RenderOptions(Path.cwd(), is_verbose=self.verbose)
        found = [
            Output(format, path, options, self.color, self.quiet)
            for format, path in zip(formats, (None, *(self.output or ())), strict=True)
        ]
        check_outputs(found, force=self.force)
        return tuple(found)


@with_options(formats=SURVEY.names, without=("inputs",))
def survey(
    listed: ListOptions,
    measured: SurveyOptions,
    table: TableOptions,
    spec: RunSpec,
    given: Given,
    lists: Annotated[
        list[str] | None,
        argument(
            "survey.toml, patterns of files ('models/*.py') or targets. Or surveys to show again, as one: "
            "folders, .parquet and .json files. By default, the last survey.",
            metavar="[LIST]...",
        ),
    ] = None,
    where: str | None = option(
        None,
        "Run pieces on a Ray cluster: ray://HOST:PORT, or ray for that of RAY_ADDRESS, else one on this machine.",
        flag="--on",
        metavar="CLUSTER",
        heading="Where pieces run",
    ),
    python: str | None = PYTHON,
    recordings: Path | None = RECORDINGS,
) -> None:
    """Compile many targets in several ways, and report them in one table.

    Each piece, a target in one variant, runs in processes of its own. What fails is a row too.

    Examples:
        graphdoctor survey '*.py' -o table.csv: every file that has a target
        graphdoctor survey model.py --bench -o t.html: timed beside eager mode
    """
    texts = lists or ()
    settings = project_settings(recordings)
    outputs = table.outputs(given)
    if not listed.libraries:
        given.refuse(("only",), without="--from")
    if not listed.libraries and all(_is_kept(text) for text in texts):
        given.refuse(
            (*RUN_OPTIONS, *names_of(ListOptions, SurveyOptions), "where", "python"),
            without="a list",
        )
        report, folder = _kept(texts, settings)
        _write(report, outputs, folder)
        return
    file = _file(texts)
    # What the command line says, then the file.
    written = values_of(measured, *(name for name in names_of(SurveyOptions) if name in given))
    measured = replace(file.options, **written)
    asked = _asked(texts, listed, file, measured, spec, given, python)
    working = _working(measured, where, file.nodes, resume=listed.resume)
    # When a job's time is up, it ends as after Ctrl-C, with a report.
    with SurveyProgress(is_quiet=table.quiet) as progress, handling((signal.SIGTERM,), interrupt):
        surveyed = run_survey(asked, settings, working, progress)
    _write(surveyed.report, outputs, surveyed.folder)
    if surveyed.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    _check_any_loaded(surveyed.report.rows)


# Surveys that have run.


def _is_kept(text: str) -> bool:
    """Whether an argument is a survey that has run: a document, or a folder of one."""
    path = Path(text)
    return path.suffix.lower() in _DOCUMENTS or is_survey(path)


def _kept(texts: Sequence[str], settings: Settings) -> tuple[SurveyReport, Path | None]:
    """Surveys that have run, as one, and the folder with its pages."""
    paths = [Path(text) for text in texts] or [last_survey(settings)]
    folder = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
    return merge_surveys([read_survey(path) for path in paths]), folder


# Surveys to run.


def _file(texts: Sequence[str]) -> SurveyFile:
    files = [text for text in texts if text.lower().endswith(".toml")]
    if len(files) > 1:
        raise GraphDoctorError(
            f"There are {len(files)} lists: {', '.join(files)}.", hint="Name one of them."
        )
    kept = next((text for text in texts if _is_kept(text)), None)
    if kept is not None:
        raise GraphDoctorError(
            f"{kept} is a survey that has run, not a list.", hint="Leave it out, or name it alone."
        )
    return read_survey_file(Path(files[0])) if files else SurveyFile()


def _asked(
    texts: Sequence[str],
    listed: ListOptions,
    file: SurveyFile,
    options: SurveyOptions,
    spec: RunSpec,
    given: Given,
    python: str | None,
) -> SurveyAsked:
    others = [text for text in texts if not text.lower().endswith(".toml")]
    exclude, only = tuple(listed.exclude or ()), tuple(listed.only or ())
    targets = [
        *file.targets,
        *(
            replace(entry, exclude=exclude) if entry.pattern else entry
            for entry in map(listed_text, others)
        ),
        *(
            ListedTargets(library=name, only=only, exclude=exclude)
            for name in listed.libraries or ()
        ),
    ]
    run: dict[str, Any] = {"backend": "inductor" if options.bench else "eager", **file.run}
    run |= values_of(spec, *(name for name in RUN_OPTIONS if name in given))
    shared = RunSpec(**run)
    return SurveyAsked(
        name=file.name or _name(others, listed.libraries or ()),
        targets=targets,
        variants=[variant_of_text(text, shared) for text in listed.variants or ()] or file.variants,
        run=shared,
        python=python or file.python,
        measured=options,
        shard=None if listed.shard is None else parse_shard(listed.shard),
    )


def _check_any_loaded(rows: Sequence[SurveyRow]) -> None:
    if rows and all(row.status == "load_failed" for row in rows):
        reason = f"None of {counted(len(rows), 'piece')} could be loaded. {rows[0].name}: {rows[0].error}"
        raise GraphDoctorError(f"{reason.rstrip('.')}.")


def _name(texts: Sequence[str], libraries: Sequence[str]) -> str:
    """What a survey without a file is called: its entries, the first alone if there are many."""
    entries = [*libraries, *texts]
    return (
        " ".join(entries)
        if len(entries) <= _MOST_NAMED
        else f"{entries[0]} and {len(entries) - 1} more"
    )


def _working(
    options: SurveyOptions, cluster: str | None, nodes: Environment, *, resume: bool
) -> Working:
    is_local, jobs, cpus = cluster is None, options.jobs, options.cpus
    if is_local and options.bench:
        # Times are only worth something on cores that nobody else has.
        jobs = jobs or 1
        cpus = cpus or max(cores() // jobs, 1)
    elif not is_local:
        # Ray would begin all at once, and each would take all cores.
        cpus = cpus or 1
    # Where there are none, what asks for CUDA says so in its row.
    gpu_count = options.gpus if options.gpus is not None else int(not is_local or gpus() != ())
    # Processes of this machine have what this one has.
    environment = None if is_local or nodes == Environment() else nodes
    executor = executor_for(jobs=jobs, on=cluster, runtime_env=environment)
    return Working(executor, Share(cpus, gpu_count, options.memory_bytes), resume)


def _write(
    report: SurveyReport, outputs: Sequence[Output[SurveyReport]], folder: Path | None
) -> None:
    for output in outputs:
        if output.path is not None and output.format.name == "html" and folder is not None:
            beside = _kept_beside(output.path, report, folder)
            output = replace(output, options=replace(output.options, pages=beside))  # noqa: PLW2901
        output.write(report)


def _kept_beside(page: Path, report: SurveyReport, folder: Path) -> str | None:
    """Put the pages of pieces beside a table that links to them."""
    beside = page.with_name(f"{page.stem}-files")
    found = [
        row.report
        for row in report.rows
        if row.report is not None and (folder / row.report).is_file()
    ]
    with os_errors(beside, "written"):
        for name in found:
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, beside / name)
    return beside.name if found else None
