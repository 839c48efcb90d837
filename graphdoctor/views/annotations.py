"""Annotations of a check, one list for the formats of other programs: SARIF, JUnit, GitHub.

Comes in: a ``CheckReport``. Goes out: annotations in plain text. The writers turn them
into their formats and decide which of them a format has room for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from graphdoctor.facts.check import (
    BaselineRun,
    Budget,
    CheckReport,
    Ignored,
    LintReport,
    TargetCheck,
    UnusedIgnore,
    WorseFinding,
)
from graphdoctor.facts.diagnosis import Finding, Severity
from graphdoctor.facts.stack import StackEntry
from graphdoctor.views import words
from graphdoctor.views.reasons import verdict_text
from graphdoctor.wording import counted, join_texts, times

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
    budget: Budget | None = None
    """The budget that isn't met; None for another kind."""


def annotations_of(report: CheckReport | LintReport) -> Iterator[Annotation]:
    """Annotate a check, target by target, then the run as a whole; or new findings of a lint report
    at their lines.
    """
    if isinstance(report, LintReport):
        yield from (_of_finding(finding, None) for finding in report.findings)
        for file in report.unreadable:
            place = f"{file.file}:{file.line}" if file.line else file.file
            error = f"{place} {file.message}."
            yield Annotation("run", "error", "graphdoctor lint", error, is_failing=True)
        return
    for target in report.targets:
        yield from _of_target(target)
    yield from (Annotation("note", "info", "graphdoctor", note) for note in report.notes)
    for unused in report.unused_ignores:
        what = f"ignore[{', '.join(unused.codes)}]" if unused.codes else "This ignore"
        message = f"{what} matches no finding."
        yield Annotation("ignore", "info", "Unused ignore", message, unused=unused)


def _of_target(target: TargetCheck) -> Iterator[Annotation]:
    name = target.name
    error = partial(Annotation, level="error", target=name, is_failing=True)
    for ended, why in ended_texts(target):
        yield error("run", title=f"{name} {ended}", message=why)
    if target.is_more_eager:
        eager = f"{'; '.join(more_eager_texts(target))}."
        yield error("eager", title=f"{name}: more runs eagerly", message=eager)
    for budget in target.budgets:
        if not budget.is_kept:
            title, said = f"{name}: {budget.name} not met", f"{', '.join(budget_texts(budget))}."
            yield error("budget", title=title, message=said, budget=budget)
    yield from (Annotation("note", "info", name, note, name) for note in baseline_notes(target))
    worse = {item.finding.fingerprint: worse_text(item) for item in target.worse}
    changed = {finding.fingerprint for finding in target.grown} | set(worse)
    failing = {finding.fingerprint for finding in target.failing}
    failing |= {item.finding.fingerprint for item in target.failing_worse}
    for finding in (*target.new, *target.known):
        print_ = finding.fingerprint
        state = "updated" if print_ in changed else "unchanged"
        yield _of_finding(
            finding,
            name,
            state=state if finding in target.known else "new",
            worse=worse.get(print_),
            is_failing=print_ in failing,
        )
    yield from (_of_finding(ignored.finding, name, ignored=ignored) for ignored in target.ignored)


def _of_finding(finding: Finding, target: str | None, **more: Any) -> Annotation:  # noqa: ANN401
    details = [f"Worse than in the baseline: {more['worse']}."] if more.get("worse") else []
    for fix in words.worth_trying(finding.fixes)[:1]:
        verdict = "" if fix.verdict == "not tried" else f" ({verdict_text(fix)})"
        details.append(f"Try: {words.fix_text(fix)}{verdict}")
        # The edit, or the code with a line above it that says where it goes.
        edit = fix.diff or fix.snippet or ""
        if not fix.diff and fix.snippet is not None and fix.place is not None:
            details.append(f"{words.place_text(fix.place)}:")
        details += edit.splitlines()
    details.append(f"Read more: graphdoctor rule {finding.code}")
    title = f"{finding.code} {finding.rule}"
    return Annotation(
        "finding", finding.severity, title, finding.message, target, finding, tuple(details), **more
    )


# What a check says beside its findings, which its own view shares.


def budget_texts(budget: Budget) -> tuple[str, str]:
    """Return the measured value, and the limit: ``must be at most 1``."""
    value, limit = words.UNKNOWN, f"{budget.limit:g}"
    if budget.name != "min-coverage":
        value = words.UNKNOWN if budget.value is None else f"{budget.value:g}"
        return value, f"must be at most {limit}"
    if budget.value is not None:
        value = words.percent_of_limit(budget.value, budget.limit)
    least = f"must be at least {words.percent_of_limit(budget.limit, budget.limit)}"
    return value, f"{least}, unless --min-coverage allows less" if budget.is_default else least


def ended_texts(target: TargetCheck) -> Iterator[tuple[str, str]]:
    """Say that a target crashed or failed as a whole, and why; nothing if it did neither."""
    if target.state == "crashed" or target.error is not None:
        yield (
            "crashed" if target.state == "crashed" else "failed",
            target.error or "It didn't run to the end.",
        )


def unused_texts(unused: UnusedIgnore) -> tuple[str, str, str]:
    """Return where an unused ignore is, what it ignores, and that it matches nothing."""
    place = unused.file if unused.line is None else f"{unused.file}:{unused.line}"
    what = f"ignore[{','.join(unused.codes)}]" if unused.codes else "ignore"
    return place, what, f"matches no finding{f': {unused.why}' if unused.why else ''}"


