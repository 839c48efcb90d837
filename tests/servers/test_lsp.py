"""``graphdoctor lsp`` over the real protocol: what an editor shows, and what it may ask for."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pytest_lsp import LanguageClient, make_test_lsp_client

from graphdoctor.servers.lsp.known import Home, Known
from graphdoctor.trials.launch.store import Store
from tests.conftest import clean_environment, run_command
from tests.processes import SLEEPING, descendants_of, is_running, wait_until

MODEL = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        h = self.linear(x)
        print("日本 🙂", x.shape)
        if h.sum() > 0:
            h = torch.relu(h)
        n = h.max().item()
        return h * n


model = torch.compile(Net())
example_inputs = (torch.randn(4, 8),)
"""
COMPILED = """\
import torch


@torch.compile
def f(x):
    print("日本 🙂", x.shape); print(x)
    return x.sin()
"""


class Editor:
    """A client with one server, in a folder."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client, self.folder = client, folder

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def open(self, name: str, text: str | None = None) -> list[types.Diagnostic]:
        text = (self.folder / name).read_text() if text is None else text
        item = types.TextDocumentItem(self.uri(name), "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self.shown(name)

    async def change(self, name: str, text: str, version: int = 2) -> list[types.Diagnostic]:
        changed = types.VersionedTextDocumentIdentifier(version, self.uri(name))
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(changed, [whole]))
        return await self.shown(name)

    async def shown(self, name: str) -> list[types.Diagnostic]:
        """The diagnostics that come next."""
        while True:
            told = await asyncio.wait_for(
                self.client.wait_for_notification("textDocument/publishDiagnostics"), 60
            )
            if told.uri == self.uri(name):
                return sorted(
                    told.diagnostics,
                    key=lambda one: (one.range.start.line, one.range.start.character),
                )

    async def actions(self, name: str, line: int) -> list[Any]:
        place = types.Range(types.Position(line - 1, 0), types.Position(line - 1, 0))
        asked = types.CodeActionParams(self.document(name), place, types.CodeActionContext([]))
        return list(await self.client.text_document_code_action_async(asked) or [])

    async def hover(self, name: str, line: int) -> Any:
        asked = types.HoverParams(self.document(name), types.Position(line - 1, 12))
        return await self.client.text_document_hover_async(asked)

    def document(self, name: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri(name))


def edited(
    folder: Path,
    use: Callable[[Editor], Awaitable[None]],
    *,
    encodings: list[types.PositionEncodingKind] | None = None,
    options: dict[str, Any] | None = None,
) -> None:
    """Start a server and use it."""

    async def run() -> None:
        client = make_test_lsp_client()
        await client.start_io(
            sys.executable, "-P", "-m", "graphdoctor", "lsp", env=clean_environment(), cwd=folder
        )
        capabilities = types.ClientCapabilities(
            general=types.GeneralClientCapabilities(position_encodings=encodings),
            window=types.WindowClientCapabilities(work_done_progress=True),
        )
        await client.initialize_session(
            types.InitializeParams(
                capabilities=capabilities,
                root_uri=folder.as_uri(),
                process_id=None,
                initialization_options=options,
            )
        )
        await use(Editor(client, folder))
        await client.shutdown_session()

    asyncio.run(asyncio.wait_for(run(), 300))


def short(found: list[types.Diagnostic]) -> list[tuple[str, int, int, int]]:
    return [
        (
            str(one.code),
            one.range.start.line + 1,
            one.range.start.character,
            one.range.end.character,
        )
        for one in found
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "codec"), [("utf-8", "utf-8"), ("utf-16", "utf-16-le"), ("utf-32", "utf-32-le")]
)
def test_unsaved_text_is_linted_in_the_clients_own_positions(
    tmp_path: Path, encoding: str, codec: str
) -> None:
    """The print stands behind characters of three and of four bytes."""
    text = COMPILED.replace(
        'print("日本 🙂", x.shape); print(x)', 'y = "日本 🙂", x.shape[0]; print(x)'
    )
    before = '    y = "日本 🙂", x.shape[0]; '.encode(codec)
    start = len(before) // len("x".encode(codec))
    columns = (start, start + len("print(x)"))

    async def use(editor: Editor) -> None:
        found = await editor.open("new file.py", text)
        assert short(found) == [("GD101", 6, *columns)]
        assert found[0].source == "graphdoctor"
        assert found[0].severity == types.DiagnosticSeverity.Warning
        assert await editor.change("new file.py", text.replace("print(x)", "pass")) == []
        assert short(await editor.change("new file.py", "\n\n" + text, 3)) == [
            ("GD101", 8, *columns)
        ]

    edited(tmp_path, use, encodings=[types.PositionEncodingKind(encoding)])
    assert list(tmp_path.iterdir()) == []


def test_project_ignores_hide_findings_and_an_action_adds_more(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.graphdoctor]\nignore = ["GD103"]\n')
    text = COMPILED.replace("    return", "    n = x.max().item()\n    return")

    async def use(editor: Editor) -> None:
        assert [one.code for one in await editor.open("f.py", text)] == ["GD101"]
        actions = await editor.actions("f.py", 6)
        [ignore] = [one for one in actions if one.title == "Ignore GD101 here"]
        [edit] = ignore.edit.changes[editor.uri("f.py")]
        assert edit.new_text == "  # graphdoctor: ignore[GD101]"
        lines = text.split("\n")
        lines[5] += edit.new_text
        assert await editor.change("f.py", "\n".join(lines)) == []
        # Broken settings take nothing away from an editor.
        (tmp_path / "pyproject.toml").write_text("[tool.graphdoctor]\nignore = 3\n")
        editor.client.text_document_did_save(
            types.DidSaveTextDocumentParams(editor.document("f.py"))
        )
        assert [one.code for one in await editor.shown("f.py")] == ["GD103"]

    edited(tmp_path, use)


def server(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "graphdoctor", "lsp"],
        cwd=folder, env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def message(method: str, params: dict[str, Any], **more: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    ["closed", "killed", "garbage", pytest.param("killed in a command", marks=pytest.mark.slow)],
)
def test_no_process_stays(tmp_path: Path, end: str) -> None:
    process = server(tmp_path)
    assert process.stdin is not None and process.stdout is not None
    document = {
        "uri": (tmp_path / "f.py").as_uri(),
        "languageId": "python",
        "version": 1,
        "text": COMPILED,
    }
    process.stdin.write(
        message("initialize", {"capabilities": {}, "processId": None, "rootUri": None}, id=1)
    )
    process.stdin.write(message("initialized", {}))
    process.stdin.write(message("textDocument/didOpen", {"textDocument": document}))
    process.stdin.flush()
    said = b""
    while b"publishDiagnostics" not in said:
        said += process.stdout.read1(65536)
    running = []
    if end == "killed in a command":
        (tmp_path / "f.py").write_text(SLEEPING)
        asked = {"command": "graphdoctor.explain", "arguments": [document["uri"]]}
        process.stdin.write(message("workspace/executeCommand", asked, id=2))
        process.stdin.flush()
        wait_until((tmp_path / "running").exists)
        running = descendants_of(process.pid)
        assert len(running) >= 2
    if end.startswith("killed"):
        process.kill()
    elif end == "garbage":
        process.stdin.write(b"Content-Length: 5\r\n\r\n{{{{{" + os.urandom(500))
        process.stdin.close()
    else:
        process.stdin.close()
    process.wait(20)
    wait_until(lambda: not any(map(is_running, running)))
    process.stdout.close()


@pytest.fixture(scope="module")
def treated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose model has three breaks, with verified fixes for all."""
    folder = tmp_path_factory.mktemp("treated")
    (folder / "model.py").write_text(MODEL)
    run_command(
        "fix", "model.py", "--unsafe-fixes", "--no-timing", "--budget", "600", cwd=folder, status=0
    )
    return folder


