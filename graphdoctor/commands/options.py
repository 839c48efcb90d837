"""Options that several commands share, and the decorator that makes typer's options of all that
commands declare.

A command declares an option as ``RunSpec`` does, by ``option``: as a parameter's default, or in a
dataclass that is a group of them and comes as one parameter. A parameter of the type ``Given`` gets
the options that were written out.
"""

from __future__ import annotations

import functools
import inspect
import math
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphdoctor.commands.terminal import Color
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import STAGES, RunOption, RunSpec, option, options_of
from graphdoctor.views.formats import either

if TYPE_CHECKING:
    from graphdoctor.commands.settings import Settings
    from graphdoctor.executors.executor import Executor
    from graphdoctor.rules.diagnosed import StagesAsked
    from graphdoctor.rules.diagnosis.selection import Selection


COLOR: Any = option("auto", "When to color text.")
FAIL_ON: Any = option(
    None, "The least severity of what is new or worse that fails. By default, warning."
)
PYTHON: Any = option(
    None, "Run the target with this interpreter. It needs torch, not graphdoctor.", metavar="PATH"
)
RECORDINGS: Any = option(
    None, "The folder for recordings. By default, .graphdoctor here.", metavar="DIR"
)
QUIET: Any = option(False, "Show no progress and no summary on standard error.", flag="--quiet -q")
FORMAT: Any = option("text", "What to write to standard output: {formats}.", metavar="FORMAT")
VERBOSE: Any = option(
    False,
    "Leave nothing out: long lists, the code of graphs, torch's full messages.",
    flag="--verbose -v",
)
RANK: Any = option(None, "Show only this rank.", metavar="N", least=0)
ON: Any = option(
    None,
    "Read logs on a Ray cluster: ray://HOST:PORT; ray uses RAY_ADDRESS, or starts a local cluster.",
    metavar="CLUSTER",
)
TRY: Any = option(
    False, "Try fixes, unsafe ones too, and report what each did. Writes nothing.", flag="--try"
)
APPLY: Any = option(
    False,
    "Write the edits that work; in a repository, --force also writes what git could not undo.",
    flag="--apply",
)
UNSAFE_FIXES: Any = option(
    False,
    "Also take fixes that may change results for other inputs, or lose prints.",
    flag="--unsafe-fixes",
)
BASELINE: Any = option(
    None, "The baseline file. By default, graphdoctor-baseline.json beside pyproject.toml."
)
NO_BASELINE: Any = option(
    False, "Compare with no baseline: every finding is new.", flag="--no-baseline"
)

TARGET_HELP = "file.py, file.py:name, file.py:factory() or package.module:name."
NAMED_HELP = (
    "recording or its name under .graphdoctor/, a folder or file of trace logs, also at an address"
    " (s3://bucket/job), or a JSON document that --format json wrote"
)
"""The forms of a RECORDING argument, after its article."""


def argument(text: str, **declared: Any) -> Any:  # noqa: ANN401 - typer has no public type for it
    """Return an argument of the command line; ``declared`` is what else typer takes."""
    return typer.Argument(help=text, show_default=False, **declared)


TargetArgument = Annotated[str, argument(TARGET_HELP)]
TargetOrRecordingArgument = Annotated[
    str | None, argument(f"{TARGET_HELP} Or a {NAMED_HELP}. By default, the last recording.")
]
TargetOrReportArgument = Annotated[
    str | None,
    argument(
        f"{TARGET_HELP} Or the recording of an earlier run of this command, or its JSON. By"
        " default, the last recording."
    ),
]
LogArgument = Annotated[
    str | None,
    argument(
        "A recording or its name under .graphdoctor/, or a folder or log file that TORCH_TRACE"
        " wrote. By default, the last recording."
    ),
]

RUN_OPTIONS = options_of(RunSpec)
"""The fields of ``RunSpec`` on the command line; the target is an argument of its own."""


def names_of(*groups: type[Any]) -> tuple[str, ...]:
    """Return the names of the options of groups, which are dataclasses."""
    return tuple(option_.name for group in groups for option_ in fields(group))


@dataclass(frozen=True)
class ProcessOptions:
    """Options of processes and recordings."""

    python: str | None = PYTHON
    timeout: float | None = option(None, "Stop the run after this many seconds.", metavar="SECONDS")
    recordings: Path | None = RECORDINGS
    quiet: bool = QUIET


@dataclass(frozen=True)
class PageOptions:
    """The page that is opened."""

    html: bool = option(
        False,
        "Write a page and open it: -o FILE.html, else graphdoctor-report.html"
        " (graphdoctor-diff.html for diff).",
    )
    is_opened: bool = option(True, "Open the file of --html in a browser.", flag="--open/--no-open")


