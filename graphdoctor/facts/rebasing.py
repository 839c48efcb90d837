"""Paths of a check, relative to another folder. Comes in: a ``CheckReport``. Goes out: the same,
seen from there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .base import Fact
from .check import CheckReport
from .stack import relative

_DIFF_PATH = re.compile(r"^(--- a/|\+\+\+ b/)", re.MULTILINE)
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


def rebased(report: CheckReport, root: Path) -> CheckReport:
    """A report whose paths are relative to a folder above its own.

    Args:
        report: What to show; its own folder is below ``root``, otherwise it stays as it is.
        root: The folder.
    """
    own = Path(report.root) if report.root else root
    if own == root or not own.is_relative_to(root):
        return report
    moved: CheckReport = _Rebasing(own.relative_to(root).as_posix(), root).of(report)
    return moved.replace(root=str(root))


class _Rebasing:
    def __init__(self, folder: str, root: Path) -> None:
        self._folder = folder
        self._root = root
        # Findings share their stacks; the fact itself is kept so that its id stays its own.
        self._facts: dict[int, tuple[Fact, Fact]] = {}

    def of(self, value: Any) -> Any:  # noqa: ANN401 - as many types as fields
        if isinstance(value, Fact):
            if id(value) not in self._facts:
                self._facts[id(value)] = value, self._rebased(value)
            return self._facts[id(value)][1]
        return tuple(map(self.of, value)) if isinstance(value, tuple) else value

    def _rebased(self, fact: Fact) -> Fact:
        changed: dict[str, Any] = {}
        for name, value in vars(fact).items():
            if name == "file" and isinstance(value, str):
                changed[name] = self._path(value)
            elif name == "diff" and isinstance(value, str):
                changed[name] = _DIFF_PATH.sub(rf"\g<1>{self._folder}/", value)
            elif isinstance(value, (Fact, tuple)):
                changed[name] = self.of(value)
        return fact.replace(**changed) if changed else fact

    def _path(self, file: str) -> str:
        if not file or file.startswith(("<", "/", "\\")) or _DRIVE.match(file):
            return relative(file, self._root)
        return f"{self._folder}/{file}"
