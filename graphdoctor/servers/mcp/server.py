"""The server on standard streams: tools, each call a command as a child process; prompts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ListRootsResult, TextContent

from graphdoctor.facts.reading import plain
from graphdoctor.fixes.diffs import DiffError, changes_of
from graphdoctor.fixes.patch import unified
from graphdoctor.servers.child import run_command
from graphdoctor.servers.mcp.answers import Answer, content_of, read_into, safe
from graphdoctor.servers.mcp.texts import fix_graph_breaks, skill, slow_compile
from graphdoctor.servers.mcp.tools import OFFERS, Parameter, command_tool, tool_of
from graphdoctor.trials.launch.store import Store
from graphdoctor.version import __version__

Offered = tuple[str, Sequence[Parameter]]


class Server(MCPServer):  # type: ignore[misc]
    """The server. Calls run one at a time: two would disturb each other's times.

    Args:
        offered: By the name of a command, what it does and what it takes.
        store_of: The recordings of a folder.
    """

    def __init__(self, offered: Mapping[str, Offered], store_of: Callable[[Path], Store]) -> None:
        tools = {
            name: tool_of(name, *declaration, self.answer) for name, declaration in offered.items()
        }
        commands = {name: tool for name, tool in tools.items() if not OFFERS[name].is_tool}
        super().__init__(
            "graphdoctor",
            version=__version__,
            instructions=skill(),
            tools=[
                *(tool for name, tool in tools.items() if name not in commands),
                command_tool(commands, self.answer),
            ],
            log_level="WARNING",
        )
        self._offered, self._store_of = offered, store_of
        self._turn = anyio.Lock()
        self._folder = Path.cwd()
        self.prompt(title="Find and fix the graph breaks of this model")(fix_graph_breaks)
        self.prompt(title="Why is compile slow here?")(slow_compile)

    @property
    def _store(self) -> Store:
        return self._store_of(self._folder)

    async def answer(
        self, name: str, values: dict[str, Any], listed: ListRootsResult, ctx: Context
    ) -> CallToolResult:
        """Run a command for a client that has these roots."""
        offer, uris = OFFERS[name], [str(root.uri) for root in listed.roots]
        edit = (values.pop("patch"), values["file"]) if name == "try" else None
        values |= {"patch": "-"}
        named: list[str] = []
        options = [] if offer.kind is None else ["--format", "json"]
        for parameter in self._offered[name][1]:
            value = values[parameter.name]
            if value != parameter.default:
                (named if parameter.flag is None else options).extend(parameter.words(value))

        async def report(seconds: float, doing: str) -> None:
            await ctx.report_progress(seconds, message=f"{doing}, {seconds:.0f} s")

        async with self._turn:
            self._folder = folder_of(uris, named)
            patch = b"" if edit is None else self._patch(*edit, uris)
            before = self._store.newest()[:1]
            arguments = [name, *options, "--", *named]
            status, stdout, printed = await run_command(arguments, self._folder, report, patch)
            made = [path.name for path in self._store.newest()[:1] if path not in before]
        is_failed = status not in (0, 1)
        answer = Answer(
            command=f"graphdoctor {name}",
            exit_status=status,
            recording=next(iter(made), None),
            report="",
            printed=printed if is_failed else (),
        )
        if offer.kind is None or offer.document is None or not stdout:
            answer = answer.replace(report=stdout.decode(errors="replace"))
        else:
            answer = read_into(
                answer, stdout, offer.kind, offer.document, self._folder, values["detail"]
            )
        content = [TextContent(type="text", text=text) for text in content_of(answer)]
        return CallToolResult(
            content=content, structured_content=safe(plain(answer)), is_error=is_failed
        )

    def _patch(self, patch: str, file: str | None, uris: Sequence[str]) -> bytes:
        """Return an edit as a diff; what it names has to lie below the roots, too."""

        def read(path: Path) -> bytes:
            folder_of(uris, [str(path)])
            return path.read_bytes() if path.is_file() else b""

        if file is not None:
            patch = unified(read(self._folder / file), patch.encode(), file)
        with suppress(DiffError):  # the command says why
            changes_of(patch, self._folder, read)
        return patch.encode()


def folder_of(uris: Iterable[str], texts: Collection[str]) -> Path:
    """Return the folder to run in: the first of the client's that has what the texts name, or the
    working directory.

    Args:
        uris: The client's roots.
        texts: Targets, files and recordings.

    Raises:
        ToolError: One of them names something outside of all.
    """
    paths = [Path(unquote(urlsplit(uri).path)) for uri in uris if urlsplit(uri).scheme == "file"]
    roots = [path.resolve() for path in paths if path.is_dir()] or [Path.cwd()]
    # A target is a file and a name.
    names = [name for text in texts for name in (text, text.rpartition(":")[0]) if name]
    # os: a name that no file can have is an error to pathlib.
    has_one = (any(os.path.exists(root / name) for name in names) for root in roots)  # noqa: PTH110
    folder = next(compress(roots, has_one), roots[0])
    for name in names:
        if "://" in name or not any(
            (folder / name).resolve().is_relative_to(root) for root in roots
        ):
            raise ToolError(f"{name} is outside of {', '.join(map(str, roots))}.")
    return folder
