"""Texts of a test in one file, each below a heading: programs, and files of a folder."""

from __future__ import annotations

import re
from pathlib import Path


def sections(path: Path) -> dict[str, str]:
    """The texts of a file by their headings, lines that begin with ``## ``; above the first, it
    says what it is."""
    _, *parts = re.split(r"^## (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        heading: text.strip("\n") + "\n"
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def written(path: Path, name: str, folder: Path) -> Path:
    """Write one of a file's texts as a program into a folder."""
    program = folder / f"{name}.py"
    program.write_text(sections(path)[name], encoding="utf-8")
    return program


def texts_beside(file: str) -> list[str]:
    """The texts of the file beside a test that has its name and ends in ``.txt``, in order."""
    return [*sections(Path(file).with_suffix(".txt")).values()]
