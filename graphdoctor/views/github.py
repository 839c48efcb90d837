"""Annotations as GitHub workflow commands, which become annotations on the lines of a pull request.

Goes out: one ``::error …::…`` line for each, to be printed by a step of a workflow; its summary
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
    for found in annotations:
        if found.target is not None:
            names[found.target] = None
        if found.ignored is None and found.kind != "note" and (found.state == "new" or found.worse):
            line = found.finding and (found.finding.fingerprint, found.finding.location.line)
            key = (
                found.title if line is None else line,
                found.level,
                found.message,
                found.worse,
                found.unused,
            )
            targets.setdefault(key, (found, []))[1].append(found.target or "")
    told = [
        _command(found, seen if len(names) > 1 else [], root) for found, seen in targets.values()
    ]
    told.sort(key=lambda each: (list(_LEVELS).index(each[0]), *each[1:3]))
    counts = {level: sum(each[0] == level for each in told) for level in _LEVELS}
    lines = [command for *_, command in told]
    if any(count > _SHOWN for count in counts.values()):
        said = ", ".join(counted(count, _LEVELS[level]) for level, count in counts.items() if count)
        words = f"GitHub shows {_SHOWN} annotations of each kind; this step has {said}. Its log has all of them."
        # The first notice, so GitHub shows it.
        lines.insert(
            counts["error"] + counts["warning"], f"::notice title=graphdoctor::{_data([words])}"
        )
    return "".join(f"{line}\n" for line in lines)


def _command(
    found: Annotation, seen: list[str], root: Path | None
) -> tuple[Severity, str, int, str]:
    """An annotation's level, file and line, to sort it by, and its command; what has no file comes
    first.
    """
    properties: dict[str, object] = {}
    lines = printable_lines(found.message).split("\n") if found.finding is None else [found.message]
    if found.unused is not None:
        place = file_place(found.unused.file, root)
        if place.base == "SRCROOT":
            properties["file"] = place.path
            if found.unused.line is not None:
                properties |= {"line": found.unused.line, "endLine": found.unused.line}
    elif found.finding is not None:
        location = found.finding.location
        file, shown = project_line(found.finding, root) or (None, None)
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
    properties["title"] = found.title
    listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    command = f"::{_LEVELS[found.level]} {listed}::{_data([*lines, *found.details])}"
    return (
        found.level,
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
