"""What a check says of lines and targets, as one list for the formats of other programs: SARIF, JUnit, GitHub.

Comes in: a ``CheckReport``. Goes out: annotations in plain text. The writers turn them
into their formats and decide which of them a format has room for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from graphdoctor.views import words

if TYPE_CHECKING:
    from graphdoctor.facts.check import CheckReport, Ignored, TargetCheck, UnusedIgnore
    from graphdoctor.facts.diagnosis import Finding, Location, Severity
    from graphdoctor.facts.stack import StackEntry

_DRIVE = re.compile(r"[A-Za-z]:/")
# Characters that a path may contain unescaped (RFC 3986), except a colon, which could end a scheme.
_PLAIN = "/~!$&'()*+,;=@"


@dataclass(frozen=True)
class Annotation:
    """One thing to say, at a finding's line, of a target or of the run as a whole."""

    kind: Literal["finding", "run", "eager", "budget", "note", "ignore"]
    level: Severity
    title: str
    message: str
    """May have several lines."""
    target: str | None = None
    """The check's target that it is about; None for the run as a whole."""
    finding: Finding | None = None
    """The finding, for its place and its edits; None for another kind."""
    details: tuple[str, ...] = ()
    """Lines below a finding's message: how it is worse, what to try, where to read more."""
    state: Literal["new", "unchanged", "updated"] = "new"
    """Beside the baseline."""
    worse: str | None = None
    """How a known finding is worse than in the baseline; None if it isn't."""
    is_failing: bool = False
    ignored: Ignored | None = None
    """Why it doesn't count; None if it does."""
    unused: UnusedIgnore | None = None
    """The ignore that matches nothing, for its place."""


def annotations_of(report: CheckReport) -> Iterator[Annotation]:
    """What a check says, target by target, then of the run as a whole."""
    for target in report.targets:
        yield from _of_target(target)
    yield from (Annotation("note", "info", "graphdoctor", note) for note in report.notes)
    for unused in report.unused_ignores:
        what = f"ignore[{', '.join(unused.codes)}]" if unused.codes else "This ignore"
        yield Annotation("ignore", "info", "Unused ignore", f"{what} matches no finding.", unused=unused)


def _of_target(target: TargetCheck) -> Iterator[Annotation]:
    name = target.name
    if target.state == "crashed":
        error = target.error or "It didn't run to the end."
        yield Annotation("run", "error", f"{name} crashed", error, name, is_failing=True)
    elif target.error is not None:
        yield Annotation("run", "error", f"{name} failed", target.error, name, is_failing=True)
    if target.is_more_eager:
        eager = "; ".join(words.more_eager_texts(target))
        yield Annotation("eager", "error", f"{name}: more runs eagerly", f"{eager}.", name, is_failing=True)
    for budget in target.budgets:
        if not budget.is_kept:
            title = f"{name}: {budget.name} not met"
            yield Annotation(
                "budget",
                "error",
                title,
                f"{words.budget_value(budget)}, {words.budget_limit(budget)}.",
                name,
                is_failing=True,
            )
    yield from (Annotation("note", "info", name, note, name) for note in words.baseline_notes(target))
    worse = {item.finding.fingerprint: words.worse_text(item) for item in target.worse}
    changed = {finding.fingerprint for finding in target.grown} | set(worse)
    failing = {finding.fingerprint for finding in target.failing}
    failing |= {item.finding.fingerprint for item in target.failing_worse}
    for finding in (*target.new, *target.known):
        is_known, is_changed = finding in target.known, finding.fingerprint in changed
        yield _of_finding(
            finding,
            target=name,
            state=("updated" if is_changed else "unchanged") if is_known else "new",
            worse=worse.get(finding.fingerprint),
            is_failing=finding.fingerprint in failing,
        )
    yield from (_of_finding(each.finding, target=name, ignored=each) for each in target.ignored)


def _of_finding(
    finding: Finding,
    *,
    target: str,
    state: Literal["new", "unchanged", "updated"] = "new",
    worse: str | None = None,
    is_failing: bool = False,
    ignored: Ignored | None = None,
) -> Annotation:
    details = [f"Worse than in the baseline: {worse}."] if worse else []
    for fix in words.worth_trying(finding.fixes)[:1]:
        details += [f"Try: {words.suggested(fix)}", *words.written_lines(fix)]
    return Annotation(
        "finding",
        finding.severity,
        f"{finding.code} {finding.rule}",
        finding.message,
        target,
        finding,
        (*details, f"Read more: graphdoctor rule {finding.code}"),
        state,
        worse,
        is_failing,
        ignored,
    )


# Where a line is, for readers on other machines. Reads no file.


@dataclass(frozen=True)
class Place:
    """A file."""

    path: str
    base: Literal["SRCROOT", "PACKAGES"] | None

    @property
    def uri(self) -> str:
        """The path percent-encoded, with ``file:`` if it's absolute."""
        if self.base is not None:
            return _quoted(self.path)
        if self.path.startswith("//"):
            return "file:" + _quoted(self.path)
        if _DRIVE.match(self.path):
            return f"file:///{self.path[:2]}{_quoted(self.path[2:])}"
        return "file://" + _quoted(self.path)


def place_of(found: Location | StackEntry, root: Path | None) -> Place | None:
    """Where a line is: a package's file by its path from the package on, which is the same in every environment.

    Absolute paths below ``root`` become relative to it. None for what isn't a file, such as ``<frozen os>``.
    """
    path = found.file.replace("\\", "/")
    if not path or path.startswith("<"):
        return None
    if found.package is not None and (inside := _in_package(path, found.package)):
        return Place(inside, "PACKAGES")
    return file_place(path, root)


def file_place(file: str, root: Path | None) -> Place:
    """Like ``place_of``, for a file that isn't in a package."""
    path = file.replace("\\", "/")
    if not path.startswith("/") and not _DRIVE.match(path):
        return Place(path.removeprefix("./"), "SRCROOT")
    top = None if root is None else root.as_posix().rstrip("/") + "/"
    if top is not None and path.startswith(top):
        return Place(path.removeprefix(top), "SRCROOT")
    return Place(path, None)


def project_line(finding: Finding, root: Path | None) -> tuple[str, Location | StackEntry] | None:
    """The project's line to show a finding at: its own, or the innermost one that leads to it.

    Returns:
        The path, relative to the folder that graphdoctor ran in, and the line; None if no line is the project's.
    """
    lines: list[Location | StackEntry] = [finding.location, *reversed(finding.user_stack)]
    for found in lines:
        place = place_of(found, root)
        if found.origin == "user" and place is not None and place.base == "SRCROOT" and found.line > 0:
            return place.path, found
    return None


def _in_package(path: str, package: str) -> str | None:
    _, found, rest = path.rpartition(f"/{package}/")
    if found:
        return f"{package}/{rest}"
    return f"{package}.py" if path.endswith(f"/{package}.py") else None


def _quoted(path: str) -> str:
    return quote(path, safe=_PLAIN, errors="replace")