@pytest.mark.slow
def test_findings_move_with_text_and_go_with_their_line(treated: Path) -> None:
    async def use(editor: Editor) -> None:
        found = await editor.open("model.py")
        assert short(found) == [("GD101", 11, 8, 31), ("GD102", 12, 11, 22), ("GD103", 14, 12, 26)]
        assert all("ago in `fix model.py`" in one.message for one in found)
        above = await editor.change("model.py", "# one more line\n" + MODEL)
        assert [line for _, line, _, _ in short(above)] == [12, 13, 15]
        without = await editor.change(
            "model.py", MODEL.replace("        n = h.max().item()\n", "        n = 3\n"), 3
        )
        assert [code for code, *_ in short(without)] == ["GD101", "GD102"]
        await editor.change("model.py", MODEL, 4)
        hover = await editor.client.text_document_hover_async(
            types.HoverParams(editor.document("model.py"), types.Position(11, 12))
        )
        assert "the branch depends on a tensor's value" in hover.contents.value
        assert "Runs partly in a graph, partly eagerly." in hover.contents.value
        lenses = await editor.client.text_document_code_lens_async(
            types.CodeLensParams(editor.document("model.py"))
        )
        assert [(lens.range.start.line, lens.command.title) for lens in lenses] == [
            (8, "compiled · 3 break sites"),
            (8, "Run fix"),
            (8, "Run bench"),
        ]
        assert lenses[1].command.command == "graphdoctor.fix"
        actions = await editor.actions("model.py", 12)
        assert actions[0].title.startswith(
            "Choose `h` with `torch.where` (one graph: same outputs, gradients"
        )
        assert actions[0].is_preferred
        [edit] = actions[0].edit.changes[editor.uri("model.py")]
        assert edit.new_text == "        h = torch.where(h.sum() > 0, torch.relu(h), h)\n"
        # Nothing was written so far. As an editor applies and saves it, the break is gone in the
        # next run.
        assert (treated / "model.py").read_text() == MODEL
        lines = MODEL.splitlines(keepends=True)
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
        fixed = "".join(lines)
        (treated / "model.py").write_text(fixed)
        await editor.change("model.py", fixed, 5)
        asked = types.ExecuteCommandParams(
            "graphdoctor.explain", arguments=[editor.uri("model.py")]
        )
        running = asyncio.ensure_future(editor.client.workspace_execute_command_async(asked))
        assert [code for code, *_ in short(await editor.shown("model.py"))] == ["GD101", "GD103"]
        await running

    edited(treated, use)


