"""Options that several commands share, in groups, and the decorator that spreads a group over a command's signature.

A command takes a group as one parameter: ``def report(shown: ShownOptions, ...)``; under ``with_options`` typer sees
each of the group's fields as an option of the command. ``RunSpec`` is such a group too: ``RUN_OPTIONS`` has the
command line's side of its fields. A parameter of the type ``Given`` gets the options that were written out.
"""

from __future__ import annotations

import copy
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import STAGES, RunSpec, Timing, options_of

if TYPE_CHECKING:
    from graphdoctor.commands.settings import Settings
    from graphdoctor.executors.executor import Executor
    from graphdoctor.rules.diagnosed import StagesAsked
    from graphdoctor.rules.diagnosis.selection import Selection


class Color(StrEnum):
    """When to color text."""

    auto = "auto"
    always = "always"
    never = "never"


class FailOnChoice(StrEnum):
    """The least severity of a new finding that fails the gate."""

    error = "error"
    warning = "warning"
    info = "info"
    never = "never"


def positive(number: float | None) -> float | None:
    """A number above 0; NaN is neither too small nor too large for typer's own check."""
    if number is not None and not number > 0:
        raise typer.BadParameter(f"{number} is not above 0.")
    return number


ColorOption = Annotated[Color, typer.Option("--color", help="When to color text.")]
FailOnOption = Annotated[
    FailOnChoice | None,
    typer.Option(
        help="The least severity of what is new or worse that fails. By default, warning.", show_default=False
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary on standard error.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Add each graph's operations and code, and torch's full messages.")
]
HtmlOption = Annotated[
    bool,
    typer.Option(
        "--html",
        help="Write one HTML file: what -o names, else graphdoctor-report.html (graphdoctor-diff.html for diff).",
    ),
]
OpenOption = Annotated[bool, typer.Option("--open/--no-open", help="Open the file of --html in a browser.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Stop the run after this many seconds.",
        min=0.001,
        show_default=False,
        callback=positive,
    ),
]
PythonOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Run the target with this interpreter. It needs torch, not graphdoctor.",
        show_default=False,
    ),
]
RankOption = Annotated[
    int | None,
    typer.Option(
        "--rank", metavar="N", min=0, help="Of a recording of several ranks, show this one.", show_default=False
    ),
]
RecordingsOption = Annotated[
    Path | None,
    typer.Option(
        "--recordings",
        metavar="DIR",
        help="The folder for recordings. By default, .graphdoctor here, or one of yours if this folder is read-only.",
        show_default=False,
    ),
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="CLUSTER",
        help="Read logs on a Ray cluster: ray://HOST:PORT, or ray for that of RAY_ADDRESS, else one on this machine.",
        show_default=False,
    ),
]
TARGET_HELP = "file.py, file.py:name, file.py:factory() or package.module:name."
NAMED_HELP = (
    "recording or its name under .graphdoctor/, a folder or file of trace logs, also at an address (s3://bucket/job), "
    "or a JSON document that --format json wrote"
)
"""What ``graphdoctor.commands.named`` finds, after its article."""
TargetArgument = Annotated[str, typer.Argument(help=TARGET_HELP, show_default=False)]
TargetOrRecordingArgument = Annotated[
    str | None,
    typer.Argument(
        help=f"{TARGET_HELP} Or a {NAMED_HELP}. By default, the last recording.",
        show_default=False,
    ),
]

RUN_OPTIONS = options_of(RunSpec)
"""The fields of ``RunSpec`` on the command line; the target is an argument of its own."""

_BY_TYPE = {"Mapping[str, object]": list[str] | None, "tuple[str, ...]": list[str] | None}
_TYPES: dict[str, Any] = {"bool": bool, "int": int, "str": str, "float": float}
_TEXTS = tuple(found.name for found in fields(RunSpec) if found.type in _BY_TYPE)
"""Fields of ``RunSpec`` that are given one by one, as texts."""


def run_annotations() -> dict[str, Any]:
    """The annotations that typer needs for the fields of ``RunSpec``."""
    found = {}
    for each in fields(RunSpec):
        option = RUN_OPTIONS.get(each.name)
        if option is not None:
            name, _, is_optional = str(each.type).partition(" | ")
            kind = _BY_TYPE[name] if name in _BY_TYPE else _TYPES[name] | None if is_optional else _TYPES[name]
            told = typer.Option(
                option.flag or f"--{each.name.replace('_', '-')}",
                metavar=option.metavar,
                help=option.help,
                min=option.least,
                max=option.most,
                show_default=each.default is not None,
            )
            found[each.name] = Annotated[kind, told]
    return found