@dataclass(frozen=True)
class ShownOptions:
    """Which findings are shown."""

    own_code: bool | None = option(
        None, "Show only findings in your own files, not in packages.", flag="--own-code/--all-code"
    )
    select: list[str] | None = option(
        None,
        "Show only rules whose code begins with this, such as GD1. Repeatable.",
        metavar="CODE",
    )
    ignore: list[str] | None = option(
        None, "Leave out rules whose code begins with this. Repeatable.", metavar="CODE"
    )

    def selection(self, settings: Settings) -> Selection:
        """Return which findings to show: what was asked for, else the settings."""
        from graphdoctor.rules.diagnosis.selection import Selection, code_prefixes

        return Selection(
            select=code_prefixes(self.select or settings.select),
            ignore=code_prefixes(self.ignore or settings.ignore),
            is_own_code_only=settings.own_code if self.own_code is None else self.own_code,
        )


@dataclass(frozen=True)
class StagesOptions:
    """Which stages of which graphs are shown."""

    stages: bool = option(
        False,
        "Also show each graph at each stage of the compiler, from Dynamo to the generated code."
        " explain then compiles with inductor unless you name another backend.",
    )
    stage: list[str] | None = option(
        None, f"With --stages, only this one: {', '.join(STAGES)}. Repeatable.", metavar="NAME"
    )
    graph: list[str] | None = option(
        None, "With --stages, only this compile's graph, such as 0/0. Repeatable.", metavar="ID"
    )

    def asked(self, flags: Given) -> StagesAsked | None:
        """Return what to show; None for nothing."""
        from graphdoctor.rules.diagnosed import StagesAsked
        from graphdoctor.wording import nearest

        if not self.stages:
            flags.refuse(("stage", "graph"), without="--stages")
            return None
        names = self.stage or ()
        if unknown := [name for name in names if name not in STAGES]:
            near = nearest(
                unknown[0].replace("_", "-"), STAGES, otherwise=f"Choose {either(STAGES)}."
            )
            raise GraphDoctorError(f"There is no stage {unknown[0]!r}.", hint=near)
        stages = tuple(stage for stage in STAGES if stage in names)
        return StagesAsked(stages, tuple(self.graph or ()))


@dataclass(frozen=True)
class OutputOptions(ProcessOptions):
    """Options of the result, too."""

    format: str | None = option(
        None, "{formats}. By default, what the ending of -o says, else text.", metavar="FORMAT"
    )
    output: Path | None = option(
        None,
        "Write the result to this file, in the format that its ending names; - is standard output.",
        flag="--output -o",
        metavar="FILE",
    )
    force: bool = option(False, "Overwrite the file that -o names.")
    verbose: bool = VERBOSE
    color: Color = COLOR
    source: bool = option(
        True,
        "Show lines of code in an HTML report, or leave them out.",
        flag="--source/--no-source",
    )


@dataclass(frozen=True)
class CommonOptions(ShownOptions, OutputOptions):
    """Options of commands that report findings."""


@dataclass(frozen=True)
class ExecutorOptions:
    """Options of reading logs."""

    reading_jobs: int | None = option(
        None,
        "How many logs to read side by side. By default, one for each core.",
        flag="--jobs",
        metavar="N",
        least=1,
        heading="Reading logs",
    )
    on: str | None = ON

    def executor(self) -> Executor:
        """Return the executor that reads logs."""
        from graphdoctor.executors.local import executor_for

        return executor_for(jobs=self.reading_jobs, on=self.on)


OF_EXECUTOR = names_of(ExecutorOptions)
"""Parameters that have no effect where a target is run."""


@dataclass(frozen=True)
class TrialOptions:
    """Options of trials."""

    jobs: int | None = option(
        None,
        "How many trials to run side by side. By default, one for each core that has the memory, at"
        " most 4, and 1 with --device.",
        metavar="N",
        least=1,
    )
    no_timing: bool = option(
        False, "Don't time the program with the fixes that work, also under inductor."
    )
    trial_timeout: float | None = option(
        None,
        "Stop a trial after this many seconds. By default, six times what the program takes, at"
        " least 60; or 600 with another backend than eager.",
        metavar="SECONDS",
    )
    trial_memory: float | None = option(
        None,
        "Stop a trial above this many GiB (Linux). By default, twice what the program takes"
        " plus 2.",
        metavar="GIB",
    )


OF_TRIALS = names_of(TrialOptions)
"""Parameters that have no effect without trials."""


IS_ALL_SHOWN = "graphdoctor.help-all"
"""Of what typer keeps for a command line, whether its help is that of every option."""


def _show_all(ctx: typer.Context, is_asked: bool) -> None:
    if is_asked:
        ctx.meta[IS_ALL_SHOWN] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "is_help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all",
            help="Show every option in full and exit.",
            is_eager=True,
            callback=_show_all,
        ),
    ],
)


