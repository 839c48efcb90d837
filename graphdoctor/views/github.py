"""Annotations as GitHub workflow commands, which become annotations on the lines of a pull request.

Goes out: one ``::error …::…`` line for each annotation, to be printed by a step of a workflow; its
summary takes Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphdoctor.facts.base import grouped
from graphdoctor.facts.check import CheckReport, LintReport
from graphdoctor.facts.diagnosis import Severity
from graphdoctor.views.annotations import Annotation, annotations_of, file_place, project_line
from graphdoctor.views.printable import printable, printable_lines
from graphdoctor.wording import counted, without_middle

_SHOWN = 10
"""How many annotations of each kind GitHub shows for one step."""
_MOST_CHARACTERS = 800
"""Of a line."""
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}


def render_github(report: CheckReport | LintReport, *, root: Path | None = None) -> str:
    """Return the commands, the worst first; empty if there is nothing to report.

    What is known and no worse, what is ignored and notes are left out. A finding of several targets
    is there once.
    """
    annotations = list(annotations_of(report))
    names = {annotation.target for annotation in annotations} - {None}
    shown = []
    for annotation in annotations:
        is_news = annotation.state == "new" or annotation.worse
        if annotation.ignored is None and annotation.kind != "note" and is_news:
            what: object = annotation.title
            if (finding := annotation.finding) is not None:
                what = (finding.fingerprint, finding.location.line)
            more = (annotation.message, annotation.worse, annotation.unused)
            shown.append(((what, annotation.level, *more), annotation))
    commands = []
    for alike in grouped(shown).values():
        targets = [annotation.target or "" for annotation in alike]
        commands.append(_command(alike[0], targets if len(names) > 1 else [], root))
    commands.sort(key=lambda command: (list(_LEVELS).index(command[0]), *command[1:3]))
    lines = [command for *_, command in commands]
    levels = [level for level, *_ in commands]
    counts = {level: levels.count(level) for level in _LEVELS if level in levels}
    if any(count > _SHOWN for count in counts.values()):
        said = ", ".join(counted(count, _LEVELS[level]) for level, count in counts.items())
        text = (
            f"GitHub shows {_SHOWN} annotations of each kind; this step has {said}. Its log has all"
            " of them."
        )
        # The first notice, so GitHub shows it.
        at = sum(level != "info" for level in levels)
        lines.insert(at, f"::notice title=graphdoctor::{_data([text])}")
    return "".join(f"{line}\n" for line in lines)


def _command(
    annotation: Annotation, targets: Sequence[str], root: Path | None
) -> tuple[Severity, str, int, str]:
    """Return an annotation's level, file and line, to sort it by, and its command; what has no file
    comes first.
    """
    file, line, columns = "", 0, dict[str, int | None]()
    finding, unused = annotation.finding, annotation.unused
    lines = [annotation.message]
    if finding is None:
        lines = printable_lines(annotation.message).split("\n")
    if unused is not None:
        place = file_place(unused.file, root)
        if place.base == "SRCROOT":
            file, line = place.path, unused.line or 0
    elif finding is not None:
        shown = project_line(finding, root)
        if shown is not None:
            file, line = shown[0], shown[1].line
            if shown[1].column is not None:
                columns = {"col": shown[1].column, "endColumn": shown[1].end_column}
        if shown is None or shown[1] is not finding.location:
            lines.append(f"In {finding.location.shown}, {finding.location.function}.")
        if targets:
            lines.append(f"Seen in {', '.join(targets)}.")
    properties = {"file": file, "line": line, "endLine": line, **columns, "title": annotation.title}
    # As the runner decodes them (``actions/toolkit``, ``escapeProperty``).
    listed = ",".join(
        f"{name}={_data([str(value)]).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
        if value or name == "title"
    )
    command = f"::{_LEVELS[annotation.level]} {listed}::{_data([*lines, *annotation.details])}"
    return annotation.level, file, line, command


def _data(lines: Sequence[str]) -> str:
    """Return a message as the runner decodes it (``escapeData`` there)."""
    shown = "\n".join(without_middle(printable(line), _MOST_CHARACTERS) for line in lines)
    return shown.replace("%", "%25").replace("\n", "%0A")