@dataclass(frozen=True)
class ShownOptions:
    """Which findings are shown."""

    own_code: Annotated[
        bool | None,
        typer.Option("--own-code/--all-code", help="Show only findings in your own files, not in packages."),
    ] = None
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select", metavar="CODE", help="Show only rules whose code begins with this, such as GD1. Repeatable."
        ),
    ] = None
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="CODE", help="Leave out rules whose code begins with this. Repeatable."),
    ] = None

    def selection(self, settings: Settings) -> Selection:
        """Which findings to show: what was asked for, else the settings."""
        return settings.selection(select=self.select, ignore=self.ignore, is_own_code_only=self.own_code)


@dataclass(frozen=True)
class StagesOptions:
    """Which stages of which graphs are shown."""

    stages: Annotated[
        bool,
        typer.Option(
            "--stages",
            help="Also show each graph at each stage of the compiler, from Dynamo to the generated code. explain then "
            "compiles with inductor unless you name another backend.",
        ),
    ] = False
    stage: Annotated[
        list[str] | None,
        typer.Option("--stage", metavar="NAME", help=f"With --stages, only this one: {', '.join(STAGES)}. Repeatable."),
    ] = None
    graph: Annotated[
        list[str] | None,
        typer.Option(
            "--graph", metavar="ID", help="With --stages, only this compile's graph, such as 0/0. Repeatable."
        ),
    ] = None

    def asked(self, given: Given) -> StagesAsked | None:
        """What to show; None for nothing."""
        import difflib

        from graphdoctor.rules.diagnosed import StagesAsked

        if not self.stages:
            given.refuse(("stage", "graph"), without="--stages")
            return None
        names = self.stage or ()
        for name in names:
            if name not in STAGES:
                near = difflib.get_close_matches(name.replace("_", "-"), STAGES, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"Choose {', '.join(STAGES)}."
                raise GraphDoctorError(f"There is no stage {name!r}.", hint=hint)
        return StagesAsked(tuple(known for known in STAGES if known in names), tuple(self.graph or ()))


@dataclass(frozen=True)
class OutputOptions:
    """Where a result goes and how it looks."""

    format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="{formats}. By default, what the ending of -o says, else text."
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the result to this file; - is standard output."),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file that -o names.")] = False
    verbose: VerboseOption = False
    quiet: QuietOption = False
    color: ColorOption = Color.auto
    source: Annotated[
        bool, typer.Option("--source/--no-source", help="Show lines of code in an HTML report, or leave them out.")
    ] = True


@dataclass(frozen=True)
class ExecutorOptions:
    """Where logs are read."""

    reading_jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            help="How many logs, or parts of a large one, to read side by side. By default, one for each core.",
            min=1,
            show_default=False,
        ),
    ] = None
    on: OnOption = None

    def executor(self) -> Executor:
        """What reads logs."""
        from graphdoctor.executors.choice import executor_for

        return executor_for(jobs=self.reading_jobs, on=self.on)


OF_EXECUTOR = tuple(field.name for field in fields(ExecutorOptions))
"""Parameters that have no effect where a target is run."""


@dataclass(frozen=True)
class TrialOptions:
    """How fixes are tried."""

    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How many trials to run side by side. By default, one for each core that has the memory, at most 4, "
            "and 1 with --device.",
            min=1,
            show_default=False,
        ),
    ] = None
    timing: Annotated[
        Timing,
        typer.Option(
            "--timing",
            help="What to time, under inductor too: the program with all verified fixes, each fix as well, or nothing.",
        ),
    ] = Timing.final
    no_timing: Annotated[bool, typer.Option("--no-timing", help="Time nothing: --timing none.")] = False
    trial_timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Stop a trial after this many seconds. By default, six times what the program takes, at least 60; "
            "or 600 with another backend than eager.",
            min=0.001,
            show_default=False,
            callback=positive,
        ),
    ] = None
    trial_memory: Annotated[
        float | None,
        typer.Option(
            metavar="GIB",
            help="Stop a trial above this many GiB (Linux). By default, twice what the program takes plus 2.",
            min=0.001,
            show_default=False,
            callback=positive,
        ),
    ] = None


