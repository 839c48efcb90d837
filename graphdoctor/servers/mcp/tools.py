"""The tools: which commands, with which of their options, what each executes, and how its document
is shown.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import ListRoots, Resolve
from mcp.server.mcpserver.tools.base import Tool
from mcp.types import CallToolResult, ListRootsResult, ToolAnnotations
from pydantic import Field

from graphdoctor.facts.base import Document as Facts
from graphdoctor.facts.bench import BenchReport
from graphdoctor.facts.check import CheckReport, LintReport
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.profile import ProfileReport
from graphdoctor.facts.reading import described_schema
from graphdoctor.servers.mcp.answers import Answer
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
    """

    executes: Executes
    takes: tuple[str, ...]
    kind: type[Facts] | None = None
    document: formats.Document[Any] | None = None
    more: tuple[Parameter, ...] = ()


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
    "explain": Offer("target", (*_RUN, *_SHOWN), Diagnosis, formats.DIAGNOSIS),
    "fix": Offer("target", (*_RUN, *_SHOWN, *_FIX), Diagnosis, formats.FIXES),
    "try": Offer("target", (*_RUN, "--no-timing"), Diagnosis, formats.FIXES, _EDIT),
    "recompiles": Offer("named", (*_RUN, "--what-if"), Diagnosis, formats.RECOMPILES),
    "guards": Offer("named", _RUN, Diagnosis, formats.GUARDS),
    "bench": Offer("named", (*_RUN, "--variant", "--all", "--why"), BenchReport, formats.BENCH),
    "profile": Offer("named", _RUN, ProfileReport, formats.PROFILE),
    "check": Offer("target", _LIMITS, CheckReport, formats.CHECK),
    "lint": Offer("nothing", _SHOWN, LintReport, formats.LINT),
    "report": Offer("nothing", (*_SHOWN, "--rank"), Diagnosis, formats.DIAGNOSIS),
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
    returned = Annotated[CallToolResult, Answer]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in declared} | {
        "return": returned
    }
    call.__signature__ = inspect.Signature(declared, return_annotation=returned)  # type: ignore[attr-defined]
    is_read, is_written = offer.executes == "nothing", "--apply" in offer.takes
    hints = ToolAnnotations(
        read_only_hint=is_read, destructive_hint=is_written, open_world_hint=not is_read
    )
    text = (
        f"{summary}"
        f" {_EXECUTES[offer.executes]}"
        f"{' With apply, it writes what works.' if is_written else ''}"
    )
    tool = Tool.from_function(
        call, "try_patch" if name == "try" else name, description=text, annotations=hints
    )
    tool.fn_metadata.output_schema = described_schema(Answer)
    # Every client has this in its context: no name again, and what can be left out needs no null.
    for described in tool.parameters["properties"].values():
        described.pop("title", None)
        if kinds := described.pop("anyOf", None):
            described.update(kinds[0])
            described.pop("default", None)
    return tool