class Given(dict[str, str]):
    """The options that were written out on the command line: the flag as it is called, by parameter
    name.
    """

    def refuse(self, names: Iterable[str], *, without: str) -> None:
        """Refuse options that have no effect."""
        for name in names:
            if name in self:
                raise GraphDoctorError(
                    f"{self[name]} has no effect without {without}.",
                    hint=f"Add {without}, or leave out {self[name]}."
                    if without.startswith("-")
                    else None,
                )

    def refuse_run(self, *more: str) -> None:
        """Refuse what only a run reads: the options of a target and of its process, and more of the
        command's own.
        """
        self.refuse((*RUN_OPTIONS, *more, "timeout", "python"), without="a target")


def run_spec(values: Mapping[str, Any]) -> RunSpec:
    """Return the part of a ``RunSpec`` that options say, all but the target, from the values that
    typer gives.
    """
    from graphdoctor.facts.values import RUN
    from graphdoctor.trials.launch.request import parse_assignments

    read: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("inputs", "own"):
            read[name] = tuple(value or ())
        elif name in ("options", "config"):
            read[name] = parse_assignments(value or (), f"--{name.removesuffix('s')}")
        elif RUN[name].choices is not None and value is not None:
            read[name] = RUN[name].read(f"--{name}: ", name, value)
    return RunSpec(**{**values, **read})


def with_options(
    command: Callable[..., None] | None = None,
    *,
    formats: tuple[str, ...] = (),
    defaults: Mapping[str, object] = {},
    without: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """Give a command the signature that typer wants: one parameter for each option."""
    if command is None:
        return functools.partial(with_options, formats=formats, defaults=defaults, without=without)
    hints = typing.get_type_hints(command, include_extras=True)
    groups = {
        name: list(_of_group(hint, without)) for name, hint in hints.items() if is_dataclass(hint)
    }
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    ]
    for parameter in inspect.signature(command).parameters.values():
        if hints[parameter.name] is not Given:
            declared = (parameter.name, hints[parameter.name], parameter.default)
            parameters += [
                _parameter(*option_, formats, defaults)
                for option_ in groups.get(parameter.name, [declared])
            ]
    parameters.append(_HELP_ALL)

    @functools.wraps(command)
    def run(ctx: typer.Context, *, is_help_all: bool, **values: Any) -> None:  # noqa: ANN401, ARG001
        for name, options in groups.items():
            taken = {option_name: values.pop(option_name) for option_name, _, _ in options}
            values[name] = run_spec(taken) if hints[name] is RunSpec else hints[name](**taken)
        flag_names = [name for name, hint in hints.items() if hint is Given]
        command(**values, **{name: _given(ctx) for name in flag_names})

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _of_group(group: Any, without: tuple[str, ...]) -> Iterable[tuple[str, Any, Any]]:  # noqa: ANN401 - a dataclass
    hints = typing.get_type_hints(group)
    for option_ in fields(group):
        if "option" in option_.metadata and option_.name not in without:
            yield option_.name, hints[option_.name], option_


def _parameter(
    name: str,
    hint: Any,  # noqa: ANN401 - a type
    declared_as: Any,  # noqa: ANN401 - a field, or a default of any type
    formats: tuple[str, ...],
    defaults: Mapping[str, object],
) -> inspect.Parameter:
    if not isinstance(declared_as, Field):
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=declared_as, annotation=hint
        )
    declared: RunOption = declared_as.metadata["option"]
    # A text each, read once all are there.
    if is_repeated := typing.get_origin(hint) in (tuple, Mapping):
        hint = list[str] | None
    is_float = float in (hint, *typing.get_args(hint))
    default = defaults.get(
        name, None if is_repeated or declared_as.default is MISSING else declared_as.default
    )
    typed = typer.Option(
        *declared.flags(name).split(),
        metavar=declared.metavar,
        help=declared.help.replace("{formats}", either(formats) if formats else ""),
        min=_SMALLEST if is_float and declared.least is None else declared.least,
        max=declared.most,
        show_default=default is not None,
        callback=_number if is_float else None,
        rich_help_panel=declared.heading,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, typed]
    )


_SMALLEST = 0.001
"""Of numbers that are above 0."""


def _number(number: float | None) -> float | None:
    # NaN is neither too small nor too large for typer's own check.
    if number is not None and math.isnan(number):
        raise typer.BadParameter(f"{number} isn't a number.")
    return number


def _given(ctx: typer.Context) -> Given:
    flags = Given()
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if (
            source is not None
            and source.name == "COMMANDLINE"
            and parameter.name
            and parameter.opts
        ):
            is_off = ctx.params.get(parameter.name) is False and parameter.secondary_opts
            flags[parameter.name] = (parameter.secondary_opts if is_off else parameter.opts)[0]
    return flags
