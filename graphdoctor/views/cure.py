"""A cure on the terminal: the answer, what was tried on the way, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from graphdoctor.facts.command import command_line
from graphdoctor.facts.cure import AS_IT_WAS, CURED
from graphdoctor.facts.wording import factor_text
from graphdoctor.views.bench_words import interval_text, noise_text, seconds_text
from graphdoctor.views.terminal_lines import Code, Command, Prose, clean, diff_text, labeled_rows, write
from graphdoctor.views.words import applied_snippets, changes, first_sentence

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.cure import CureReport, CureStep, StepOutcome

_TONES: dict[str, str] = {CURED: "bold green", AS_IT_WAS: "bold green", "eager": "bold yellow"}
_STYLES: dict[StepOutcome, str] = {"kept": "green", "wrong": "red", "failed": "red"}


def render_cure(report: CureReport, console: Console, *, is_verbose: bool = False, is_written: bool = False) -> None:
    """Write a cure to a terminal.

    Args:
        report: What to show.
        console: Where to.
        is_verbose: Show the whole patch; otherwise its changed lines.
        is_written: The edits are being written.
    """
    for renderable in _report(report, is_verbose=is_verbose, is_written=is_written):
        write(console, renderable)


def _report(report: CureReport, *, is_verbose: bool, is_written: bool) -> Iterator[RenderableType]:
    target, environment = report.target, report.environment
    title = clean(target.text or "a program", "bold")
    parts = [f"torch {environment.torch}", environment.device_name or "CPU", *changes(target)]
    title.append_text(clean(f" · {' · '.join(parts)}", "dim"))
    yield title
    yield Text()
    yield clean(report.text, _TONES[report.best] if report.best else "bold red")
    if report.noise is not None:
        yield clean(noise_text(report.noise), "dim")
    if report.steps:
        yield Text()
        yield clean("Tried, each on top of what was kept", "bold")
        yield labeled_rows((step.outcome, _step(step)) for step in report.steps)
    todo = [*_todo(report, is_verbose=is_verbose, is_written=is_written)]
    if todo and report.best == CURED:
        yield Text()
        yield clean("Do this", "bold")
        yield labeled_rows((f"{number}", row) for number, row in enumerate(todo, start=1))
    findings = (report.cured or report.as_it_was).findings
    if findings:
        yield Text()
        yield clean("What still holds it back", "bold")
        yield labeled_rows((finding.code, clean(first_sentence(finding.message))) for finding in findings)
    spent = f"{report.spent_s:.0f} of {report.budget_s:.0f} s"
    yield Text()
    yield clean(f"Searched for {spent}.{_more(report.steps)}", "dim")


def _step(step: CureStep) -> Text:
    text = clean(step.name, _STYLES.get(step.outcome, ""))
    details = []
    if step.speedup is not None:
        details.append(f"{factor_text(step.speedup.ratio)} ({interval_text(step.speedup)}) beside the best before it")
    if step.compile_cold_s is not None and step.compile_before_s is not None:
        details.append(f"compile {seconds_text(step.compile_before_s)} → {seconds_text(step.compile_cold_s)}")
    if step.reason:
        details.append(step.reason)
    if details:
        text.append_text(clean(f": {'; '.join(details)}", "dim"))
    return text


def _todo(report: CureReport, *, is_verbose: bool, is_written: bool) -> Iterator[RenderableType]:
    if report.diff:
        command = command_line(report.target, "cure", "--apply")
        how: list[RenderableType] = []
        if is_written:
            how.append(clean("These edits are being written:"))
        elif command is not None:
            how += [clean("Write the edits, which were verified:"), Command(command)]
        yield Group(*how, diff_text(report.diff, is_whole=is_verbose))
    if report.treatment is not None and (report.settings or report.calls):
        for place, snippet in applied_snippets(report.treatment):
            yield Group(Prose(clean(f"{place}:" if place else "Set yourself:")), Code(snippet))
    if report.compile_lines:
        yield Group(Prose(clean("Compile it so:")), Code("\n".join(report.compile_lines)))


def _more(steps: Sequence[CureStep]) -> str:
    late = [step for step in steps if step.outcome == "skipped" and step.is_late]
    return " More time would try more: --budget SECONDS." if late else ""
