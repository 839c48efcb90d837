"""Options that several commands share, in groups, and the decorator that spreads a group over a command's signature.

A command takes a group as one parameter: ``def report(shown: ShownOptions, ...)``; under ``with_options`` typer sees
each of the group's fields as an option of the command.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Format(StrEnum):
    """What a result can be written as."""

    text = "text"
    json = "json"
    html = "html"
    chrome_trace = "chrome-trace"
    markdown = "markdown"


class Colour(StrEnum):
    """When to colour text."""

    auto = "auto"
    always = "always"
    never = "never"


FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="Result format; by default what the ending of -o says, else text."),
]
HtmlOption = Annotated[
    bool,
    typer.Option(
        "--html",
        help="Write one HTML file: what -o names, else graphdoctor-report.html, for diff graphdoctor-diff.html.",
    ),
]
OpenOption = Annotated[
    bool, typer.Option("--open/--no-open", help="Open what --html wrote in a browser, on a terminal only.")
]
ColourOption = Annotated[Colour, typer.Option("--color", help="When to colour text.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary on standard error.")]


def _positive(seconds: float | None) -> float | None:
    # NaN is neither too small nor too large.
    if seconds is not None and not seconds > 0:
        raise typer.BadParameter(f"{seconds} is not above 0.")
    return seconds


TimeoutOption = Annotated[
    float | None,
    typer.Option(help="Stop the run after so many seconds.", min=0.001, show_default=False, callback=_positive),
]
PythonOption = Annotated[
    str | None,
    typer.Option(help="Run the target with this interpreter; it needs torch, not graphdoctor.", show_default=False),
]
TARGET_HELP = "file.py, file.py:name, file.py:factory() or package.module:name."


@dataclass(frozen=True)
class TargetOptions:
    """How a target is compiled and called."""

    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="One argument of the call: f32[8,128], i64[8], bool[2,2], int:3, float:0.5, bool:true, str:abc, "
            "none, or name=… for a keyword. Integers are drawn from {0, 1}. Repeatable.",
        ),
    ] = None
    calls: Annotated[int, typer.Option(help="Make the calls so many times.", min=1)] = 1
    backend: Annotated[str, typer.Option(help="A registered backend; eager shows breaks quickest.")] = "eager"
    mode: Annotated[str | None, typer.Option(help="torch.compile's mode, such as max-autotune.")] = None
    dynamic: Annotated[
        bool | None,
        typer.Option("--dynamic/--no-dynamic", help="torch.compile's dynamic.", show_default=False),
    ] = None
    fullgraph: Annotated[bool, typer.Option("--fullgraph", help="torch.compile's fullgraph: a break raises.")] = False
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="One of torch.compile's options, name=value. Repeatable."),
    ] = None
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="Set torch._dynamo.config.name=value, or another config. Repeatable."),
    ] = None
    backward: Annotated[
        bool, typer.Option("--backward", help="Sum the floating outputs of each call and run backward.")
    ] = False
    train: Annotated[
        bool | None,
        typer.Option("--train/--eval", help="The module's mode; by default as it comes.", show_default=False),
    ] = None
    no_grad: Annotated[bool, typer.Option("--no-grad", help="Call under torch.no_grad().")] = False
    seed: Annotated[
        int, typer.Option(help="Seed of Python's, NumPy's and torch's random numbers.", min=0, max=2**64 - 1)
    ] = 0
    device: Annotated[
        str | None,
        typer.Option(help="Move the module and its inputs there, such as cuda.", show_default=False),
    ] = None


@dataclass(frozen=True)
class ShownOptions:
    """Which findings are shown."""

    own_code: Annotated[
        bool | None,
        typer.Option("--own-code/--all-code", help="Show findings in your own files only, not in packages."),
    ] = None
    select: Annotated[
        list[str] | None,
        typer.Option("--select", help="Show only rules whose code begins so, such as GD1. Repeatable."),
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Leave out rules whose code begins so. Repeatable.")
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """Where a result goes and how it looks."""

    format: FormatOption = None
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the result to this file; - is standard output.")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file that -o names.")] = False
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Add operations and code of each graph, and torch's full words."),
    ] = False
    quiet: QuietOption = False
    color: ColourOption = Colour.auto
    source: Annotated[
        bool, typer.Option("--source/--no-source", help="Put lines of code into an HTML report, or leave them out.")
    ] = True


@dataclass(frozen=True)
class TrialOptions:
    """How fixes are tried."""

    jobs: Annotated[
        int | None,
        typer.Option(
            help="How many trials run side by side; by default half the cores, at most 4, and 1 with --device.",
            min=1,
            show_default=False,
        ),
    ] = None
    timing: Annotated[
        bool,
        typer.Option("--timing/--no-timing", help="Time steady calls with and without each fix, under inductor too."),
    ] = True
    trial_timeout: Annotated[
        float | None,
        typer.Option(
            help="Stop a trial after so many seconds; by default six times what the program takes, at least 60.",
            min=0.001,
            show_default=False,
            callback=_positive,
        ),
    ] = None
    trial_memory: Annotated[
        float | None,
        typer.Option(
            help="Stop a trial above so many GiB (Linux); by default twice what the program takes and 2 more.",
            min=0.001,
            show_default=False,
            callback=_positive,
        ),
    ] = None


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Spread the option groups among a command's parameters over its signature.

    Args:
        command: A function; each parameter whose annotation is a dataclass of this module is a group.

    Returns:
        The same command with one parameter an option, as typer wants it.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        annotations = typing.get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=annotations[field.name],
            )
            for field in fields(group)
        ]
    ordered = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

    @functools.wraps(command)
    def run(**values: Any) -> None:  # noqa: ANN401
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    return run
