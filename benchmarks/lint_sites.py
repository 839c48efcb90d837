"""Compares what lint finds in programs with what a run of them finds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.fixes.lint import lint_files
from tests.conftest import run_command
from tests.fixes.lint.programs import BAD, GOOD

_FIXES = Path(__file__).parents[1] / "tests" / "fixes"
_PACKAGES = re.compile(r"^from (transformers|torch_geometric)\b", re.MULTILINE)
_CALLS = """

inputs = example_inputs()
compiled = torch.compile({target}, backend="eager")
for call in [inputs] if isinstance(inputs, tuple) else inputs:
    args, kwargs = call if isinstance(call[0], tuple) else (call, {{}})
    compiled(*args, **kwargs)
"""
"""What makes the calls of a program whose last definitions are its target and its inputs."""

Site = tuple[str, int]
"""A file's name and a line."""


@dataclass(frozen=True)
class Measured:
    """Break sites.

    Args:
        reported: Those that lint reports.
        seen: Those at which torch broke.
    """

    reported: frozenset[Site]
    seen: frozenset[Site]

    @property
    def recall(self) -> float:
        """How many of the sites that a run finds lint reports."""
        return len(self.reported & self.seen) / len(self.seen)

    @property
    def precision(self) -> float:
        """How many of the sites that lint reports a run finds."""
        return len(self.reported & self.seen) / len(self.reported)


def ordinary_programs() -> dict[str, str]:
    """Programs as people write them by file name, with their calls; no line is marked."""
    programs = {}
    for path in sorted((_FIXES / "programs").glob("*.py")):
        text = path.read_text()
        if not _PACKAGES.search(text):
            *_, (kind, name), _ = re.findall(r"^(class|def) (\w+)", text, re.MULTILINE)
            target = f"{name}()" if kind == "class" or name == "build" else name
            if "\nmodel = " in text:
                target = "model"
            programs[path.name] = text + _CALLS.format(target=target)
    return programs


def small_programs() -> dict[str, str]:
    """The programs with one cause each, or none."""
    return {
        f"{'bad' if program.codes else 'good'}-{program.name}.py": program.text
        for program in (*BAD, *GOOD)
    }


def measure(programs: dict[str, str], folder: Path) -> Measured:
    """Lint programs, then run them one after the other in one process.

    Args:
        programs: Their texts by file name.
        folder: An empty folder.
    """
    for name, text in programs.items():
        (folder / name).write_text(text)
    report = lint_files([folder / name for name in programs], root=folder, version="0")
    script = _FIXES / "lint" / "compile_programs.py"
    run_command("run", "-q", "--report", "all.json", script, *programs, cwd=folder, status=0)
    findings = json.loads((folder / "all.json").read_text())["findings"]
    places = [(one["code"], one["location"]["file"], one["location"]["line"]) for one in findings]
    reported = [(one.code, one.location.file, one.location.line) for one in report.findings]
    return Measured(_breaks(reported, programs), _breaks(places, programs))


def _breaks(places: Iterable[tuple[str, str, int]], programs: dict[str, str]) -> frozenset[Site]:
    """The sites of breaks in the programs; a skipped frame (GD111) has its break beside it."""
    return frozenset(
        (file, line)
        for code, file, line in places
        if file in programs and code.startswith("GD1") and code != "GD111"
    )
