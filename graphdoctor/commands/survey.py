"""``graphdoctor survey``: many targets, each compiled in several ways."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.commands.options import (
    COLOR,
    FORMAT,
    PYTHON,
    QUIET,
    RECORDINGS,
    RUN_OPTIONS,
    VERBOSE,
    Given,
    argument,
    names_of,
    with_options,
)
from graphdoctor.commands.output import Output, check_outputs, check_shown
from graphdoctor.commands.running import project_settings
from graphdoctor.commands.survey_progress import SurveyProgress
from graphdoctor.commands.terminal import EXIT_INTERRUPTED, Color
from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.executors.executor import Environment, Executor, Share
from graphdoctor.executors.local import executor_for
from graphdoctor.executors.machine import cores, gpus
from graphdoctor.facts.base import values_of
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.facts.survey import SurveyReport, SurveyRow
from graphdoctor.studies.documents import SURVEY
from graphdoctor.studies.survey.plan import parse_listed, parse_listed_variant, parse_shard
from graphdoctor.studies.survey.run import is_survey, last_survey, read_survey, run_survey
from graphdoctor.studies.survey.summary import merge_surveys
from graphdoctor.studies.survey.survey_list import (
    ListedTargets,
    SurveyList,
    SurveyOptions,
    read_survey_list,
)
from graphdoctor.studies.survey.table import check_installed
from graphdoctor.views.formats import RenderOptions
from graphdoctor.wording import counted

_MAX_NAMES = 3


@dataclass(frozen=True)
class ListOptions:
    """Contents of the list."""

    libraries: list[str] | None = option(
        None,
        "Every architecture of transformers, torch-geometric, timm or torchvision, "
        "with its smallest configuration and random weights. Repeatable.",
        flag="--from",
        metavar="LIBRARY",
    )
    only: list[str] | None = option(
        None,
        "With --from, include only names matching PATTERN, such as 'gpt*'. Repeatable.",
        metavar="PATTERN",
    )
    exclude: list[str] | None = option(
        None,
        "With --from or patterns of files, exclude names matching PATTERN. Repeatable.",
        metavar="PATTERN",
    )
    variants: list[str] | None = option(
        None,
        "Run every target this way: mode=reduce-overhead, backend=inductor, dynamic=true, "
        "fullgraph=true, option.NAME=VALUE, config.NAME=VALUE, regional, dtype=bfloat16, batch=8, "
        "device=cuda, python=PATH; or several of these, with spaces between. Repeatable.",
        flag="--variant",
        metavar="NAME=VALUE",
    )
    shard: str | None = option(None, "Run one part of several, such as 3/8.", metavar="N/COUNT")
    resume: bool = option(
        False, "Continue the last survey of this name: run what is missing or has changed."
    )


@dataclass(frozen=True)
class TableOptions:
    """Files and looks of the table."""

    format: str = FORMAT
    output: list[Path] | None = option(
        None,
        "Also write the table to this file, in the format of its ending. Repeatable.",
        flag="--output -o",
        metavar="FILE",
    )
    force: bool = option(False, "Overwrite files that -o names.")
    verbose: bool = VERBOSE
    quiet: bool = QUIET
    color: Color = COLOR

    def outputs(self, flags: Given) -> list[Output[SurveyReport]]:
        """Return standard output, then files; checked before anything runs."""
        if not self.output:
            flags.refuse(("force",), without="-o")
        paths = self.output or []
        formats = [SURVEY.named(self.format), *map(SURVEY.of_path, paths)]
        check_shown(formats[0])
        if any(format.name == "parquet" for format in formats):
            check_installed()
        options = RenderOptions(Path.cwd(), is_verbose=self.verbose)
        outputs = [
            Output(format, path, options, self.color, self.quiet)
            for format, path in zip(formats, [None, *paths], strict=True)
        ]
        check_outputs(outputs, force=self.force)
        return outputs


@with_options(formats=SURVEY.names, without=("inputs",))
def survey(
    listed: ListOptions,
    measured: SurveyOptions,
    table: TableOptions,
    spec: RunSpec,
    flags: Given,
    lists: Annotated[
        list[str] | None,
        argument(
            "survey.toml, patterns of files ('models/*.py') or targets. Or surveys to show again, "
            "as one: folders, .parquet and .json files. By default, the last survey.",
            metavar="LIST",
        ),
    ] = None,
    where: str | None = option(
        None,
        "Run pieces on a Ray cluster: ray://HOST:PORT; ray uses RAY_ADDRESS, or starts a local "
        "cluster.",
        flag="--on",
        metavar="CLUSTER",
        heading="Execution",
    ),
    python: str | None = PYTHON,
    recordings: Path | None = RECORDINGS,
) -> None:
    """Compile many targets in several ways, and report them in one table.

    Each piece, a target in one variant, runs in processes of its own. What fails is a row too.

    Examples:
        graphdoctor survey '*.py' -o table.csv: every file that has a target
        graphdoctor survey model.py --bench -o t.html: with speedups over eager mode
    """
    texts = lists or []
    store = project_settings(recordings).store
    outputs = table.outputs(flags)
    if not listed.libraries:
        flags.refuse(("only",), without="--from")
        if all(map(_is_finished, texts)):
            names = names_of(ListOptions, SurveyOptions)
            flags.refuse((*RUN_OPTIONS, *names, "where", "python"), without="a list")
            paths = list(map(Path, texts)) or [last_survey(store)]
            folder = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
            _write(merge_surveys(list(map(read_survey, paths))), outputs, folder)
            return
    asked = _survey_list(texts, listed, measured, spec, flags)
    asked = replace(asked, python=python or asked.python)
    on_cuda = (asked.spec.device or "").startswith("cuda")
    executor, share = _executor_and_share(asked.options, where, asked.nodes, on_cuda=on_cuda)
    with SurveyProgress(is_quiet=table.quiet) as progress:
        done = run_survey(asked, store, executor, share, progress, resume=listed.resume)
    _write(done.report, outputs, done.folder)
    if done.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    _check_any_loaded(done.report.rows)


def _is_finished(text: str) -> bool:
    """Return whether an argument is a survey that has run: a document, or a folder of one."""
    path = Path(text)
    return path.suffix.lower() in (".parquet", ".json") or is_survey(path)


def _survey_list(
    texts: Sequence[str], listed: ListOptions, measured: SurveyOptions, spec: RunSpec, flags: Given
) -> SurveyList:
    """Return what the command line says, then the file."""
    files = [text for text in texts if text.lower().endswith(".toml")]
    others = [text for text in texts if text not in files]
    if len(files) > 1:
        raise GraphDoctorError(
            f"There are {len(files)} lists: {', '.join(files)}.", hint="Name one of them."
        )
    for text in filter(_is_finished, texts):
        raise GraphDoctorError(
            f"{text} is a survey that has run, not a list.", hint="Leave it out, or name it alone."
        )
    asked = read_survey_list(Path(files[0])) if files else SurveyList()
    entries = [*(listed.libraries or ()), *others]
    name = " ".join(entries)
    if len(entries) > _MAX_NAMES:
        name = f"{entries[0]} and {len(entries) - 1} more"
    exclude, only = tuple(listed.exclude or ()), tuple(listed.only or ())
    targets = [
        replace(entry, exclude=exclude) if entry.pattern else entry
        for entry in map(parse_listed, others)
    ]
    targets += [
        ListedTargets(library=library, only=only, exclude=exclude)
        for library in listed.libraries or ()
    ]
    options = values_of(measured, *(name for name in names_of(SurveyOptions) if name in flags))
    asked = replace(
        asked,
        name=asked.name or name,
        run={**asked.run, **values_of(spec, *(name for name in RUN_OPTIONS if name in flags))},
        options=replace(asked.options, **options),
        targets=(*asked.targets, *targets),
        shard=None if listed.shard is None else parse_shard(listed.shard),
    )
    variants = [parse_listed_variant(text, asked.spec) for text in listed.variants or ()]
    return replace(asked, variants=tuple(variants) or asked.variants)


def _executor_and_share(
    options: SurveyOptions, cluster: str | None, nodes: Environment, *, on_cuda: bool
) -> tuple[Executor, Share]:
    is_local, jobs, cpus = cluster is None, options.jobs, options.cpus
    share_gpus: float | None = options.gpus
    if is_local and options.bench:
        # Times are only worth something on cores that nobody else has.
        jobs = jobs or 1
        cpus = cpus or max(cores() // jobs, 1)
    elif not is_local:
        # Ray would begin all at once, and each would take all cores.
        cpus = cpus or 1
    if share_gpus is None:
        # Where there are none, what asks for CUDA says so in its row.
        visible = gpus() if is_local else None
        share_gpus = int(visible != ())
        if visible and jobs and on_cuda:
            # While one piece is timed on a GPU, others import and compile.
            share_gpus = min(len(visible) / jobs, 1)
    # Processes of this machine have what this one has.
    environment = None if is_local or nodes == Environment() else nodes
    executor = executor_for(jobs=jobs, on=cluster, runtime_env=environment)
    return executor, Share(cpus, share_gpus, options.memory_bytes)


def _check_any_loaded(rows: Sequence[SurveyRow]) -> None:
    if rows and all(row.status == "load_failed" for row in rows):
        first = f"{rows[0].name}: {rows[0].error}".rstrip(".")
        raise GraphDoctorError(f"None of {counted(len(rows), 'piece')} could be loaded. {first}.")


def _write(
    report: SurveyReport, outputs: Sequence[Output[SurveyReport]], folder: Path | None
) -> None:
    for output in outputs:
        pages = None
        if output.path is not None and output.format.name == "html" and folder is not None:
            pages = _copy_pages(report, folder, output.path)
        replace(output, options=replace(output.options, pages=pages)).write(report)


def _copy_pages(report: SurveyReport, folder: Path, page: Path) -> str | None:
    """Put the pages of pieces beside a table that links to them; return their folder's name."""
    beside = page.with_name(f"{page.stem}-files")
    names = [row.report for row in report.rows if row.report and (folder / row.report).is_file()]
    with os_errors(beside, "written"):
        for name in names:
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, beside / name)
    return beside.name if names else None
