"""What the program's own code does to files and folders, by Python's audit events.

What torch writes natively, as ``torch.save`` does to a path, has none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from .files import is_user_file

_CHANGES = frozenset(
    ["open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "subprocess.Popen"]
)
"""What is noted of what Python does to files, by the names of its audit events."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_COMPILER = ("_dynamo", "_inductor", "_functorch", "_logging", "_strobelight")
"""Packages of torch that write files of their own while the program's code runs."""


class ChangedFiles:
    """Notes what the program's own code does to files; Python removes no audit hook again."""

    def __init__(self) -> None:
        self._lines: list[str] | None = None
        self._is_hooked = False

    @contextmanager
    def noted(self, lines: list[str]) -> Iterator[None]:
        """Have lines get what is done meanwhile."""
        if not self._is_hooked:
            self._is_hooked = True
            sys.addaudithook(torch.compiler.disable(self._look))
        before = self._lines
        self._lines = lines
        try:
            yield
        finally:
            self._lines = before

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._lines is None or event not in _CHANGES:
            return
        path, *more = arguments
        if event == "open":
            mode, flags = more
            is_writing = bool(set(mode) & set("wax+")) if mode else bool(flags & _WRITING)
            if isinstance(path, int) or not is_writing:
                return
        frame: FrameType | None = sys._getframe(1)
        # torch's wrapper around this method.
        while frame is not None and frame.f_code.co_filename.endswith("eval_frame.py"):
            frame = frame.f_back
        if _is_by_program(frame):
            self._lines.append(f"{event} {os.fsdecode(path) if event != 'open' else path}")


CHANGED_FILES = ChangedFiles()


def _is_by_program(frame: FrameType | None) -> bool:
    """Return whether the program's code, rather than the compiler, is what runs.

    Either may do it through a package, as Inductor locks its cache with ``filelock``.
    """
    is_by_package = False
    while frame is not None:
        file = frame.f_code.co_filename
        if any(f"{os.sep}{name}{os.sep}" in file for name in _COMPILER):
            return False
        if is_user_file(file):
            if "site-packages" not in file:
                return True
            is_by_package = True
        frame = frame.f_back
    return is_by_package
