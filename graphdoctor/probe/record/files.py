"""The text of the program's files, kept while it runs: they may change or vanish before anyone looks.

Comes in: files that records point to. Goes out: a ``graphdoctor_file`` artifact for each, once.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from ..torch_private import torch_api
from ..wire import FileArtifact

_MAX_FILE_BYTES = 2**20
_MAX_BYTES = 8 * 2**20
"""Of all texts that one process keeps, in UTF-8."""

_GENERATED = ("<frozen ", "<eval_with_key>", "<string>", "<unknown>")
"""Python's own and FX's generated code. ``linecache`` may know it, as it knows cells of IPython, which are kept."""


class FileTexts:
    """Returns the text of each file that isn't torch's, Python's own or the probe's, once."""

    def __init__(self) -> None:
        self._is_user_file = user_file_test()
        self._seen: set[str] = set()
        self._pending: list[str] = []
        self._bytes_left = _MAX_BYTES

    def want(self, file: str) -> None:
        """Have the next ``take`` return a file's text, if it is one to keep and wasn't returned before."""
        if file in self._seen:
            return
        self._seen.add(file)
        if self._is_user_file(file) or (file.startswith("<") and not is_python_made(file)):
            self._pending.append(file)

    def take(self) -> Iterator[FileArtifact]:
        """The files wanted since the last time."""
        pending, self._pending = self._pending, []
        for file in pending:
            yield FileArtifact(file=file, text=self._text(file))

    def _text(self, file: str) -> str | None:
        try:
            # As tracebacks and torch read it: cells and edits laid over the import have entries of their own there.
            text = "".join(linecache.getlines(file))
        except Exception:  # noqa: BLE001 - a loader of the program's, asked for its source, may raise anything
            return None
        size = len(text.encode("utf-8", "replace"))
        if not text or size > min(_MAX_FILE_BYTES, self._bytes_left):
            return None
        self._bytes_left -= size
        return text


def is_python_made(file: str) -> bool:
    """Whether a name stands for code that Python itself or FX generates."""
    return file.startswith(_GENERATED)


def user_file_test() -> Callable[[str], bool]:
    """A test for files that aren't torch's, Python's own or the probe's."""
    # As code objects name them, and resolved: an environment's folder may be a link.
    torch_roots = {torch_api.torch_root(), Path(torch.__file__).parent}
    # The separator: torchvision lies beside torch.
    foreign = (*(str(root / "_")[:-1] for root in (*torch_roots, Path(__file__).resolve().parent.parent)), "<")
    stdlib = str(Path(linecache.__file__).parent / "_")[:-1]
    known: dict[str, bool] = {}

    def is_user_file(file: str) -> bool:
        if file not in known:
            is_stdlib = file.startswith(stdlib) and "site-packages" not in file
            known[file] = not is_stdlib and not file.startswith(foreign)
        return known[file]

    return is_user_file
