"""``graphdoctor survey``: many targets, each compiled in several ways."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphdoctor.commands.options import (
    RUN_OPTIONS,
    Color,
    ColorOption,
    Given,
    PythonOption,
    QuietOption,
    RecordingsOption,
    VerboseOption,
    positive,
    with_options,
)
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.documents import SURVEY
from graphdoctor.studies.survey.survey_file import ListedTargets, ListedVariant, Nodes, SurveyOptions
from graphdoctor.views.formats import DIAGNOSIS, Format, RenderOptions

if TYPE_CHECKING:
    from graphdoctor.commands.output import Output
    from graphdoctor.commands.settings import Settings
    from graphdoctor.commands.work.survey import Surveyed, Working
    from graphdoctor.commands.work.survey_plan import SurveyAsked
    from graphdoctor.executors.choice import Environment
    from graphdoctor.facts.result import Result
    from graphdoctor.facts.survey import SurveyReport
    from graphdoctor.studies.survey.survey_file import SurveyFile

_TIMEOUT_S = 600.0
_DOCUMENTS = (".parquet", ".json")
_MOST_NAMED = 3


@dataclass(frozen=True)
class ListOptions:
    """What is in the list."""

    libraries: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="LIBRARY",
            help="Every architecture of transformers, torch-geometric, timm, torchvision or diffusers, with its "
            "smallest configuration and random weights. Repeatable.",
        ),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="PATTERN", help="Of --from, only architectures of this name, such as 'gpt*'. Repeatable."
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude", metavar="PATTERN", help="Of --from and of patterns, leave out what has this name. Repeatable."
        ),
    ] = None
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="NAME=VALUE",
            help="Run every target this way: mode=reduce-overhead, backend=inductor, dynamic=true, fullgraph=true, "
            "option.NAME=VALUE, config.NAME=VALUE, regional, dtype=bfloat16, batch=8, device=cuda, python=PATH; or "
            "several of these, with spaces between. Repeatable.",
        ),
    ] = None
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="N/COUNT", help="Run one part of several, such as 3/8.", show_default=False),
    ] = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the last survey of this name: run what is missing or has changed."),
    ] = False


@dataclass(frozen=True)
class MeasureOptions:
    """What is measured of each piece."""

    bench: Annotated[bool, typer.Option("--bench", help="Measure each piece beside eager mode, as bench does.")] = False
    export: Annotated[bool, typer.Option("--export", help="Find out whether torch.export takes each target.")] = False
    fix: Annotated[bool, typer.Option("--fix", help="Try fixes of each one's first finding.")] = False
    pages: Annotated[bool, typer.Option("--pages/--no-pages", help="Keep a page of each piece.")] = True


@dataclass(frozen=True)
class WorkOptions:
    """Where pieces run, and within which limits."""

    piece_jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            help="How many pieces to run side by side. By default, one for each core, and 1 with --bench.",
            min=1,
            show_default=False,
        ),
    ] = None
    piece_executor: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="CLUSTER",
            help="Run pieces on a Ray cluster: ray://HOST:PORT, or ray for that of RAY_ADDRESS, else one on this "
            "machine.",
            show_default=False,
        ),
    ] = None
    cpus: Annotated[
        int | None,
        typer.Option("--cpus", metavar="N", help="Cores that each piece has for itself.", min=1, show_default=False),
    ] = None
    gpus: Annotated[
        int | None,
        typer.Option(
            "--gpus",
            metavar="N",
            help="GPUs that each piece has for itself. By default, 1 where the device is cuda.",
            min=0,
            show_default=False,
        ),
    ] = None
    piece_timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="Stop a piece after this many seconds. By default, 600.",
            min=0.001,
            show_default=False,
            callback=positive,
        ),
    ] = None
    memory: Annotated[
        float | None,
        typer.Option(
            "--memory",
            metavar="GIB",
            help="Stop a process of a piece that takes more memory than this (Linux).",
            min=0.001,
            show_default=False,
            callback=positive,
        ),
    ] = None
    retries: Annotated[
        int | None,
        typer.Option(
            "--retries",
            metavar="N",
            help="How often to run a piece again that failed. By default, 1.",
            min=0,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True)
class TableOptions:
    """Where the table goes, and how it looks."""

    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="What to write to standard output: {formats}.")
    ] = SURVEY.names[0]
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Also write the table to this file, as what its ending says. Repeatable.",
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that -o names.")] = False
    verbose: VerboseOption = False
    quiet: QuietOption = False
    color: ColorOption = Color.auto

    def outputs(self, given: Given) -> tuple[Output[SurveyReport], ...]:
        """Standard output, then files; checked before anything runs."""
        from graphdoctor.commands.output import Output, check_shown, check_writable

        if not self.output:
            given.refuse(("force",), without="-o")
        options = RenderOptions(Path.cwd(), is_verbose=self.verbose)
        shown = SURVEY.named(self.format)
        check_shown(shown)
        found = [Output(shown, None, options, self.color, self.quiet)]
        for path in self.output or ():
            format = SURVEY.of_path(path)
            if format.name == "parquet":
                from graphdoctor.studies.survey.parquet import check_installed

                check_installed()
            check_writable(path, force=self.force)
            if any(other.path is not None and other.path.resolve() == path.resolve() for other in found):
                raise GraphDoctorError(f"{path} is named twice.", hint="Name a file for each.")
            found.append(Output(format, path, options, self.color, self.quiet))
        return tuple(found)


@with_options(formats=SURVEY.names, without=("inputs",))
def survey(
    listed: ListOptions,
    measured: MeasureOptions,
    work: WorkOptions,
    table: TableOptions,
    spec: RunSpec,
    given: Given,
    lists: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LIST]...",
            help="survey.toml, patterns of files ('models/*.py') or targets. Or surveys to show again, as one: "
            "folders, .parquet and .json files. By default, the last survey.",
            show_default=False,
        ),
    ] = None,
    python: PythonOption = None,
    recordings: RecordingsOption = None,
) -> None:
    """Compile many targets in several ways, and report them in one table.

    Each piece, a target in one variant, runs in processes of its own. What fails is a row too.
    """
    from graphdoctor.commands.running import EXIT_INTERRUPTED, project_settings

    texts = lists or ()
    settings = project_settings(recordings)
    outputs = table.outputs(given)
    if not listed.libraries:
        given.refuse(("only",), without="--from")
    if not listed.libraries and all(_is_kept(text) for text in texts):
        given.refuse((*RUN_OPTIONS, *_names(ListOptions, MeasureOptions, WorkOptions), "python"), without="a list")
        report, folder = _kept(texts, settings)
        _write(report, outputs, folder)
        return
    file = _file(texts)
    options = _options(file, measured, work, given)
    asked = _asked(texts, listed, file, options, spec, given, python)
    working = _working(asked, options, work, Nodes() if file is None else file.nodes, resume=listed.resume)
    surveyed = _run(asked, settings, working, is_quiet=table.quiet)
    _write(surveyed.report, outputs, surveyed.folder)
    if surveyed.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _names(*groups: Any) -> tuple[str, ...]:  # noqa: ANN401 - dataclasses
    return tuple(each.name for group in groups for each in fields(group))


# Surveys that have run.


def _is_kept(text: str) -> bool:
    """Whether an argument is a survey that has run: a document, or a folder of one."""
    from graphdoctor.commands.work.survey_files import is_survey

    path = Path(text)
    return path.suffix.lower() in _DOCUMENTS or is_survey(path)


def _kept(texts: Sequence[str], settings: Settings) -> tuple[SurveyReport, Path | None]:
    """Surveys that have run, as one, and the folder with its pages."""
    from graphdoctor.commands.work.survey import last_survey
    from graphdoctor.commands.work.survey_files import read_survey
    from graphdoctor.studies.survey.merge import merge_surveys

    paths = [Path(text) for text in texts] or [last_survey(settings)]
    reports = [read_survey(path) for path in paths]
    folder = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
    return (reports[0] if len(reports) == 1 else merge_surveys(reports)), folder


# Surveys to run.


def _file(texts: Sequence[str]) -> SurveyFile | None:
    from graphdoctor.studies.survey.survey_file import read_survey_file

    files = [text for text in texts if text.lower().endswith(".toml")]
    if len(files) > 1:
        raise GraphDoctorError(f"There are {len(files)} lists: {', '.join(files)}.", hint="Name one of them.")
    kept = next((text for text in texts if _is_kept(text)), None)
    if kept is not None:
        raise GraphDoctorError(f"{kept} is a survey that has run, not a list.", hint="Leave it out, or name it alone.")
    return read_survey_file(Path(files[0])) if files else None


def _options(file: SurveyFile | None, measured: MeasureOptions, work: WorkOptions, given: Given) -> SurveyOptions:
    """What the command line says, then the file."""
    found = SurveyOptions() if file is None else file.options
    own = {**vars(measured), **vars(work)}
    # Some flags mean something else in other commands, so that their parameters have other names.
    written = {name.removeprefix("piece_"): own[name] for name in own if name in given}
    return replace(found, **{each.name: written[each.name] for each in fields(SurveyOptions) if each.name in written})


def _asked(
    texts: Sequence[str],
    listed: ListOptions,
    file: SurveyFile | None,
    options: SurveyOptions,
    spec: RunSpec,
    given: Given,
    python: str | None,
) -> SurveyAsked:
    from graphdoctor.commands.work.survey_piece import Measuring
    from graphdoctor.commands.work.survey_plan import SurveyAsked, listed_text, parse_shard, variant_of_text

    others = [text for text in texts if file is None or not text.lower().endswith(".toml")]
    exclude, only = tuple(listed.exclude or ()), tuple(listed.only or ())
    targets = [
        *(() if file is None else file.targets),
        *(replace(entry, exclude=exclude) if entry.pattern else entry for entry in map(listed_text, others)),
        *(ListedTargets(library=name, only=only, exclude=exclude) for name in listed.libraries or ()),
    ]
    run: dict[str, Any] = {"backend": "inductor" if options.bench else "eager"}
    run |= {} if file is None else file.run
    run |= {name: getattr(spec, name) for name in RUN_OPTIONS if name in given}
    shared = RunSpec(**run)
    variants: list[ListedVariant] = [variant_of_text(text, shared) for text in listed.variants or ()]
    if file is not None and not variants:
        variants = list(file.variants)
    return SurveyAsked(
        name=file.name if file is not None else _name(others, listed.libraries or ()),
        targets=targets,
        variants=variants,
        run=shared,
        python=python or (None if file is None else file.python),
        measured=Measuring(
            bench=bool(options.bench),
            export=bool(options.export),
            fix=bool(options.fix),
            timeout_s=options.timeout or _TIMEOUT_S,
            memory_gib=options.memory,
        ),
        shard=None if listed.shard is None else parse_shard(listed.shard),
    )


def _name(texts: Sequence[str], libraries: Sequence[str]) -> str:
    """What a survey without a file is called: its entries, the first alone if there are many."""
    entries = [*libraries, *texts]
    return " ".join(entries) if len(entries) <= _MOST_NAMED else f"{entries[0]} and {len(entries) - 1} more"


def _working(asked: SurveyAsked, options: SurveyOptions, work: WorkOptions, nodes: Nodes, *, resume: bool) -> Working:
    from graphdoctor.commands.work.survey import Working
    from graphdoctor.executors.choice import executor_for
    from graphdoctor.executors.executor import Share
    from graphdoctor.executors.machine import cores, gpus

    jobs = options.jobs or (1 if options.bench and work.piece_executor is None else None)
    cpus = options.cpus
    if cpus is None and options.bench and work.piece_executor is None:
        # Times are only worth something on cores that nobody else has.
        cpus = max(cores() // (jobs or 1), 1)
    memory = asked.measured.memory_bytes
    # Where there are none, what asks for CUDA says so in its row.
    are_there = work.piece_executor is not None or gpus() != ()
    share = Share(cpus, options.gpus if options.gpus is not None else int(are_there), memory)
    # Processes of this machine have what this one has.
    environment = None if work.piece_executor is None else _environment(nodes)
    return Working(
        executor=executor_for(jobs=jobs, on=work.piece_executor, runtime_env=environment),
        share=share,
        are_gpus_shared=options.gpus is not None,
        retries=1 if options.retries is None else options.retries,
        resume=resume,
        draw=None if options.pages is False else draw_page,
    )


def _environment(nodes: Nodes) -> Environment | None:
    """What Ray gives the nodes; None for what they have."""
    from graphdoctor.executors.choice import Environment

    if nodes == Nodes():
        return None
    return Environment(
        working_dir=None if nodes.working_dir is None else Path(nodes.working_dir),
        pip=nodes.pip,
        env_vars=nodes.env_vars,
        py_modules=tuple(map(Path, nodes.py_modules)),
    )


def draw_page(result: Result) -> str:
    """The page of one piece."""
    format = DIAGNOSIS.named("html")
    assert isinstance(format, Format)
    return format.render(result, RenderOptions(Path.cwd()))


def _run(asked: SurveyAsked, settings: Settings, working: Working, *, is_quiet: bool) -> Surveyed:
    from graphdoctor.commands.survey_progress import SurveyProgress
    from graphdoctor.commands.work.survey import run_survey

    with SurveyProgress(is_quiet=is_quiet) as progress, _terminated_as_interrupted():
        return run_survey(asked, settings, working, progress, progress.on_phase)


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """End as after Ctrl-C, with a report, when a job's time is up."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _write(report: SurveyReport, outputs: Sequence[Output[SurveyReport]], folder: Path | None) -> None:
    for output in outputs:
        if output.path is not None and output.format.name == "html" and folder is not None:
            beside = _kept_beside(output.path, report, folder)
            output = replace(output, options=replace(output.options, pages=beside))  # noqa: PLW2901
        output.write(report)


def _kept_beside(page: Path, report: SurveyReport, folder: Path) -> str | None:
    """Put the pages of pieces beside a table that links to them."""
    beside = page.with_name(f"{page.stem}-files")
    found = [row.report for row in report.rows if row.report is not None and (folder / row.report).is_file()]
    try:
        for name in found:
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, beside / name)
    except OSError as error:
        raise GraphDoctorError(f"{beside} can't be written: {error.strerror}.") from error
    return beside.name if found else None
