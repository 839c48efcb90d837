"""Annotations as GitHub workflow commands, which become annotations on the lines of a pull request.

Goes out: one ``::error …::…`` line for command, to be printed by a step of a workflow; its summary
takes Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.facts.diagnosis import Severity
from graphdoctor.views.annotations import file_place, project_line
from graphdoctor.views.printable import printable, printable_lines
from graphdoctor.wording import counted, without_middle

if TYPE_CHECKING:
    from graphdoctor.views.annotations import Annotation


_SHOWN = 10
"""How many annotations of each kind GitHub shows for one step."""
_MOST_CHARACTERS = 800
"""Of a line."""
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}


def render_github(annotations: Iterable[Annotation], *, root: Path | None = None) -> str:
    """The commands, the worst first; empty if there is nothing to report.

    What is known and no worse, what is ignored and notes are left out. A finding of several targets
    is there once.
    """
    targets: dict[tuple[object, ...], tuple[Annotation, list[str]]] = {}
    names: dict[str, None] = {}
    for annotation in annotations:
        if annotation.target is not None:
            names[annotation.target] = None
        if (
            annotation.ignored is None
            and annotation.kind != "note"
            and (annotation.state == "new" or annotation.worse)
        ):
            line = annotation.finding and (
                annotation.finding.fingerprint,
                annotation.finding.location.line,
            )
            key = (
                annotation.title if line is None else line,
                annotation.level,
                annotation.message,
                annotation.worse,
                annotation.unused,
            )
            targets.setdefault(key, (annotation, []))[1].append(annotation.target or "")
    commands = [
        _command(annotation, seen if len(names) > 1 else [], root)
        for annotation, seen in targets.values()
    ]
    commands.sort(key=lambda command: (list(_LEVELS).index(command[0]), *command[1:3]))
    counts = {level: sum(command[0] == level for command in commands) for level in _LEVELS}
    lines = [command for *_, command in commands]
    if any(count > _SHOWN for count in counts.values()):
        said = ", ".join(counted(count, _LEVELS[level]) for level, count in counts.items() if count)
        words = f"GitHub shows {_SHOWN} annotations of each kind; this step has {said}. Its log has all of them."
        # The first notice, so GitHub shows it.
        lines.insert(
            counts["error"] + counts["warning"], f"::notice title=graphdoctor::{_data([words])}"
        )
    return "".join(f"{line}\n" for line in lines)


def _command(
    annotation: Annotation, seen: list[str], root: Path | None
) -> tuple[Severity, str, int, str]:
    """An annotation's level, file and line, to sort it by, and its command; what has no file comes
    first.
    """
    properties: dict[str, object] = {}
    lines = (
        printable_lines(annotation.message).split("\n")
        if annotation.finding is None
        else [annotation.message]
    )
    if annotation.unused is not None:
        place = file_place(annotation.unused.file, root)
        if place.base == "SRCROOT":
            properties["file"] = place.path
            if annotation.unused.line is not None:
                properties |= {"line": annotation.unused.line, "endLine": annotation.unused.line}
    elif annotation.finding is not None:
        location = annotation.finding.location
        file, shown = project_line(annotation.finding, root) or (None, None)
        if shown is not None:
            properties |= {"file": file, "line": shown.line, "endLine": shown.line}
            if shown.column is not None:
                columns = {"col": shown.column, "endColumn": shown.end_column}
                properties |= {
                    name: column for name, column in columns.items() if column is not None
                }
        if shown is not location:
            lines.append(f"In {location.shown}, {location.function}.")
        if seen:
            lines.append(f"Seen in {', '.join(seen)}.")
    properties["title"] = annotation.title
    listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    command = f"::{_LEVELS[annotation.level]} {listed}::{_data([*lines, *annotation.details])}"
    return (
        annotation.level,
        str(properties.get("file", "")),
        int(str(properties.get("line", 0))),
        command,
    )


def _data(lines: list[str]) -> str:
    """A message as the runner decodes it (``actions/toolkit``, ``escapeData``)."""
    shown = "\n".join(without_middle(printable(line), _MOST_CHARACTERS) for line in lines)
    return shown.replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    """A property's value (``escapeProperty`` there)."""
    return _data([text]).replace(":", "%3A").replace(",", "%2C")
