"""Recompiles on the terminal: their causes, then each recompile with its call and cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.stack import PROGRAM_ORIGINS
from graphdoctor.facts.wording import counted, duration
from graphdoctor.views.cards import closing, finding_card, partial, title_line, unknown_rows
from graphdoctor.views.terminal_lines import Code, Prose, clean, labeled_rows, write
from graphdoctor.views.words import base_name, clusters, step

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.diagnosis import Diagnosis, RecompileReport
    from graphdoctor.facts.recompiles import GuardChange
    from graphdoctor.facts.trials import Remedy, TrialResult, WhatIf

_MAX_ROWS = 60
_MAX_CHANGES = 4
_MAX_IDS = 3
_MAX_ALSO = 1
_MAX_LINES = 8
_NARROW = 100


def render_recompiles(diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
    """Write the recompiles and their causes to a terminal.

    Args:
        diagnosis: What to show; findings about anything else are left out.
        console: Where to.
        is_verbose: Show every recompile and every value that changed.
    """
    write(console, title_line(diagnosis))
    write(console, Text())
    for line in _verdict(diagnosis):
        write(console, line)
    for cluster in clusters([finding for finding in diagnosis.findings if finding.code.startswith("GD2")]):
        write(console, Text())
        for renderable in finding_card(cluster, is_verbose=is_verbose):
            write(console, renderable)
    if diagnosis.recompiles:
        write(console, Text())
        write(console, _table(diagnosis.recompiles, is_verbose=is_verbose))
        hidden = len(diagnosis.recompiles) - _MAX_ROWS
        if hidden > 0 and not is_verbose:
            write(console, Text(f"  {hidden} more (-v shows all)", style="dim"))
        if not all(report.is_exact for report in diagnosis.recompiles):
            note = "  ~ from torch's message, which names only the first failed guard of each cache entry"
            write(console, Text(note, style="dim"))
    if diagnosis.recording.what_if is not None:
        for renderable in _what_if(diagnosis.recording.what_if, is_narrow=console.width < _NARROW):
            write(console, renderable)
    for renderable in unknown_rows(diagnosis):
        write(console, renderable)
    for line in closing(diagnosis, prefix="GD2"):
        write(console, Text())
        write(console, line)


def _verdict(diagnosis: Diagnosis) -> Iterator[Text]:
    summary = diagnosis.summary
    yield from partial(diagnosis)
    if summary.frames_over_limit == 1:
        yield Text("1 function is over the recompile limit and runs eagerly.", style="bold red")
    elif summary.frames_over_limit:
        many = f"{summary.frames_over_limit} functions are over the recompile limit and run eagerly."
        yield Text(many, style="bold red")
    if summary.recompiles:
        prevented = sum(
            compile_.is_recompile for compile_ in diagnosis.recording.compiles if compile_.outcome == "limit"
        )
        parts = [f"{counted(summary.recompiles, 'recompile')} from {counted(summary.recompile_causes, 'cause')}"]
        parts += [f"{prevented} of them stopped by the limit"] if prevented else []
        yield Text(f"{', '.join(parts)}.", style="bold yellow")
    elif not summary.frames_over_limit and summary.compiles:
        yield Text("No recompiles.", style="bold green")
    parts = [counted(summary.calls, "call")] if summary.calls else []
    parts += [counted(summary.compiles, "compile")]
    if summary.compile_time_s is not None:
        parts.append(f"{summary.compile_time_s:.2f} s compiling")
    costs = [report.cost_s for report in diagnosis.recompiles if report.cost_s is not None]
    if costs and summary.compile_time_s:
        parts.append(f"{sum(costs):.2f} s of it recompiling")
    yield Text(" · ".join(parts))


def _table(reports: tuple[RecompileReport, ...], *, is_verbose: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Recompiles", title_justify="left", title_style="bold")
    has_calls = any(report.call_index is not None for report in reports)
    has_sites = any(report.call_site is not None for report in reports)
    if has_calls:
        table.add_column("call", justify="right", no_wrap=True)
    table.add_column("compiles", no_wrap=True)
    table.add_column("function")
    table.add_column("what changed", ratio=2)
    if has_sites:
        table.add_column("called from")
    table.add_column("cost", justify="right", no_wrap=True)
    for report in reports if is_verbose else reports[:_MAX_ROWS]:
        cells: list[RenderableType] = (
            [Text("" if report.call_index is None else str(report.call_index))] if has_calls else []
        )
        cells += [_ids(report), Prose(_function(report)), Prose(_changes(report, is_verbose=is_verbose))]
        if has_sites:
            cells.append(Prose(_site(report)))
        cells.append(_cost(report))
        table.add_row(*cells)
    return table


def _ids(report: RecompileReport) -> Text:
    if report.is_over_limit:
        return Text("over limit", "red")
    more = len(report.compile_ids) - _MAX_IDS
    return clean(" ".join(report.compile_ids[:_MAX_IDS]) + (f" +{more}" if more > 0 else ""))


def _function(report: RecompileReport) -> Text:
    text = clean(report.function)
    if report.followed_in:
        text.append(f"\nthen {counted(len(report.followed_in), 'more function')}", "dim")
    return text


def _changes(report: RecompileReport, *, is_verbose: bool) -> Text:
    shown = report.cause if is_verbose else report.cause[:_MAX_CHANGES]
    text = Text()
    for change in shown:
        if text:
            text.append("\n")
        text.append_text(_change(change))
        if not report.is_exact:
            text.append(" ~", "dim")
    hidden = len(report.cause) - len(shown) + report.hidden_change_count
    if hidden:
        text.append(f"\n{hidden} more", "dim")
    for change in report.also_changed if is_verbose else report.also_changed[:_MAX_ALSO]:
        text.append("\nalso changed: ", "dim").append_text(_change(change))
    more = len(report.also_changed) - _MAX_ALSO
    if more > 0 and not is_verbose:
        text.append(f"\n{counted(more, 'more value')} also changed", "dim")
    if report.nearest:
        text.append_text(clean(f"  [{report.nearest}]", "dim"))
    return text or Text("torch didn't name a guard", "dim")


def _change(change: GuardChange) -> Text:
    text = clean(change.expression)
    if (values := step(change)) is not None:
        text.append(" ").append_text(clean(values))
    place = change.guard_location
    if place is not None and place.origin in PROGRAM_ORIGINS:
        text.append_text(clean(f"  {base_name(place.file)}:{place.line}", "dim"))
    return text


def _site(report: RecompileReport) -> Text:
    site = report.call_site
    text = clean(f"{base_name(site.file)}:{site.line}") if site else Text()
    if report.loop_values:
        text.append_text(clean(" " + ", ".join(f"{name}={value}" for name, value in report.loop_values.items()), "dim"))
    return text


def _cost(report: RecompileReport) -> Text:
    if report.is_over_limit:
        return Text("eager", "red")
    return Text("?" if report.cost_s is None else f"{report.cost_s:.2f} s")


def _what_if(answer: WhatIf, *, is_narrow: bool) -> Iterator[RenderableType]:
    """What the same calls do with each remedy, the best first."""
    yield Text()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="What if", title_justify="left", title_style="bold")
    table.add_column("remedy", overflow="fold", ratio=2)
    times = () if is_narrow else ("compile time", "all calls")
    for heading in ("compiles", "limit", "outputs", *times, "steady call"):
        table.add_column(heading, justify="left" if heading in ("limit", "outputs") else "right")
    for result in answer.results:
        table.add_row(*_trial_row(result, is_narrow=is_narrow))
    yield table
    yield clean(answer.conclusion, "bold")
    for change in answer.untried:
        yield clean(f"Not tried: {change.expression}: {change.reason}", "dim")
    if answer.skipped_count:
        yield Text(f"{counted(answer.skipped_count, 'combination')} not tried: there are too many.", "dim")
    best = answer.results[0]
    if best.remedies and best.compiles is not None:
        yield labeled_rows(
            ("try" if number == 0 else "with", _snippet(remedy)) for number, remedy in enumerate(best.remedies)
        )


def _snippet(remedy: Remedy) -> RenderableType:
    if remedy.snippet is None:
        return Prose(clean(remedy.title))
    lines = remedy.snippet.splitlines()
    shown = Code("\n".join(lines[:_MAX_LINES]))
    more = len(lines) - _MAX_LINES
    return Group(shown, Text(f"… {counted(more, 'more line')} like these", "dim")) if more > 0 else shown


def _trial_row(result: TrialResult, *, is_narrow: bool) -> Iterator[Text]:
    name = Text("unchanged", "bold") if not result.remedies else clean(" + ".join(r.name for r in result.remedies))
    if result.compiles is None:
        yield name.append("\n").append_text(clean(result.error or "failed", "red"))
        yield from (Text("-") for _ in range(4 if is_narrow else 6))
        return
    yield name
    yield Text(str(result.compiles))
    yield Text("hit", "red") if result.frames_over_limit else Text("not hit", "green")
    yield _outputs(result)
    for seconds in () if is_narrow else (result.compile_s, result.calls_s):
        yield Text("?" if seconds is None else f"{seconds:.2f} s")
    yield Text("?" if result.steady_us is None else duration(result.steady_us))


def _outputs(result: TrialResult) -> Text:
    if result.outputs == "equal":
        return Text("equal", "green")
    if result.outputs == "not_compared":
        return Text("not compared", "dim")
    by = "" if result.largest_difference is None else f" by {result.largest_difference:.2g}"
    text = Text(f"differ{by}", "red")
    return text.append("\n").append_text(clean(result.where, "dim")) if result.where else text
