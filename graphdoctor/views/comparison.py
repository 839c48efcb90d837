"""Two diagnoses side by side: differences between the runs, the numbers, then new, gone and common findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.wording import counted
from graphdoctor.views.cards import finding_card
from graphdoctor.views.terminal_lines import clean, labeled_rows, write
from graphdoctor.views.words import changed_text, clusters, compared_rows, comparison_verdict, moved_place, side_parts

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.comparison import DiagnosisComparison, Numbers, SameFinding, Side, TimePair
    from graphdoctor.facts.diagnosis import Finding


def render_comparison(comparison: DiagnosisComparison, console: Console, *, is_verbose: bool = False) -> None:
    """Write a comparison to a terminal.

    Args:
        comparison: What to show.
        console: Where to.
        is_verbose: Show each finding in full, and all findings that both have.
    """
    for renderable in _sections(comparison, is_verbose=is_verbose):
        write(console, renderable)


def _sections(comparison: DiagnosisComparison, *, is_verbose: bool) -> Iterator[RenderableType]:
    yield _sides(comparison)
    if comparison.mismatches:
        yield Text()
        yield Text("The runs differ", style="bold yellow")
        yield labeled_rows([("note", clean(mismatch.message)) for mismatch in comparison.mismatches])
    yield Text()
    yield _headline(comparison)
    yield Text()
    yield _number_table(comparison.numbers)
    yield from _new(comparison.new, is_verbose=is_verbose)
    yield from _gone(comparison.gone, is_verbose=is_verbose)
    yield from _same(comparison.same, is_verbose=is_verbose)
    yield from _closing(comparison)


# The head.


def _sides(comparison: DiagnosisComparison) -> RenderableType:
    return labeled_rows([("before", _side(comparison.before)), ("after", _side(comparison.after))])


def _side(side: Side) -> Text:
    first, *rest = side_parts(side)
    text = Text().append_text(clean(first, "bold"))
    for part in rest:
        text.append(" · ", "dim").append_text(clean(part, "dim"))
    if side.name:
        text.append("\n").append_text(clean(side.name, "dim"))
    return text


def _headline(comparison: DiagnosisComparison) -> Text:
    style = "bold red" if comparison.new else "bold green" if comparison.gone else "bold"
    return Text(comparison_verdict(comparison), style=style)


def _number_table(numbers: Numbers) -> Padding:
    """All numbers; those that didn't change are dimmed."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    for heading in ("before", "after", "change"):
        table.add_column(heading, justify="right", no_wrap=True)
    for label, before, after, ratio in compared_rows(numbers):
        table.add_row(label, before, after, ratio, style="dim" if before == after else "")
    return Padding(table, (0, 0, 0, 2))


def _is_timed(pair: TimePair) -> bool:
    return pair.before is not None and pair.after is not None


# Findings.


def _new(findings: Sequence[Finding], *, is_verbose: bool) -> Iterator[RenderableType]:
    if findings:
        yield Text()
        yield Text("New", style="bold red")
        yield from _cards(findings, is_verbose=is_verbose)


def _gone(findings: Sequence[Finding], *, is_verbose: bool) -> Iterator[RenderableType]:
    """One line for each: a finding that is gone needs no suggestion."""
    if not findings:
        return
    yield Text()
    yield Text("Gone", style="bold green")
    if is_verbose:
        yield from _cards(findings, is_verbose=True)
        return
    for finding in findings:
        yield _line(finding, f"{finding.location.shown_file}:{finding.location.line}")


def _cards(findings: Sequence[Finding], *, is_verbose: bool) -> Iterator[RenderableType]:
    for number, cluster in enumerate(clusters(findings)):
        if number:
            yield Text()
        yield from finding_card(cluster, is_verbose=is_verbose)


def _line(finding: Finding, place: str) -> Padding:
    line = clean(f"{finding.code} ", "bold yellow").append_text(clean(place))
    return Padding(line.append_text(clean(f"  {finding.message}", "dim")), (0, 0, 0, 2))


def _same(findings: Sequence[SameFinding], *, is_verbose: bool) -> Iterator[RenderableType]:
    """Findings whose severity or count changed; all of them when verbose."""
    if not findings:
        return
    shown = [pair for pair in findings if is_verbose or {"severity", "count"} & set(pair.changes)]
    heading = Text("In both", style="bold")
    if len(shown) < len(findings):
        differing = f", severity or count changed in {len(shown)}" if shown else ""
        heading.append(f"  {counted(len(findings), 'finding')}{differing} (-v shows all)", "not bold dim")
    yield Text()
    yield heading
    for pair in shown:
        yield _line(pair.after, moved_place(pair))
        if changed := changed_text(pair, has_costs=is_verbose):
            yield Padding(clean(changed), (0, 0, 0, 8))


def _closing(comparison: DiagnosisComparison) -> Iterator[Text]:
    numbers = comparison.numbers
    hidden = comparison.before.hidden_findings, comparison.after.hidden_findings
    if any(hidden):
        yield Text()
        yield Text(f"Hidden by --own-code, --select or --ignore: {hidden[0]} before, {hidden[1]} after.", style="dim")
    if _is_timed(numbers.compile_time_s) or _is_timed(numbers.steady_call_us):
        yield Text()
        yield Text("Each time is a single measurement, which varies from run to run.", style="dim")
