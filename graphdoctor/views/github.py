"""A check as GitHub workflow commands, which become annotations on the lines of a pull request.

Comes in: a ``CheckReport``. Goes out: one ``::error …::…`` line for each annotation, to be printed by a step of a
workflow. For the job's summary, use Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from graphdoctor.facts.wording import counted, without_middle
from graphdoctor.views.places import file_place, project_line
from graphdoctor.views.printable import printable, printable_lines
from graphdoctor.views.words import (
    budget_text,
    more_eager_texts,
    suggested,
    worse_text,
    worth_trying,
    written_lines,
)

if TYPE_CHECKING:
    from graphdoctor.facts.check import CheckReport, TargetCheck
    from graphdoctor.facts.diagnosis import Finding, Severity

_SHOWN = 10
"""How many annotations of each kind GitHub shows for one step."""

_MOST_CHARACTERS = 800
"""Of a line."""

Level = Literal["error", "warning", "notice"]
"""GitHub's kinds of annotations."""

_ORDER: tuple[Level, ...] = ("error", "warning", "notice")
LEVELS: dict[Severity, Level] = {"error": "error", "warning": "warning", "info": "notice"}
"""The kind of annotation for each severity."""


@dataclass(frozen=True)
class Annotation:
    """One annotation.

    Args:
        level: Its kind.
        title: Its title.
        lines: What it says.
        file: Path in the repository; None for none.
        line: 1-based; None for the whole file.
        columns: First and last, 1-based; None for the whole line.
    """

    level: Level
    title: str
    lines: tuple[str, ...]
    file: str | None = None
    line: int | None = None
    columns: tuple[int, int | None] | None = None

    def command(self) -> str:
        """It as a workflow command."""
        properties: dict[str, object] = {}
        if self.file is not None:
            properties["file"] = self.file
        if self.line is not None:
            properties |= {"line": self.line, "endLine": self.line}
        if self.columns is not None:
            properties["col"] = self.columns[0]
            if self.columns[1] is not None:
                properties["endColumn"] = self.columns[1]
        properties["title"] = self.title
        listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
        return f"::{self.level} {listed}::{_data(self.lines)}"


def render_github(report: CheckReport, *, root: Path | None = None) -> str:
    """The commands, the worst first; empty if there is nothing to report.

    Args:
        report: What to write.
        root: The repository's folder, which the report's relative paths start from. A finding in a package is shown at
            the line below it that leads there.
    """
    return commands(_annotations(report, root))


def commands(annotations: Iterable[Annotation]) -> str:
    """Annotations as workflow commands, the worst first, with how many there are if GitHub doesn't show all.

    Args:
        annotations: In any order.
    """
    found = sorted(annotations, key=_rank)
    counts = {level: sum(annotation.level == level for annotation in found) for level in _ORDER}
    if any(count > _SHOWN for count in counts.values()):
        said = ", ".join(counted(count, level) for level, count in counts.items() if count)
        more = Annotation(
            "notice",
            "graphdoctor",
            (f"GitHub shows {_SHOWN} annotations of each kind; this step has {said}. Its log has all of them.",),
        )
        # The first notice, so GitHub shows it.
        found.insert(counts["error"] + counts["warning"], more)
    return "".join(annotation.command() + "\n" for annotation in found)


def _rank(annotation: Annotation) -> tuple[int, bool, str, int]:
    """By level; annotations without a line first, since they are about a whole target."""
    return (
        _ORDER.index(annotation.level),
        annotation.file is not None,
        annotation.file or "",
        annotation.line or 0,
    )


def _annotations(report: CheckReport, root: Path | None) -> Iterator[Annotation]:
    for target in report.targets:
        if target.state == "crashed":
            yield Annotation(
                "error", f"{target.name} crashed", error_lines(target.error or "It didn't run to the end.")
            )
        elif target.error is not None:
            yield Annotation("error", f"{target.name} failed", error_lines(target.error))
        if target.is_more_eager:
            for words in more_eager_texts(target):
                yield Annotation("error", f"{target.name}: more runs eagerly", (f"{words}.",))
        for budget in target.budgets:
            if not budget.is_kept:
                yield Annotation("error", f"{target.name}: {budget.name} not met", (f"{budget_text(budget)}.",))
    for finding, targets, worse in _by_place(report.targets):
        names = targets if len(report.targets) > 1 else []
        yield _of_finding(finding, names, worse, root)
    for unused in report.unused_ignores:
        what = f"ignore[{', '.join(unused.codes)}]" if unused.codes else "This ignore"
        place = file_place(unused.file, root)
        file = place.path if place.base == "SRCROOT" else None
        yield Annotation(
            "notice", "Unused ignore", (f"{what} matches no finding.",), file, (file and unused.line) or None
        )


def _by_place(targets: Sequence[TargetCheck]) -> Iterator[tuple[Finding, list[str], str | None]]:
    """New and worse findings, each once, with the names of its targets and how it is worse."""
    found: dict[tuple[str, str, int, str, str | None], tuple[Finding, list[str], str | None]] = {}
    for target in targets:
        listed = [(finding, None) for finding in target.new]
        for finding, worse in [*listed, *((item.finding, worse_text(item)) for item in target.worse)]:
            key = (finding.fingerprint, finding.severity, finding.location.line, finding.message, worse)
            found.setdefault(key, (finding, [], worse))[1].append(target.name)
    yield from found.values()


def _of_finding(finding: Finding, targets: Sequence[str], worse: str | None, root: Path | None) -> Annotation:
    lines = [finding.message, *([f"Worse than in the baseline: {worse}."] if worse else [])]
    location = finding.location
    place = project_line(finding, root)
    file, shown = place or (None, None)
    if shown is not location:
        lines.append(f"In {location.shown_file}:{location.line}, {location.function}.")
    for fix in worth_trying(finding.fixes)[:1]:
        lines += [f"Try: {suggested(fix)}", *written_lines(fix)]
    if targets:
        lines.append(f"Seen in {', '.join(targets)}.")
    lines.append(f"Read more: graphdoctor rule {finding.code}")
    return Annotation(
        LEVELS[finding.severity],
        f"{finding.code} {finding.rule}",
        tuple(lines),
        file,
        shown.line if shown is not None else None,
        (shown.column, shown.end_column) if shown is not None and shown.column is not None else None,
    )


def error_lines(error: str) -> tuple[str, ...]:
    """A text of several lines as what an annotation says."""
    return tuple(printable_lines(error).split("\n"))


def _data(lines: Sequence[str]) -> str:
    """A message as the runner decodes it (``actions/toolkit``, ``escapeData``)."""
    return (
        "\n".join(without_middle(printable(line), _MOST_CHARACTERS) for line in lines)
        .replace("%", "%25")
        .replace("\n", "%0A")
    )


def _property(text: str) -> str:
    """A property's value (``escapeProperty`` there)."""
    return _data([text]).replace(":", "%3A").replace(",", "%2C")
