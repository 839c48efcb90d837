"""A check on the terminal: one line for each target, then what failed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rich.table import Table
from rich.text import Text

from graphdoctor.facts.wording import counted, times
from graphdoctor.views.cards import finding_card
from graphdoctor.views.terminal_lines import clean, labeled_rows, write
from graphdoctor.views.words import (
    baseline_notes,
    budget_text,
    check_verdict,
    clusters,
    finding_line,
    more_eager_texts,
    share_text,
    unused_text,
    worse_text,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.check import BaselineEntry, CheckReport, TargetCheck, WorseFinding
    from graphdoctor.facts.diagnosis import Finding, Summary

_STYLES = {"passed": "bold green", "failed": "bold red", "crashed": "bold magenta"}
_MAX_LINES = 20
_Label = Literal["worse", "eager", "note", "fixed", "more", "known", "ignored"]
_UPDATE = "graphdoctor baseline --update"


def render_check(report: CheckReport, console: Console, *, is_verbose: bool = False) -> None:
    """Write a check to a terminal.

    Args:
        report: What to show.
        console: Where to.
        is_verbose: Add torch's full messages, findings below ``fail_on``, and known and ignored ones.
    """
    if report.targets:
        write(console, _table(report.targets))
    for target in report.targets:
        for renderable in _details(target, has_baseline=report.baseline is not None, is_verbose=is_verbose):
            write(console, renderable)
    for renderable in _closing(report, is_verbose=is_verbose):
        write(console, renderable)


def _table(targets: Sequence[TargetCheck]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for target in targets:
        grid.add_row(Text(target.state, _STYLES[target.state]), clean(target.name, "bold"), _outcome(target))
    return grid


def _outcome(target: TargetCheck) -> Text:
    if target.state == "crashed":
        return clean(target.error or "", "magenta")
    parts = []
    if target.error:
        parts.append(target.error.rstrip("."))
    if target.failing:
        parts.append(counted(len(target.failing), "new finding"))
    parts += [f"{budget.name}: {budget_text(budget)}" for budget in target.budgets if not budget.is_kept]
    if target.failing_worse:
        parts.append(f"{len(target.failing_worse)} worse")
    if target.is_more_eager:
        parts.append("more runs eagerly")
    below = len(target.new) - len(target.failing)
    for number, what in (
        (below, f"new below {target.fail_on}" if target.fail_on != "never" else "new"),
        (len(target.known), "known"),
        (len(target.grown), "more frequent"),
        (len(target.ignored), "ignored"),
        (len(target.fixed), "fixed"),
    ):
        if number:
            parts.append(f"{number} {what}")
    text = clean(", ".join(parts))
    if target.diagnosis is not None:
        text.append(" · " if parts else "").append(_counts(target.diagnosis.summary), "dim")
    return text


def _counts(summary: Summary) -> str:
    parts = [counted(summary.graphs, "graph"), counted(summary.break_sites, "break site")]
    parts += [counted(summary.recompiles, "recompile")] if summary.recompiles else []
    return ", ".join([*parts, f"coverage {share_text(summary.coverage)}"])


def _details(target: TargetCheck, *, has_baseline: bool, is_verbose: bool) -> Iterator[RenderableType]:
    if target.hint:
        yield Text()
        yield labeled_rows([(target.name, clean(target.hint))])
    shown = target.new if is_verbose else target.failing
    worse = [item.finding for item in (target.worse if is_verbose else target.failing_worse)]
    for cluster in clusters([*shown, *worse]):
        yield Text()
        yield from finding_card(cluster, is_verbose=is_verbose)
    rows = list(_rows(target, has_baseline=has_baseline, is_verbose=is_verbose))
    if rows:
        yield Text()
        yield clean(target.name, "bold")
        yield labeled_rows(rows)


def _rows(target: TargetCheck, *, has_baseline: bool, is_verbose: bool) -> Iterator[tuple[str, Text]]:
    if target.is_other_torch and target.diagnosis is not None:
        running = target.diagnosis.environment.torch
        words = f"compared with the baseline for torch {target.baseline_torch}; this run uses torch {running}"
        if target.new or target.fixed:
            words += (
                f", so new and fixed findings may come from the upgrade. {_UPDATE} adds this version to the baseline"
            )
        yield "torch", clean(words)
    elif has_baseline and target.baseline_torch is None and target.failing:
        yield "baseline", Text("has no entry for this target, so all of its findings are new")
    yield from _listed("worse", [_worse(item) for item in target.worse], is_verbose=is_verbose)
    yield from _listed("eager", list(more_eager_texts(target)), is_verbose=is_verbose)
    yield from _listed("note", list(baseline_notes(target)), is_verbose=True)
    if target.fixed:
        yield from _listed("fixed", [_entry(entry) for entry in target.fixed], is_verbose=is_verbose)
    worse = {item.finding.fingerprint for item in target.worse}
    more = [_grown(finding) for finding in target.grown if finding.fingerprint not in worse]
    yield from _listed("more", more, is_verbose=is_verbose)
    if is_verbose:
        yield from _listed("known", [finding_line(finding) for finding in target.known], is_verbose=True)
        ignored = [
            f"{finding_line(item.finding)}  by {item.by}{f': {item.reason}' if item.reason else ''}"
            for item in target.ignored
        ]
        yield from _listed("ignored", ignored, is_verbose=True)


def _listed(
    label: Literal["worse", "eager", "note", "fixed", "more", "known", "ignored"],
    lines: Sequence[str],
    *,
    is_verbose: bool,
) -> Iterator[tuple[str, Text]]:
    shown = lines if is_verbose else lines[:_MAX_LINES]
    for line in shown:
        yield label, clean(line)
    if len(lines) > len(shown):
        yield label, Text(f"and {len(lines) - len(shown)} more (-v shows all)", "dim")


def _entry(entry: BaselineEntry) -> str:
    return f"{entry.code} {entry.file} in {entry.function}  {entry.text or entry.message}"


def _worse(item: WorseFinding) -> str:
    return finding_line(item.finding, worse_text(item))


def _grown(finding: Finding) -> str:
    return f"{finding_line(finding)}, now {times(finding.count)}"


def _closing(report: CheckReport, *, is_verbose: bool) -> Iterator[RenderableType]:
    rows: list[tuple[str, Text]] = [("skipped", clean(name)) for name in report.skipped]
    unused = report.unused_ignores if is_verbose else report.unused_ignores[:_MAX_LINES]
    rows += [("unused", clean(unused_text(ignore))) for ignore in unused]
    if len(unused) < len(report.unused_ignores):
        rows.append(("unused", Text(f"and {len(report.unused_ignores) - len(unused)} more (-v shows all)", "dim")))
    rows += [("note", clean(note)) for note in report.notes]
    if rows:
        yield Text()
        yield labeled_rows(rows)
    next_step = _next_step(report)
    is_short = [target.state for target in report.targets] == ["passed"] and not (rows or next_step)
    if not is_short:
        yield Text()
    yield _verdict(report)
    if next_step:
        yield Text(next_step, "dim")


def _verdict(report: CheckReport) -> Text:
    states = {target.state for target in report.targets}
    style = "bold" if not states else "bold green" if states == {"passed"} else "bold red"
    return Text(f"{check_verdict(report)}.", style)


def _next_step(report: CheckReport) -> str | None:
    if any(target.fixed for target in report.targets if not target.is_other_torch):
        return f"{_UPDATE} removes the fixed findings."
    if report.baseline is None and any(target.failing for target in report.targets):
        return "graphdoctor baseline accepts the current findings, so that only new ones fail."
    return None
