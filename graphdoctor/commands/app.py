"""The application and the help of its commands; only the command that is asked for is imported."""

from __future__ import annotations

import contextlib
import importlib
import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from graphdoctor.commands.commands import ABOUT, MODULES, NAMES, columns, overview
from graphdoctor.commands.options import IS_ALL_SHOWN
from graphdoctor.version import __version__
from graphdoctor.views.printable import printable
from graphdoctor.wording import counted

_HEADINGS = {
    "What to run": """
        -m --files --from --only --exclude --shard --resume --input --calls --backward --train
        --no-grad --seed --device --dtype --batch --python --own --timeout
    """,
    "torch.compile": "--backend --mode --dynamic --fullgraph --option --regional --config",
    "What to measure": """
        --coverage --measure --bench --variant --export --fix --pages --strides
    """,
    "Trials": """
        --try --unsafe-fixes --apply --diff --again --what-if --vary --run --budget
        --other-python --jobs --no-timing --trial-timeout --trial-memory
    """,
    "Reading logs": "--on",
    "Execution": "--cpus --gpus --memory --retries",
    "What is allowed": """
        --read-only --max-breaks --max-recompiles --max-graphs --min-coverage --fail-on
        --baseline --no-baseline --update --allow-empty --max-compile-seconds --no-limit-hit
    """,
    "What to report": """
        --rank --own-code --select --ignore --stages --stage --graph --compile --recording --all
        --redact --with-environment --drop
    """,
    "Output": """
        --output --format --html --open --report --force --source --stdout --recordings
        --watch --verbose --quiet --color
    """,
    "Help": "--help --help-all",
}
HEADINGS = {heading: flags.split() for heading, flags in _HEADINGS.items()}
"""Options by what they are about, in the order in which they are shown; the same in every
command."""

_NAMES_OF_SELDOM = """
    --batch --export --calls --train --no-grad --seed --device --dtype --python --own --timeout
    --exclude --shard --resume --only --dynamic --fullgraph --option --regional --config --coverage
    --check-results --thorough --pages --again --vary --jobs --no-timing
    --trial-timeout --trial-memory --on --cpus --gpus --memory --retries --no-baseline --allow-empty
    --own-code --select --ignore --stages --stage --graph --compile --drop --open
    --other-python --force --source --stdout --recordings --quiet --color
"""
SELDOM = frozenset(_NAMES_OF_SELDOM.split())
"""Options that ``--help`` only counts: a command's help fits on two screens."""

_REST = "More options"
_FIRST = re.compile(r"(?<=\.)\s")
"""The end of a sentence."""


class Command(typer.core.TyperCommand):
    """A command whose help is its docstring, the examples in it as a list, and its options under
    headings.
    """

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click has no public name
        """Write the description, then examples."""
        whole = self.help
        self.help, _, examples = (whole or "").partition("Examples:\n")
        super().format_help_text(ctx, formatter)
        self.help = whole
        with formatter.section("Examples"):
            formatter.write_dl(
                [line.strip().partition(": ")[::2] for line in examples.splitlines()]
            )

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """Arguments, and options under headings."""
        sections: dict[str, list[tuple[str, str]]] = {
            "Arguments": [],
            **{name: [] for name in HEADINGS},
            _REST: [],
        }
        seldom = 0
        for parameter in self._in_order(self.get_params(ctx)):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if IS_ALL_SHOWN not in ctx.meta and SELDOM.intersection(parameter.opts):
                seldom += 1
            else:
                name, text = record
                if parameter.param_type_name == "argument":
                    # Without the type in Python's words; the usage line says what can be repeated.
                    name = parameter.metavar or parameter.name
                sections[_heading(parameter)].append(
                    (name, text if IS_ALL_SHOWN in ctx.meta else _FIRST.split(text)[0])
                )
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        if seldom:
            formatter.write_paragraph()
            formatter.write_text(f"{counted(seldom, 'more option')}: --help-all")

    @staticmethod
    def _in_order(parameters: Sequence[Any]) -> list[Any]:
        order = [flag for flags in HEADINGS.values() for flag in flags]
        return sorted(
            parameters,
            key=lambda parameter: min(
                (order.index(f) for f in parameter.opts if f in order), default=0
            ),
        )


