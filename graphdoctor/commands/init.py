"""``graphdoctor init``: a first ``[tool.graphdoctor]`` section."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphdoctor.commands.options import ProcessOptions, with_options
from graphdoctor.commands.running import this_project
from graphdoctor.commands.settings import PYPROJECT, TABLE, GateTarget, find_pyproject
from graphdoctor.commands.target_runs import TargetRun, run_all
from graphdoctor.commands.terminal import say, say_result
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.rules.gate.check import empty_text, trouble_of
from graphdoctor.trials.launch.discover import Discovered, discover

_LIMIT = 10
_HEAD = """\
[tool.graphdoctor]
# The least severity of a new finding that fails `graphdoctor check`: error, warning, info, or never
# (budgets only).
fail-on = "warning"
# own-code = true           # report findings in your own files only, not in packages
# ignore = ["GD107"]        # rules that don't count; graphdoctor rule lists them
# baseline = "graphdoctor-baseline.json"

# Rules that don't count in some files. On a single line: `# graphdoctor: ignore[GD101] why`.
# [tool.graphdoctor.per-path-ignores]
# "experiments/**" = ["GD1"]

# What `graphdoctor check` runs. Each target takes what `graphdoctor explain` has options for
# (inputs, calls, backend, mode, dynamic, fullgraph, options, regional, config, backward, train,
# no-grad, seed, device, dtype, batch, python, timeout), and budgets: max-breaks, max-recompiles,
# max-graphs, min-coverage. `graphdoctor init --measure` writes those that hold now.
"""
_EXAMPLE = """\
# [[tool.graphdoctor.targets]]
# name = "model"
# target = "model.py"       # or "model.py:Net", "model.py:make()", "package.module:name"
# inputs = ["f32[8,128]"]   # if the file has no example_inputs()
# max-breaks = 0
"""


@dataclass(frozen=True)
class Starter:
    """A section that can be added."""

    path: Path
    before: str
    section: str
    found: Discovered
    targets: tuple[GateTarget, ...]


def starter_section(folder: Path) -> Starter:
    """Look for targets in a project, importing nothing."""
    path = find_pyproject(folder) or folder / PYPROJECT
    before = _checked(path)
    found = discover(path.parent, limit=_LIMIT)
    targets: dict[str, GateTarget] = {}
    for candidate in found.ready:
        name = _name(candidate.target, targets)
        targets[name] = GateTarget(RunSpec(target=candidate.target), name=name)
    chosen = tuple(targets.values())
    return Starter(path, before, "".join(_section(found, chosen, {})), found, chosen)


def with_budgets(starter: Starter, ran: Sequence[TargetRun]) -> Starter:
    """Return the section with budgets that are kept now."""
    budgets = {found.target.name: "".join(_budgets(found)) for found in ran}
    return replace(starter, section="".join(_section(starter.found, starter.targets, budgets)))


def _budgets(ran: TargetRun) -> Iterator[str]:
    error: str | None = ran.error
    if ran.diagnosis is not None:
        error = trouble_of(ran.diagnosis) or empty_text(ran.diagnosis, None)
    if ran.diagnosis is None or error is not None:
        yield f"# Not measured: {_comment(error or '')}\n"
        return
    summary = ran.diagnosis.summary
    torch = _comment(ran.diagnosis.recording.environment.torch or "")
    yield f"# Measured with torch {torch}: tighten them when something is fixed.\n"
    yield f"max-breaks = {summary.break_sites}\n"
    yield f"max-recompiles = {summary.recompiles}\n"
    yield f"max-graphs = {summary.graphs}\n"
    if summary.coverage is not None:
        # Rounded down, so that it holds.
        yield f"min-coverage = {math.floor(summary.coverage * 100) / 100:g}\n"


def add_section(starter: Starter) -> None:
    """Add the section at the end of the file; what is there stays byte by byte."""
    path, before = starter.path, starter.before
    newline = "\r\n" if "\r\n" in before else "\n"
    gap = "" if not before else newline if before.endswith("\n") else newline * 2
    added = gap + starter.section.replace("\n", newline)
    try:
        tomllib.loads((before + added).replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise GraphDoctorError(
            f"{path} can't take a section at its end: {error}.",
            hint=(
                "Write [tool] as a table of its own, or add what graphdoctor init --stdout shows by"
                " hand."
            ),
        ) from error
    is_new = not path.exists()
    try:
        with path.open("ab") as file:
            file.write(added.encode())
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink() if is_new else os.truncate(path, len(before.encode()))
        raise GraphDoctorError(f"{path} can't be written: {error.strerror}.") from error


def _checked(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8") if path.exists() else ""
        document = tomllib.loads(text.replace("\r\n", "\n"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise GraphDoctorError(f"{path} can't be read: {error}.") from error
    tool = document.get("tool", {})
    if isinstance(tool, dict) and TABLE in tool:
        raise GraphDoctorError(
            f"{path} already has a [tool.{TABLE}] section.",
            hint="graphdoctor init --stdout shows what it would add.",
        )
    return text


def _section(
    discovered: Discovered, targets: Sequence[GateTarget], budgets: Mapping[str, str]
) -> Iterator[str]:
    yield _HEAD
    for candidate, target in zip(discovered.ready, targets, strict=True):
        yield f"\n[[tool.graphdoctor.targets]]  # {candidate.why}\n"
        yield f"name = {_toml(target.name)}\ntarget = {_toml(candidate.target)}\n"
        yield budgets.get(target.name, "")
    for candidate in discovered.without_inputs:
        yield (
            f"\n# {_comment(candidate.target)} {candidate.why}. To check it, say what to call it"
            " with:\n"
        )
        yield "# [[tool.graphdoctor.targets]]\n"
        yield f'# target = {_toml(candidate.target)}\n# inputs = ["f32[8,128]"]\n'
    if not discovered.ready and not discovered.without_inputs:
        yield "\n" + _EXAMPLE


def _name(target: str, taken: Collection[str]) -> str:
    parts = target.removesuffix(".py").split("/")
    for length in range(1, len(parts) + 1):
        name = "-".join(parts[-length:])
        if name not in taken:
            return name
    return target


def _toml(text: str) -> str:
    """Return a basic string: JSON's escapes are TOML's too, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _comment(text: str) -> str:
    """Return text that can't end a comment."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)


@with_options
def init(
    is_shown_only: bool = option(
        False, "Print the section to standard output and write nothing.", flag="--stdout"
    ),
    is_measured: bool = option(
        False, "Run each target that was found, and write budgets that hold now.", flag="--measure"
    ),
) -> None:
    """Find targets in the project's source and add a config section.

    The section goes into pyproject.toml. Nothing of the project is imported, except with --measure.

    Examples:
        graphdoctor init --stdout: only print the section
        graphdoctor init --measure: with limits that hold now
    """
    starter = starter_section(Path.cwd())
    if is_measured and starter.targets:
        project = replace(this_project(), root=starter.path.parent, targets=starter.targets)
        starter = with_budgets(starter, run_all(starter.targets, project, ProcessOptions()))
    if is_shown_only:
        sys.stdout.write(starter.section)
        return
    add_section(starter)
    _summarize(starter)


def _summarize(starter: Starter) -> None:
    say(f"Wrote [tool.graphdoctor] to {starter.path}")
    for candidate in starter.found.ready:
        say_result(f"{candidate.target}  {candidate.why}")
    for candidate in starter.found.without_inputs:
        say(f"Left out {candidate.target}: it {candidate.why}. The section says what to add.")
    if starter.found.ready:
        say("Next: graphdoctor check")
    else:
        say("Found no target that can be run as it is: name one in the section.")
