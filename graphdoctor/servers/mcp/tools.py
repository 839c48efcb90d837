"""The tools: which commands, with which of their options, what each executes, and how its document
is shown.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import ListRoots, Resolve
from mcp.server.mcpserver.tools.base import Tool
from mcp.types import CallToolResult, ListRootsResult, ToolAnnotations
from pydantic import Field

from graphdoctor.facts.base import Document as Facts
from graphdoctor.facts.bench import BenchReport
from graphdoctor.facts.check import CheckReport, LintReport
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.profile import ProfileReport
from graphdoctor.views import formats

Executes = Literal["target", "named", "nothing"]
_EXECUTES: dict[Executes, str] = {
    "target": (
        "Executes the user's program: imports the target and makes its calls, in processes of their"
        " own."
    ),
    "named": (
        "Executes the user's program if a target is named; of a recording or log, executes nothing."
    ),
    "nothing": "Executes nothing of the user's.",
}


@dataclass(frozen=True)
class Parameter:
    """What a command takes: an option if it has a ``flag``, such as ``--train/--no-train``, else an
    argument.
    """

    name: str
    annotation: Any
    default: Any = inspect.Parameter.empty
    flag: str | None = None

    @property
    def declared(self) -> inspect.Parameter:
        """It as a parameter of a function."""
        kept = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(self.name, kept, default=self.default, annotation=self.annotation)

    def words(self, value: object) -> Iterator[str]:
        """It on the command line."""
        on, _, off = (self.flag or "").partition("/")
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, bool):
                yield on if item else off
            elif item is not None:
                yield f"{on}={item}" if on else str(item)


@dataclass(frozen=True)
class Offer:
    """A command as a tool.

    Args:
        executes: What it executes.
        takes: The options that a client may give.
        kind: The document that it writes; None for text.
        document: How that is shown.
        more: What the tool takes in place of the command's own, or beyond it.
        is_tool: It is a tool of its own; others are run by ``run_command``.
    """

    executes: Executes
    takes: tuple[str, ...]
    kind: type[Facts] | None = None
    document: formats.Document[Any] | None = None
    more: tuple[Parameter, ...] = ()
    is_tool: bool = False


_PATCH = Annotated[
    str,
    Field(
        description=(
            "A unified diff of Python files; or, with file, the whole new text of that file."
        )
    ),
]
_FILE = Annotated[str | None, Field(description="The file that patch is the new text of.")]
_DETAIL_HELP = (
    "More than the short answer: report (all of it in words), a finding's fingerprint (its facts,"
    " functions and shapes), document (all facts) or a part of that, such as summary. The tool"
    " report has these of an earlier run."
)
_DETAIL = Parameter("detail", Annotated[str | None, Field(description=_DETAIL_HELP)], None)

_RUN = (
    "--input",
    "--calls",
    "--backward",
    "--train",
    "--device",
    "--backend",
    "--mode",
    "--dynamic",
    "--timeout",
)
_SHOWN = ("--select", "--ignore")
_FIX = ("--unsafe-fixes", "--apply", "--no-timing")
_EDIT = (Parameter("patch", _PATCH), Parameter("file", _FILE, None))
_LIMITS = ("--max-breaks", "--max-recompiles", "--timeout")

OFFERS: dict[str, Offer] = {
    "explain": Offer("target", (*_RUN, *_SHOWN), Diagnosis, formats.DIAGNOSIS, is_tool=True),
    "fix": Offer("target", (*_RUN, *_SHOWN, *_FIX), Diagnosis, formats.FIXES),
    "try": Offer("target", (*_RUN, "--no-timing"), Diagnosis, formats.FIXES, _EDIT, is_tool=True),
    "recompiles": Offer("named", (*_RUN, "--what-if"), Diagnosis, formats.RECOMPILES),
    "guards": Offer("named", _RUN, Diagnosis, formats.GUARDS),
    "bench": Offer("named", (*_RUN, "--variant", "--all", "--why"), BenchReport, formats.BENCH),
    "profile": Offer("named", _RUN, ProfileReport, formats.PROFILE),
    "check": Offer("target", _LIMITS, CheckReport, formats.CHECK),
    "lint": Offer("nothing", _SHOWN, LintReport, formats.LINT),
    "report": Offer("nothing", (*_SHOWN, "--rank"), Diagnosis, formats.DIAGNOSIS, is_tool=True),
    "rule": Offer("nothing", ()),
}


Call = Callable[[str, dict[str, Any], ListRootsResult, Context], Awaitable[CallToolResult]]
"""Takes the command, the arguments by name, the client's roots and the request."""