OF_TRIALS = tuple(field.name for field in fields(TrialOptions))
"""Parameters that have no effect without trials."""


class Given(dict[str, str]):
    """The options that were written out on the command line: the flag as it is called, by parameter name."""

    def without(self, *names: str) -> Given:
        """All but these."""
        return Given({name: flag for name, flag in self.items() if name not in names})

    def refuse(self, names: Iterable[str], *, without: str) -> None:
        """Refuse options that have no effect."""
        for name in names:
            if name in self:
                raise GraphDoctorError(
                    f"{self[name]} has no effect without {without}.",
                    hint=f"Add {without}, or leave out {self[name]}." if without.startswith("-") else None,
                )


def run_spec(values: Mapping[str, Any]) -> RunSpec:
    """The part of a ``RunSpec`` that options say: all but the target."""
    from graphdoctor.facts.values import RUN
    from graphdoctor.trials.launch.request import parse_assignments

    read: dict[str, Any] = {}
    for name, value in values.items():
        if name == "inputs":
            read[name] = tuple(value or ())
        elif name in _TEXTS:
            read[name] = parse_assignments(value or (), f"--{name.removesuffix('s')}")
        elif RUN[name].choices is not None and value is not None:
            read[name] = RUN[name].read(f"--{name}: ", name, value)
    return RunSpec(**{**values, **read})


def with_options(
    command: Callable[..., None] | None = None,
    *,
    formats: tuple[str, ...] = (),
    defaults: Mapping[str, object] | None = None,
    without: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """Spread the option groups among a command's parameters over its signature."""
    if command is None:
        return functools.partial(with_options, formats=formats, defaults=defaults, without=without)
    hints = typing.get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if hint is Given:
            continue
        if parameter.name in groups:
            found = _parameters_of(groups[parameter.name], formats, defaults or {})
            parameters += [one for one in found if one.name not in without]
        else:
            parameters.append(parameter.replace(annotation=_with_formats(hint, formats)))
    ordered = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    given = next((name for name, hint in hints.items() if hint is Given), None)

    @functools.wraps(command)
    def run(ctx: typer.Context, **values: Any) -> None:  # noqa: ANN401
        for name, group in groups.items():
            taken = {field: values.pop(field) for field in _field_names(group) if field not in without}
            values[name] = run_spec(taken) if group is RunSpec else group(**taken)
        if given is not None:
            values[given] = _given(ctx)
        command(**values)

    run.__signature__ = inspect.Signature([context, *ordered])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *ordered)}
    return run


def _parameters_of(
    group: Any,  # noqa: ANN401 - a dataclass
    formats: tuple[str, ...],
    others: Mapping[str, object],
) -> Iterable[inspect.Parameter]:
    annotations = run_annotations() if group is RunSpec else typing.get_type_hints(group, include_extras=True)
    defaults = {field.name: others.get(field.name, field.default) for field in fields(group)}
    for name in _field_names(group):
        default = None if group is RunSpec and name in _TEXTS else defaults[name]
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=_with_formats(annotations[name], formats),
        )


def _field_names(group: Any) -> tuple[str, ...]:  # noqa: ANN401 - a dataclass
    return tuple(RUN_OPTIONS) if group is RunSpec else tuple(field.name for field in fields(group))


def _with_formats(annotation: Any, formats: tuple[str, ...]) -> Any:  # noqa: ANN401 - an annotation
    """The annotation with the formats of the command in its help."""
    for option in typing.get_args(annotation)[1:]:
        if "{formats}" in (getattr(option, "help", None) or ""):
            changed = copy.copy(option)
            changed.help = option.help.format(formats=_listed(formats))
            return Annotated[typing.get_args(annotation)[0], changed]
    return annotation


def _listed(names: tuple[str, ...]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"


def _given(ctx: typer.Context) -> Given:
    found = Given()
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and parameter.name and parameter.opts:
            is_off = ctx.params.get(parameter.name) is False and parameter.secondary_opts
            found[parameter.name] = (parameter.secondary_opts if is_off else parameter.opts)[0]
    return found
