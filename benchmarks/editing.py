"""How soon the language server answers while a client opens many files and types fast, and whether
its memory stays.

The client is a pipe: what an editor adds isn't measured. The pause after a keystroke is in the
time.
"""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.rows import Row

_SOURCES = Path(__file__).resolve().parents[1] / "graphdoctor" / "fixes" / "moves"
_KEYS = 10
"""Characters that are typed into a file, 30 ms apart, before the answer is waited for."""
_COMPILED = (
    "\n\nimport torch\n\n\n@torch.compile\ndef typed(x):\n    print(x)\n    return x.sin()\n"
)


def measure(*, is_quick: bool, folder: Path) -> list[Row]:
    """Open files that hold a compiled function below much other code, and type into each."""
    texts = [path.read_text() + _COMPILED for path in sorted(_SOURCES.glob("*.py"))]
    count = 10 if is_quick else 200
    files = [folder / f"opened_{number}.py" for number in range(count)]
    editor = _Editor(folder)
    try:
        waits: list[float] = []
        megabytes: list[float] = []
        for file, text in zip(files, itertools.cycle(texts), strict=False):
            editor.open(file, text)
        editor.answer(files[-1], 1)
        megabytes.append(editor.resident_mb)
        for file, text in zip(files, itertools.cycle(texts), strict=False):
            waits.append(editor.type(file, text))
        megabytes.append(editor.resident_mb)
    finally:
        editor.close()
    size = f"{sum(map(len, texts)) // len(texts) // 1000} KB each"
    return [
        Row(
            f"an editor with {count} files of {size}: answer after the last key", "", "s", (), waits
        ),
        Row(
            f"an editor with {count} files: memory after typing",
            "before",
            "MB",
            megabytes[:1],
            megabytes[1:],
            1.2,
        ),
    ]


class _Editor:
    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-P", "-m", "graphdoctor", "lsp"]
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._send(
            "initialize", {"capabilities": {}, "processId": None, "rootUri": folder.as_uri()}, id=0
        )
        self._send("initialized", {})

    def open(self, file: Path, text: str) -> None:
        document = {"uri": file.as_uri(), "languageId": "python", "version": 1, "text": text}
        self._send("textDocument/didOpen", {"textDocument": document})

    def type(self, file: Path, text: str) -> float:
        """Seconds from the last key to the diagnostics of what was typed."""
        for key in range(_KEYS):
            changed = {"uri": file.as_uri(), "version": key + 2}
            changes = [{"text": text + "# " + "typed"[: key + 1]}]
            self._send(
                "textDocument/didChange", {"textDocument": changed, "contentChanges": changes}
            )
            began = time.perf_counter()
            if key < _KEYS - 1:
                time.sleep(0.03)
        self.answer(file, _KEYS + 1)
        return time.perf_counter() - began

    def answer(self, file: Path, version: int) -> None:
        """Wait for the diagnostics of a version."""
        while True:
            found = self._answers.get(timeout=60)
            if found.get("method") == "textDocument/publishDiagnostics":
                told = found["params"]
                if (
                    told["uri"] == file.as_uri()
                    and told.get("version") == version
                    and told["diagnostics"]
                ):
                    return

    @property
    def resident_mb(self) -> float:
        """Of the server and its linter."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(_resident_kb(one) for one in (str(pid), *children)) * 1024 / 1e6

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _send(self, method: str, params: dict[str, Any], **more: int) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while head := self._process.stdout.readline():
            name, _, value = head.partition(b":")
            if name.lower() == b"content-length":
                while self._process.stdout.readline().strip():
                    pass
                self._answers.put(json.loads(self._process.stdout.read(int(value))))


def _resident_kb(pid: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0
