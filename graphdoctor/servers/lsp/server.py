"""The server on standard streams. It runs a program only when a command asks for it."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.fixes.lint import lint_files
from graphdoctor.fixes.lint.run import switches_in
from graphdoctor.servers.child import run_command
from graphdoctor.servers.lsp import diagnostics as shown
from graphdoctor.servers.lsp.known import Home, Known, Seen
from graphdoctor.version import __version__

_PAUSE_S = 0.1
"""After the last keystroke."""
_COMMANDS = ("explain", "fix", "bench")


class Server(LanguageServer):  # type: ignore[misc]
    """The server.

    Args:
        home_of: The project of a file's folder.
    """

    def __init__(self, home_of: Callable[[Path], Home]) -> None:
        super().__init__("graphdoctor", __version__)
        self._home_of = home_of
        self._known: dict[Path, Known] = {}
        self._linting = asyncio.Lock()
        self._switches = functools.lru_cache(maxsize=64)(switches_in)
        """Looked for again when a file is saved."""
        self._linted: dict[str, list[Finding]] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._add_features()

    def _add_features(self) -> None:
        for name, handler in (
            (types.TEXT_DOCUMENT_DID_OPEN, self._opened),
            (types.TEXT_DOCUMENT_DID_CHANGE, self._changed),
            (types.TEXT_DOCUMENT_DID_SAVE, self._saved),
            (types.TEXT_DOCUMENT_DID_CLOSE, self._closed),
            (types.TEXT_DOCUMENT_HOVER, self._hover),
            (types.TEXT_DOCUMENT_CODE_LENS, self._lenses),
            (types.TEXT_DOCUMENT_CODE_ACTION, self._actions),
        ):
            # pygls marks what it is given, and methods can't be marked.
            self.feature(name)(functools.partial(handler))
        for name in _COMMANDS:
            self.command(f"graphdoctor.{name}")(self._runner(name))

    # Documents.

    async def _opened(self, params: types.DidOpenTextDocumentParams) -> None:
        _, known = await self._known_of(params.text_document.uri)
        await asyncio.to_thread(known.refresh)
        await self._look(params.text_document.uri, pause_s=0)

    async def _changed(self, params: types.DidChangeTextDocumentParams) -> None:
        await self._look(params.text_document.uri, pause_s=_PAUSE_S)

    async def _saved(self, params: types.DidSaveTextDocumentParams) -> None:
        self._switches.cache_clear()
        document, known = await self._known_of(params.text_document.uri)
        # The settings may be what was saved.
        known.home = await asyncio.to_thread(self._home_of, _folder_of(document))
        await asyncio.to_thread(known.refresh)
        await self._look(document.uri, pause_s=0)

    def _closed(self, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        self._linted.pop(uri, None)
        if (waiting := self._waiting.pop(uri, None)) is not None:
            waiting.cancel()
        self._publish(uri, [])

    async def _look(self, uri: str, *, pause_s: float) -> None:
        """Look at a document, unless it changes again before that."""
        if (waiting := self._waiting.get(uri)) is not None:
            waiting.cancel()
        self._waiting[uri] = task = asyncio.create_task(self._checked(uri, pause_s))
        await asyncio.wait([task])

    async def _checked(self, uri: str, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        document, known = await self._known_of(uri)
        home, text = known.home, document.source
        path = shown.path_of(document)
        async with self._linting:
            report = await asyncio.to_thread(
                lint_files,
                [path],
                root=home.root,
                version=__version__,
                policies=home.every,
                texts={path: text},
                switches=lambda folder, names: self._switches(folder, frozenset(names)),
            )
        self._linted[uri] = list(report.findings)
        self._publish(
            uri, shown.diagnostics(document, self._linted[uri], self._seen(document, known))
        )

    def _publish(self, uri: str, published: list[types.Diagnostic]) -> None:
        version = self.workspace.get_text_document(uri).version if published else None
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, published, version)
        )

    async def _known_of(self, uri: str) -> tuple[TextDocument, Known]:
        """Return a document, and what recordings know of the project that it belongs to."""
        document = self.workspace.get_text_document(uri)
        folder = _folder_of(document)
        if folder not in self._known:
            home = await asyncio.to_thread(self._home_of, folder)
            projects = {known.home.root: known for known in self._known.values()}
            self._known[folder] = projects.get(home.root) or Known(home)
            if home.root not in projects:
                await asyncio.to_thread(self._known[folder].refresh)
        return document, self._known[folder]

    @staticmethod
    def _seen(document: TextDocument, known: Known) -> list[Seen]:
        return shown.counting(
            known.seen_in(shown.path_of(document), document.source), document.source, known.home
        )

    # What is asked about a document.

    async def _hover(self, params: types.HoverParams) -> types.Hover | None:
        document, known = await self._known_of(params.text_document.uri)
        seen = self._seen(document, known)
        # The first time, where lines run is read from all of a recording.
        text = await asyncio.to_thread(shown.hover, document, known, params.position.line + 1, seen)
        content = types.MarkupContent(types.MarkupKind.Markdown, text or "")
        return types.Hover(content) if text else None

    async def _lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        document, known = await self._known_of(params.text_document.uri)
        lenses = []
        for line, text in shown.lenses(document, known):
            start = types.Position(line - 1, 0)
            for name in _COMMANDS:
                title = text if name == "explain" else f"Run {name}"
                command = types.Command(title, f"graphdoctor.{name}", arguments=[document.uri])
                lenses.append(types.CodeLens(types.Range(start, start), command))
        return lenses

    async def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        document, known = await self._known_of(params.text_document.uri)
        seen = self._seen(document, known)
        fixes = []
        rest = []
        lines = range(params.range.start.line, params.range.end.line + 1)
        findings = [sighting.finding for sighting in seen]
        for finding in (*findings, *self._linted.get(document.uri, ())):
            line = finding.location.line - 1
            if line not in lines or line >= len(document.lines):
                continue
            fixes += [
                types.CodeAction(
                    title, types.CodeActionKind.QuickFix, edit=edit, is_preferred=is_verified
                )
                for title, is_verified, edit in shown.fix_edits(finding, document, known.home.root)
            ]
            ignore = types.CodeAction(f"Ignore {finding.code} here", types.CodeActionKind.QuickFix)
            ignore.edit = shown.ignore_edit(document, line, finding.code)
            rest.append(ignore)
        titles: dict[str, types.CodeAction] = {}
        for action in (*sorted(fixes, key=lambda action: not action.is_preferred), *rest):
            titles.setdefault(action.title, action)
        return list(titles.values())

    # Commands.

    def _runner(self, name: str) -> Callable[[Any], Any]:
        async def run(uri: str) -> None:
            await self._run(name, uri)

        return run

    async def _run(self, name: str, uri: str) -> None:
        """Run a command for the target of a document, with progress, until the client cancels
        it.
        """
        document, known = await self._known_of(uri)
        target = known.target_of(shown.path_of(document))
        progress, token = self.work_done_progress, str(uuid.uuid4())
        window = self.client_capabilities.window
        if window is not None and window.work_done_progress:
            await progress.create_async(token)
        title = f"graphdoctor {name} {target}"
        progress.begin(token, types.WorkDoneProgressBegin(title, cancellable=True))

        async def report(seconds: float, doing: str) -> None:
            progress.report(
                token, types.WorkDoneProgressReport(message=f"{doing}, {seconds:.0f} s")
            )

        running = asyncio.create_task(
            run_command([name, "--format", "json", "--", target], known.home.root, report)
        )
        loop = asyncio.get_running_loop()
        progress.tokens[token].add_done_callback(
            lambda _: loop.call_soon_threadsafe(running.cancel)
        )
        said = "done"
        try:
            status, _, printed = await running
            said = "done" if status == 0 else next(iter(printed[-1:]), f"status {status}")
        except asyncio.CancelledError:
            said = "cancelled"
        progress.end(token, types.WorkDoneProgressEnd(message=said))
        if said not in ("done", "cancelled"):
            self.window_show_message(
                types.ShowMessageParams(types.MessageType.Error, f"{title}: {said}")
            )
        await asyncio.to_thread(known.refresh)
        for linted in [name for name in self.workspace.text_documents if name in self._linted]:
            await self._look(linted, pause_s=0)


def _folder_of(document: TextDocument) -> Path:
    folder = shown.path_of(document).parent
    return folder if folder.is_dir() else Path.cwd()