async def client_roots(ctx: Context) -> ListRoots | ListRootsResult:
    """Return the folders that the client works in; it is asked only if it says that it has any."""
    capabilities = ctx.client_capabilities
    return (
        ListRoots()
        if capabilities is not None and capabilities.roots is not None
        else ListRootsResult(roots=[])
    )


_ARGUMENTS = Annotated[dict[str, Any], Field(description="The command's arguments by name.")]
_COMMANDS = f"""\
Run another command. Wrong arguments are answered with those that it takes. **run stands for
explain's {", ".join(flag.removeprefix("--") for flag in _RUN)}."""


def tool_of(name: str, summary: str, takes: Iterable[Parameter], answer: Call) -> Tool:
    """Return the tool of a command that takes these arguments and options."""
    offer = OFFERS[name]

    async def call(ctx: Context, roots: ListRootsResult, **values: Any) -> CallToolResult:  # noqa: ANN401 - as declared
        return await answer(name, values, roots, ctx)

    parameters = {
        parameter.name: parameter
        for parameter in (*takes, *offer.more, *([] if offer.kind is None else [_DETAIL]))
    }
    roots = Parameter("roots", Annotated[ListRootsResult, Resolve(client_roots)])
    declared = [
        parameter.declared for parameter in (Parameter("ctx", Context), roots, *parameters.values())
    ]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in declared} | {
        "return": CallToolResult
    }
    call.__signature__ = inspect.Signature(declared, return_annotation=CallToolResult)  # type: ignore[attr-defined]
    written = " With apply, it writes what works." if "--apply" in offer.takes else ""
    text = f"{summary} {_EXECUTES[offer.executes]}{written}"
    named = "try_patch" if name == "try" else name
    return _described(Tool.from_function(call, named, description=text, annotations=_hints([name])))


def command_tool(tools: dict[str, Tool], answer: Call) -> Tool:
    """Return the tool that runs the other commands: their definitions, which every client has in
    its context, would be five times as long.
    """

    async def call(
        ctx: Context,
        roots: Annotated[ListRootsResult, Resolve(client_roots)],
        command: Any,  # noqa: ANN401 - as declared
        arguments: _ARGUMENTS = {},  # noqa: B006 - nobody writes to it
    ) -> CallToolResult:
        tool, takes = tools[command], tools[command].parameters["properties"]
        try:
            if unknown := arguments.keys() - takes:
                raise ValueError(f"no {', '.join(unknown)}")
            values = tool.fn_metadata.validate_arguments(arguments)
        except ValueError as error:
            lines = (f"{name}: {described['description']}" for name, described in takes.items())
            raise ToolError("\n".join((f"{command} has {error}. It takes", *lines))) from error
        return await answer(command, values, roots, ctx)

    call.__annotations__ |= {
        "ctx": Context,
        "roots": Annotated[ListRootsResult, Resolve(client_roots)],
        "command": Literal[tuple(tools)],
        "arguments": _ARGUMENTS,
        "return": CallToolResult,
    }
    text = "\n".join((_COMMANDS, *(_line(name, tool) for name, tool in tools.items())))
    return _described(
        Tool.from_function(call, "run_command", description=text, annotations=_hints(tools))
    )


def _line(name: str, tool: Tool) -> str:
    takes = list(tool.parameters["properties"])
    if "input" in takes:
        takes = [*(named for named in takes if f"--{named}" not in _RUN), "**run"]
    return f"- {name}({', '.join(takes)}): {tool.description}"


def _hints(commands: Collection[str]) -> ToolAnnotations:
    is_read = all(OFFERS[name].executes == "nothing" for name in commands)
    is_written = any("--apply" in OFFERS[name].takes for name in commands)
    return ToolAnnotations(
        read_only_hint=is_read, destructive_hint=is_written, open_world_hint=not is_read
    )


def _described(tool: Tool) -> Tool:
    # Every client has this in its context: no name again, and what can be left out needs no null.
    for described in tool.parameters["properties"].values():
        described.pop("title", None)
        described.pop("additionalProperties", None)
        if kinds := described.pop("anyOf", None):
            described.update(kinds[0])
            described.pop("default", None)
    tool.parameters.pop("title", None)
    return tool