@pytest.mark.slow
def test_a_command_runs_the_target_and_its_findings_arrive(tmp_path: Path) -> None:
    fixed = MODEL.replace(
        "        n = h.max().item()\n        return h * n\n", "        return h\n"
    )
    (tmp_path / "model.py").write_text(MODEL)
    run_command("explain", "model.py", cwd=tmp_path, status=0)

    async def use(editor: Editor) -> None:
        assert len(await editor.open("model.py")) == 3
        (tmp_path / "model.py").write_text(fixed)
        assert len(await editor.change("model.py", fixed)) == 2
        asked = types.ExecuteCommandParams(
            "graphdoctor.explain", arguments=[editor.uri("model.py")]
        )
        running = asyncio.ensure_future(editor.client.workspace_execute_command_async(asked))
        assert [code for code, *_ in short(await editor.shown("model.py"))] == ["GD101", "GD102"]
        await running
        [token] = editor.client.progress_reports
        reports = editor.client.progress_reports[token]
        assert reports[0].title == "graphdoctor explain model.py"
        assert reports[-1].message == "done"
        # Cancelled at once: the child ends, and nothing is recorded.
        before = len(list((tmp_path / ".graphdoctor").iterdir()))
        asked = types.ExecuteCommandParams("graphdoctor.fix", arguments=[editor.uri("model.py")])
        running = asyncio.ensure_future(editor.client.workspace_execute_command_async(asked))
        while len(editor.client.progress_reports) < 2:
            await asyncio.sleep(0.1)
        other = next(one for one in editor.client.progress_reports if one != token)
        editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(other))
        await asyncio.wait_for(running, 30)
        assert editor.client.progress_reports[other][-1].message == "cancelled"
        assert len(list((tmp_path / ".graphdoctor").iterdir())) <= before + 1

    edited(tmp_path, use)


LOUD = """\
import torch

import switch


def model(x):
    if switch.IS_LOUD:
        print("loud")
    return x * 2


def quiet(x):
    return x + 1


def example_inputs():
    return torch.ones(4)
"""


@pytest.mark.slow
def test_a_later_run_of_the_same_code_replaces_what_an_earlier_one_saw(tmp_path: Path) -> None:
    path, switch = tmp_path / "model.py", tmp_path / "switch.py"
    path.write_text(LOUD)

    def seen() -> list[str]:
        known = Known(Home(tmp_path, Store(tmp_path, keep_count=20)))
        known.refresh()
        return [sighting.run.age.partition("in ")[2] for sighting in known.seen_in(path, LOUD)]

    switch.write_text("IS_LOUD = True\n")
    run_command("explain", "model.py:model", cwd=tmp_path, status=0)
    # One that doesn't trace the function says nothing of it.
    run_command("explain", "model.py:quiet", cwd=tmp_path, status=0)
    assert seen() == ["`explain model.py:model`"]
    (tmp_path / "pyproject.toml").write_text(
        '[[tool.graphdoctor.targets]]\ntarget = "./model.py:model"\n'
    )
    run_command("check", cwd=tmp_path, status=1)
    assert seen() == ["`check ./model.py:model`"]
    switch.write_text("IS_LOUD = False\n")
    run_command("check", cwd=tmp_path, status=0)
    assert seen() == []