def _heading(parameter: Any) -> str:  # noqa: ANN401 - as above
    if parameter.param_type_name == "argument":
        return "Arguments"
    return parameter.rich_help_panel or next(
        (name for name, flags in HEADINGS.items() if {*flags} & {*parameter.opts}), _REST
    )


_UsageError: Any = typer.BadParameter.__base__
"""What typer raises for bad usage; it has no public name of its own for that."""
_CONTEXT: dict[str, dict[str, Any]] = {
    # Everything after the script belongs to the script.
    "run": {"allow_interspersed_args": False}
}


class _Overview(typer.core.TyperGroup):
    """The group of all commands, whose help needs none of them."""

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]  # noqa: ARG002
        """As ``graphdoctor.commands.main`` prints it without typer."""
        return overview(columns()).rstrip("\n")

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
        """As typer's, with what was typed made safe to show in a complaint."""
        with _safe_complaints():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401 - as above
        """As typer's, where the command's own options are read; typer says nothing of an
        interrupt.
        """
        from graphdoctor.commands.terminal import reported

        try:
            with _safe_complaints():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Exit(reported(error)) from error


@contextlib.contextmanager
def _safe_complaints() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        # Without a command, the message is the overview, in lines.
        if error.message.rstrip() != overview(columns()).rstrip():
            usage_error = error
            error.show = lambda *_: _complain(usage_error)
        raise


def _complain(error: Any) -> None:  # noqa: ANN401 - as above
    """Say what is wrong with the command line as every other error is said."""
    from graphdoctor.commands.terminal import complain
    from graphdoctor.wording import near_names

    ctx, option = error.ctx, getattr(error, "option_name", None)
    if option is not None:
        # Without the dashes that all have.
        names = {name.strip("-"): name for name in error.possibilities or ()}
        error.possibilities = [names[name] for name in near_names(option.strip("-"), names)]
    command = "graphdoctor" if ctx is None or ctx.parent is None else f"graphdoctor {ctx.info_name}"
    page = " -o report.html writes a page." if option == "--html" else ""
    complain(printable(error.format_message()), f"{command} --help says what it takes.{page}")


def command_of(name: str) -> Callable[..., None]:
    """Return the function that runs a command."""
    # `try` is no name in Python.
    function = f"{name}_" if keyword.iskeyword(name) else name
    module = importlib.import_module(f"graphdoctor.commands.{MODULES.get(name, function)}")
    command: Callable[..., None] = getattr(module, function)
    return command


def application(names: Sequence[str] = NAMES) -> typer.Typer:
    """Return the application with some of its commands."""
    app = typer.Typer(
        name="graphdoctor",
        cls=_Overview,
        help=ABOUT,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(graphdoctor)
    for name in names:
        app.command(name, cls=Command, context_settings=_CONTEXT.get(name))(command_of(name))
    return app


def misplaced_options(
    script: str, arguments: Sequence[str], *names: str
) -> tuple[list[str], list[str]]:
    """Options after a script: those of these commands that its source doesn't name, and others."""
    options = [text.partition("=")[0] for text in arguments if re.match("--?[a-zA-Z]", text)]
    if not options:
        return [], []
    commands: Any = typer.main.get_command(application(names))
    parameters = [option for command in commands.commands.values() for option in command.params]
    flags = {flag for option in parameters for flag in (*option.opts, *option.secondary_opts)}
    source = ""
    with contextlib.suppress(OSError):
        source = Path(script).read_text(encoding="utf-8", errors="replace")
    flags = {flag for flag in flags if not re.search(rf"[\"']{flag}\b", source)}
    ours = [name for name in options if name in flags]
    return ours, [name for name in options if name not in flags]


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"graphdoctor {__version__}")
        raise typer.Exit


def graphdoctor(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """See what torch.compile did to your model, why, and what to change."""