def worse_text(worse: WorseFinding) -> str:
    """Compare a known finding with the baseline, as a clause."""
    now, before = worse.finding, worse.before
    if worse.is_rise:
        return f"it happens {times(now.count)}; in the baseline {times(before.count)}"
    # What it did in the baseline too is no reason.
    effects, known = now.effects, {*before.skipped_frames, *before.rest_eager_frames}
    skipped = _quoted({*effects.skipped_frames}.difference(before.skipped_frames))
    rest = _quoted({*effects.rest_eager_frames}.difference(known))
    is_raised = "raised" in now.break_effects and "raised" not in (before.break_effects or ())
    does = join_texts(
        " and ",
        f"skips {skipped}" if skipped else None,
        f"runs the rest of {rest} eagerly" if rest else None,
        "raises an error" if is_raised else None,
    )
    return f"torch {does or 'resumes after the break'} now, unlike in the baseline"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def more_eager_texts(target: TargetCheck) -> Iterator[str]:
    """List what runs eagerly now and not in the baseline, whichever finding causes it."""
    if target.newly_eager:
        yield f"newly eager, unlike in the baseline: {_quoted(target.newly_eager)}"
    if (
        target.has_lost_coverage
        and target.diagnosis is not None
        and target.baseline_run is not None
    ):
        before, now = target.baseline_run, target.diagnosis.summary
        detail = now.coverage_detail
        share = words.share_text(now.coverage)
        if detail is not None:
            share += f" ({detail.eager_ops} of {detail.op_count} operations run eagerly)"
        was = f"{words.share_text(before.coverage)} ({before.eager_ops} of {before.op_count})"
        yield f"coverage is {share}; in the baseline it is {was}"


def run_changes(before: BaselineRun | None, now: BaselineRun) -> Iterator[str]:
    """List how a run differs from the baseline's; nothing if the baseline had none."""
    if before is None:
        return
    if before.calls != now.calls:
        yield f"calls: {before.calls} → {now.calls}"
    if before.graphs != now.graphs:
        yield f"graphs: {before.graphs} → {now.graphs}"
    if before.coverage != now.coverage:
        old, new = words.percents(before.coverage, now.coverage)
        yield f"coverage: {old} → {new}"
    yield from (
        f"now eager: {name}" for name in now.eager_functions if name not in before.eager_functions
    )


def baseline_notes(target: TargetCheck) -> Iterator[str]:
    """Say what limits the comparison with the baseline."""
    run = target.baseline_run
    if target.lacks_run:
        yield (
            "The baseline has findings alone: graphs, coverage and effects weren't compared."
            " graphdoctor baseline --update adds them."
        )
    elif (
        run is not None
        and target.diagnosis is not None
        and run.calls != target.diagnosis.summary.calls
    ):
        now = target.diagnosis.summary.calls
        yield (
            f"This run made {counted(now, 'call')}, the baseline's {run.calls}, so findings can"
            " differ for that."
        )


# Where a line is, for readers on other machines. Reads no file.


@dataclass(frozen=True)
class UriPath:
    """A file."""

    path: str
    base: Literal["SRCROOT", "PACKAGES"] | None

    @property
    def uri(self) -> str:
        """The path percent-encoded, with ``file:`` if it's absolute."""
        drive, path, scheme = "", self.path, ""
        if self.base is None and not path.startswith("//"):
            scheme = "file://"
            if _DRIVE.match(path):
                scheme, drive, path = "file:///", path[:2], path[2:]
        elif self.base is None:
            scheme = "file:"
        return f"{scheme}{drive}{quote(path, safe=_PLAIN, errors='replace')}"


def place_of(entry: StackEntry, root: Path | None) -> UriPath | None:
    """Return where a line is: a package's file by its path from the package on, which is the same
    in every environment.

    Absolute paths below ``root`` become relative to it. None for what isn't a file, such as
    ``<frozen os>``.
    """
    path, package = entry.file.replace("\\", "/"), entry.package
    if not path or path.startswith("<"):
        return None
    if package is not None:
        _, package_path, rest = path.rpartition(f"/{package}/")
        if package_path:
            return UriPath(f"{package}/{rest}", "PACKAGES")
        if path.endswith(f"/{package}.py"):
            return UriPath(f"{package}.py", "PACKAGES")
    return file_place(path, root)


def file_place(file: str, root: Path | None) -> UriPath:
    """Like ``place_of``, for a file that isn't in a package."""
    path = file.replace("\\", "/")
    if not path.startswith("/") and not _DRIVE.match(path):
        return UriPath(path.removeprefix("./"), "SRCROOT")
    top = None if root is None else f"{root.as_posix().rstrip('/')}/"
    if top is None or not path.startswith(top):
        return UriPath(path, None)
    return UriPath(path.removeprefix(top), "SRCROOT")


def project_line(finding: Finding, root: Path | None) -> tuple[str, StackEntry] | None:
    """Return the project's line to show a finding at: its own, or the innermost one that leads to
    it.

    Returns:
        The path, relative to the folder that graphdoctor ran in, and the line; None if no line is
        the project's.
    """
    lines = [finding.location, *reversed(finding.user_stack)]
    for line in lines:
        place = place_of(line, root)
        is_own = line.origin == "user" and line.line > 0
        if is_own and place is not None and place.base == "SRCROOT":
            return place.path, line
    return None
