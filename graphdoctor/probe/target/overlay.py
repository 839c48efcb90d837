"""Lays edited source over the import of files, so that a program runs with its edits; nothing on
disk changes.

It applies to all modules that this process imports; a child process of the program reads the disk.
"""

from __future__ import annotations

import io
import linecache
import os
import tokenize
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any


def lay_over(patches: Mapping[str, str]) -> None:
    """Make Python import edited text: for the path of each source file, the path of a file with its
    bytes.
    """
    texts = {os.path.realpath(path): Path(edited).read_bytes() for path, edited in patches.items()}
    for path in patches:
        for name in (path, os.path.realpath(path)):
            _show(name, texts[os.path.realpath(path)])
    read = SourceFileLoader.get_code

    def get_code(loader: Any, name: str) -> CodeType | None:
        content = texts.get(os.path.realpath(loader.path))
        if content is None:
            return read(loader, name)
        _show(loader.path, content)
        # Past the cache of compiled files, which holds the file on disk.
        return compile(content, loader.path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


def _show(name: str, content: bytes) -> None:
    """Let tracebacks, ``inspect`` and torch read the edited lines; an entry without a time is never
    rechecked.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    # As linecache reads a file: a form feed doesn't end a line, and the last line ends like the
    # others.
    lines = io.TextIOWrapper(io.BytesIO(content), encoding=encoding).readlines()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
