"""Recompiles: their causes, then each recompile with its call and cost, then replays with remedies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphdoctor.facts.stack import PROGRAM_ORIGINS
from graphdoctor.facts.wording import counted, duration
from graphdoctor.views.finding_cards import card_of, closing, partial_note
from graphdoctor.views.parts import (
    Block,
    Cards,
    Cell,
    Code,
    Column,
    Inline,
    Note,
    Place,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Verdict,
    View,
    joined,
)
from graphdoctor.views.words import base_name, clusters, other_gaps, step, title_parts, unknown_section

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis, RecompileReport
    from graphdoctor.facts.recompiles import GuardChange
    from graphdoctor.facts.trials import Remedy, TrialResult

_MOST_ROWS = 60
_MOST_IDS = 3
_MOST_LINES = 8
"""Of a snippet."""


def recompiles_view(diagnosis: Diagnosis) -> View:
    """The recompiles and their causes; findings about anything else are left out."""
    parts = tuple(_parts(diagnosis))
    return View(tuple(title_parts(diagnosis.recording)), "recompiles", parts, diagnosis.graphdoctor_version)


def _parts(diagnosis: Diagnosis) -> Iterator[Block]:
    yield from partial_note(diagnosis)
    yield from _answer(diagnosis)
    found = [finding for finding in diagnosis.findings if finding.code.startswith("GD2")]
    yield Cards(tuple(map(card_of, clusters(found))))
    yield Section("Recompiles", tuple(_recompiles(diagnosis)), count=len(diagnosis.recompiles))
    yield from what_if_parts(diagnosis)
    yield unknown_section(other_gaps(diagnosis))
    yield from closing(diagnosis, prefix="GD2")


def _answer(diagnosis: Diagnosis) -> Iterator[Block]:
    summary = diagnosis.summary
    if over := summary.frames_over_limit:
        verbs = ("is", "runs") if over == 1 else ("are", "run")
        yield Verdict(f"{counted(over, 'function')} {verbs[0]} over the recompile limit and {verbs[1]} eagerly.", "bad")
    if summary.recompiles:
        prevented = sum(each.is_recompile for each in diagnosis.recording.compiles if each.outcome == "limit")
        stopped = f", {prevented} of them stopped by the limit" if prevented else ""
        causes = counted(summary.recompile_causes, "cause")
        yield Verdict(f"{counted(summary.recompiles, 'recompile')} from {causes}{stopped}.", "warning")
    elif not over and summary.compiles:
        yield Verdict("No recompiles.", "good")
    parts = [counted(summary.calls, "call")] if summary.calls else []
    parts += [counted(summary.compiles, "compile")]
    if summary.compile_time_s is not None:
        parts.append(f"{summary.compile_time_s:.2f} s compiling")
    costs = [report.cost_s for report in diagnosis.recompiles if report.cost_s is not None]
    if costs and summary.compile_time_s:
        parts.append(f"{sum(costs):.2f} s of it recompiling")
    yield Note(" · ".join(parts))


def _recompiles(diagnosis: Diagnosis) -> Iterator[Block]:
    reports = diagnosis.recompiles
    names = ("call", "function", "what changed", "called from", "cost")
    columns = (Column("compiles"), *(Column(name, is_number=name in ("call", "cost")) for name in names))
    yield Table(columns, tuple(map(_row, reports)), "recompile", _MOST_ROWS)
    if not all(report.is_exact for report in reports):
        note = "~ from torch's message, which names only the first failed guard of each cache entry"
        yield Note(note, "dim")


def _row(report: RecompileReport) -> tuple[Cell, ...]:
    more = len(report.compile_ids) - _MOST_IDS
    ids = " ".join(report.compile_ids[:_MOST_IDS]) + (f" +{more}" if more > 0 else "")
    then = f"then {counted(len(report.followed_in), 'more function')}" if report.followed_in else ""
    site = report.call_site
    loop = ", ".join(f"{name}={value}" for name, value in report.loop_values.items())
    cost = "?" if report.cost_s is None else f"{report.cost_s:.2f} s"
    return (
        Cell("over limit", tone="bad") if report.is_over_limit else Cell(ids),
        Cell("" if report.call_index is None else str(report.call_index)),
        Cell(Span(report.function), then),
        _changes(report),
        Cell("" if site is None else Place(site.file, site.line, base_name(site.file)), Span(loop)),
        Cell("eager", tone="bad") if report.is_over_limit else Cell(cost, value=report.cost_s),
    )


def _changes(report: RecompileReport) -> Cell:
    text: list[Inline] = [(_change(change), "" if report.is_exact else " ~") for change in report.cause]
    if report.hidden_change_count:
        text.append(f"{report.hidden_change_count} more")
    also: list[Inline] = [f"nearest entry {report.nearest}"] if report.nearest else []
    also += [("also changed: ", _change(change)) for change in report.also_changed]
    return Cell(joined(text, "; ") if report.cause else "torch didn't name a guard", joined(also, "; "))


def _change(change: GuardChange) -> Inline:
    values, place = step(change), change.guard_location
    said: Inline = (Span(change.expression, "code"), " ", Span(values)) if values else Span(change.expression, "code")
    if place is None or place.origin not in PROGRAM_ORIGINS:
        return said
    return (said, "  ", Place(place.file, place.line, base_name(place.file)))


# What the same calls do with each remedy.


def what_if_parts(diagnosis: Diagnosis) -> Iterator[Section]:
    """The replays with each remedy, the best first; nothing if none was made."""
    answer = diagnosis.recording.what_if
    if answer is None:
        return
    names = ("compiles", "limit", "outputs", "compile time", "all calls", "steady call")
    columns = (Column("remedy"), *(Column(name, is_number=name not in ("limit", "outputs")) for name in names))
    table = Table(columns, tuple(map(_trial, answer.results)), "remedy", label="Replays with each remedy")
    rest: list[Block] = [
        Note(("Not tried: ", Span(change.expression), f": {change.reason}"), "dim") for change in answer.untried
    ]
    if answer.skipped_count:
        rest.append(Note(f"{counted(answer.skipped_count, 'combination')} not tried: there are too many.", "dim"))
    best = answer.results[0]
    remedies = best.remedies if best.compiles is not None else ()
    rows = [Row("try" if number == 0 else "with", _remedy(remedy)) for number, remedy in enumerate(remedies)]
    yield Section("What if", (table, Note(answer.conclusion), *rest, Rows(tuple(rows))))


def _remedy(remedy: Remedy) -> Block | tuple[Block, ...]:
    if remedy.snippet is None:
        return Note(remedy.title)
    lines = remedy.snippet.splitlines()
    if len(lines) <= _MOST_LINES:
        return Code(remedy.snippet)
    more = Note(f"… {counted(len(lines) - _MOST_LINES, 'more line')} like these", "dim", show="short")
    return (Code("\n".join(lines[:_MOST_LINES]), show="short"), more, Code(remedy.snippet, show="long"))


def _trial(result: TrialResult) -> tuple[Cell, ...]:
    name: Inline = Span(" + ".join(remedy.name for remedy in result.remedies)) if result.remedies else "unchanged"
    if result.compiles is None:
        return (Cell(name, Span(result.error or "failed", tone="bad")), *(Cell("-") for _ in range(6)))
    times = ("?" if seconds is None else f"{seconds:.2f} s" for seconds in (result.compile_s, result.calls_s))
    return (
        Cell(name),
        Cell(str(result.compiles)),
        Cell("hit", tone="bad") if result.frames_over_limit else Cell("not hit", tone="good"),
        _outputs(result),
        *map(Cell, times),
        Cell("?" if result.steady_us is None else duration(result.steady_us)),
    )


def _outputs(result: TrialResult) -> Cell:
    if result.outputs == "different":
        by = "" if result.largest_difference is None else f" by {result.largest_difference:.2g}"
        return Cell(f"differ{by}", Span(result.where or ""), "bad")
    return Cell("equal", tone="good") if result.outputs == "equal" else Cell("not compared", tone="dim")
