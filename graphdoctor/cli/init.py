"""``graphdoctor init``: a first ``[tool.graphdoctor]`` section."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphdoctor.capture.discover import Discovered

_LIMIT = 10
_HEAD = """\
[tool.graphdoctor]
# The least severity of a new finding that fails `graphdoctor check`: error, warning, info, or never (budgets alone do).
fail-on = "warning"
# own-code = true           # findings in your own files only, not in packages
# ignore = ["GD107"]        # rules that do not count; graphdoctor rule --all lists them
# baseline = "graphdoctor-baseline.json"

# Rules that do not count in some files. On a single line: `# graphdoctor: ignore[GD101] why`.
# [tool.graphdoctor.per-path-ignores]
# "experiments/**" = ["GD1"]

# What `graphdoctor check` runs. Each target takes what `graphdoctor explain` has flags for (inputs, calls, backend,
# mode, dynamic, fullgraph, options, config, backward, train, no-grad, seed, device, python, timeout), and budgets:
# max-breaks, max-recompiles, max-graphs, min-coverage.
"""
_EXAMPLE = """\
# [[tool.graphdoctor.targets]]
# name = "model"
# target = "model.py"       # or "model.py:Net", "model.py:make()", "package.module:name"
# inputs = ["f32[8,128]"]   # where the file has no example_inputs()
# max-breaks = 0
"""


def init(
    is_shown_only: Annotated[
        bool, typer.Option("--stdout", help="Show the section on standard output and write nothing.")
    ] = False,
) -> None:
    """Look for targets in the project, importing nothing, and add a commented section to pyproject.toml."""
    from graphdoctor.capture.discover import discover
    from graphdoctor.config.settings import PYPROJECT, find_pyproject

    path = find_pyproject(Path.cwd()) or Path.cwd() / PYPROJECT
    before = _checked(path)
    found = discover(path.parent, limit=_LIMIT)
    section = "".join(_section(found))
    if is_shown_only:
        sys.stdout.write(section)
        return
    _append(path, before, section)
    _say(path, found)


def _checked(path: Path) -> str:
    """The file's text, which has no section yet.

    Raises:
        GraphDoctorError: It cannot be read, or it has one.
    """
    from graphdoctor.config.settings import TABLE

    try:
        text = path.read_bytes().decode("utf-8") if path.exists() else ""
        document = tomllib.loads(text.replace("\r\n", "\n"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise GraphDoctorError(f"{path} cannot be read: {error}.") from error
    tool = document.get("tool", {})
    if isinstance(tool, dict) and TABLE in tool:
        raise GraphDoctorError(
            f"{path} has a [tool.{TABLE}] section already.", hint="graphdoctor init --stdout shows what would be new."
        )
    return text


def _section(found: Discovered) -> Iterator[str]:
    yield _HEAD
    names: set[str] = set()
    for candidate in found.ready:
        name = _name(candidate.target, names)
        names.add(name)
        yield f"\n[[tool.graphdoctor.targets]]  # {candidate.why}\n"
        yield f"name = {_toml(name)}\ntarget = {_toml(candidate.target)}\n"
    for candidate in found.compiled:
        yield f"\n# {_comment(candidate.target)} {candidate.why}. To check it, say what it is called with:\n"
        yield "# [[tool.graphdoctor.targets]]\n"
        yield f'# target = {_toml(candidate.target)}\n# inputs = ["f32[8,128]"]\n'
    if not found.ready and not found.compiled:
        yield "\n" + _EXAMPLE


def _name(target: str, taken: set[str]) -> str:
    """The file's name, with as much of its folders as tells it from the others."""
    parts = target.removesuffix(".py").split("/")
    for length in range(1, len(parts) + 1):
        name = "-".join(parts[-length:])
        if name not in taken:
            return name
    return target


def _toml(text: str) -> str:
    """A basic string: JSON's escapes are TOML's too, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _comment(text: str) -> str:
    """Text that cannot end a comment."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)


def _append(path: Path, before: str, section: str) -> None:
    """Add the section at the end; what stands before it stays byte by byte.

    Raises:
        GraphDoctorError: The file would not be valid, or cannot be written.
    """
    newline = "\r\n" if "\r\n" in before else "\n"
    gap = "" if not before else newline if before.endswith("\n") else newline * 2
    added = gap + section.replace("\n", newline)
    try:
        tomllib.loads((before + added).replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise GraphDoctorError(
            f"{path} cannot take a section at its end: {error}.",
            hint="Write [tool] as a table of its own, or add what graphdoctor init --stdout shows by hand.",
        ) from error
    try:
        with path.open("ab") as file:
            file.write(added.encode())
    except OSError as error:
        raise GraphDoctorError(f"{path} cannot be written: {error.strerror}.") from error


def _say(path: Path, found: Discovered) -> None:
    from graphdoctor.render.printable import printable

    print(printable(f"Wrote [tool.graphdoctor] to {path}"), file=sys.stderr)
    for candidate in found.ready:
        print(printable(f"{candidate.target}  {candidate.why}"))
    if found.ready:
        print("Next: graphdoctor check, then graphdoctor baseline to allow what is there now.", file=sys.stderr)
    else:
        print("No target was found that needs nothing more: name one in the section.", file=sys.stderr)
