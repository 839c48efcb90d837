"""Recompiles: their causes, each with its call and cost, replays with remedies, and what changed
properties did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from graphdoctor.facts.base import grouped
from graphdoctor.facts.command import command_line
from graphdoctor.facts.diagnosis import Diagnosis, RecompileReport
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.stack import PROGRAM_ORIGINS
from graphdoctor.facts.trials import TrialResult, TriedValue, Variation, VariationVerdict, WhatIf
from graphdoctor.views.finding_cards import card_of, closing, partial_note
from graphdoctor.views.next_step import after_run
from graphdoctor.views.parts import (
    Block,
    Cards,
    Cell,
    Code,
    Inline,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    TableRow,
    Tone,
    Verdict,
    View,
    joined,
)
from graphdoctor.views.words import (
    calls_text,
    clusters,
    diagnosis_view,
    eager_calls_texts,
    few_text,
    other_gaps,
    short_place,
    step,
    unknown_section,
)
from graphdoctor.wording import counted, join_texts, listed, quoted

_MOST_RECOMPILES = 60
_MOST_IDS = 3
_MOST_LINES = 8
"""Of a snippet."""
_VERDICTS: dict[VariationVerdict, tuple[str, Tone]] = {
    "fails": ("fails only under torch.compile", "bad"),
    "recompiles": ("recompiles for each new value", "bad"),
    "generalises": ("recompiles once, then handles other values too", "warning"),
    "free": ("free", "good"),
    "not_varied": ("not varied", "dim"),
}
"""What a changed property does, the worst first."""
_MOST_VARIED = 25
_MOST_TIED = 3


def recompiles_view(diagnosis: Diagnosis) -> View:
    """Return the recompiles and their causes; findings about anything else are left out."""
    recording, reports = diagnosis.recording, diagnosis.recompiles
    is_open = not (recording.what_if or recording.treatment or recording.is_partial)
    command = command_line(recording.target, "recompiles", "--what-if")
    has_more = is_open and diagnosis.summary.recompile_causes > 1 and command is not None
    hint = Note("--what-if shows which fixes are enough, alone or together.", "dim")
    findings = [finding for finding in diagnosis.findings if finding.code.startswith("GD2")]
    pieces = (
        *partial_note(diagnosis),
        *_answer(diagnosis),
        *((hint,) if has_more else ()),
        Cards(tuple(map(card_of, clusters(findings)))),
        Section("Recompiles", recompile_table(diagnosis), count=len(reports)),
        *what_if_parts(diagnosis),
        unknown_section(other_gaps(diagnosis)),
        *closing(diagnosis, prefix="GD2"),
    )
    return diagnosis_view(
        diagnosis, "recompiles", pieces, (has_more and command) or after_run(diagnosis)
    )


def _answer(diagnosis: Diagnosis) -> Iterator[Block]:
    summary = diagnosis.summary
    if over := summary.frames_over_limit:
        functions, verb = counted(over, "function"), "is" if over == 1 else "are"
        text = f"{functions} {verb} over the recompile limit: new values run eagerly."
        yield Verdict(text, "bad")
    if summary.recompiles:
        causes = counted(summary.recompile_causes, "cause")
        recompiles = counted(summary.recompiles, "recompile")
        yield Verdict(f"{recompiles} from {causes}.", "warning")
    elif not over and summary.compiles:
        yield Verdict("No recompiles.", "warning" if summary.eager_calls else "good")
    costs = [report.cost_s for report in diagnosis.recompiles if report.cost_s is not None]
    seconds = summary.compile_time_s
    pieces = (
        calls_text(summary) if summary.calls else None,
        counted(summary.compiles, "compile"),
        *eager_calls_texts(summary),
        None if seconds is None else f"{seconds:.2f} s compiling",
        f"{sum(costs):.2f} s of it recompiling" if costs and seconds else None,
    )
    yield Note(join_texts(" · ", *pieces))


def recompile_table(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield a row for each recompile; nothing if there are none."""
    reports = diagnosis.recompiles
    headings = ("#compiles", "#call", "function", "what changed", "called from", "#cost")
    yield Table(headings, map(_recompile, reports), "recompile", _MOST_RECOMPILES)
    if not all(report.is_exact for report in reports):
        text = "~ from torch's message, which names only the first failed guard of each cache entry"
        yield Note(text, "dim")


def _recompile(report: RecompileReport) -> TableRow:
    more = len(report.compile_ids) - _MOST_IDS
    ids = " ".join(report.compile_ids[:_MOST_IDS]) + (f" +{more}" if more > 0 else "")
    then = f"then {counted(len(report.followed_in), 'more function')}" if report.followed_in else ""
    changed: list[Inline] = [
        (_change(change), "" if report.is_exact else " ~") for change in report.cause
    ]
    if report.hidden_change_count:
        changed.append(f"{report.hidden_change_count} more")
    also: list[Inline] = [f"closest compiled version: {report.nearest}"] if report.nearest else []
    also += [("also ", _change(change)) for change in report.also_changed]
    cause = joined(changed, "; ") if report.cause else "torch didn't name a guard"
    site, is_over = report.call_site, report.is_over_limit
    cost = "?" if report.cost_s is None else f"{report.cost_s:.2f} s"
    return (
        Cell("over limit", tone="bad") if is_over else ids,
        "" if report.call_index is None else str(report.call_index),
        Cell(Span(report.function), then),
        Cell(cause, joined(also, "; ")),
        "" if site is None else short_place(site),
        Cell("eager", tone="bad") if is_over else Cell(cost, value=report.cost_s),
    )


def _change(change: GuardChange) -> Inline:
    values, place = step(change), change.guard_location
    is_shown = place is not None and place.origin in PROGRAM_ORIGINS
    return (
        Span(change.expression, "code"),
        (": ", Span(values)) if values else "",
        ("  ", short_place(place)) if place is not None and is_shown else "",
    )


# What the same calls do with each remedy.


def what_if_parts(diagnosis: Diagnosis) -> Iterator[Section]:
    """Yield the replays with each remedy, the best first; nothing if none was made."""
    answer = diagnosis.recording.what_if
    if answer is None:
        return
    headings = ("#remedy", "#compiles", "limit", "outputs", "#compile time", "#all calls")
    rows = map(_trial, answer.results)
    table = Table(headings, rows, "remedy", label="Replays with each remedy")
    rest: list[Block] = [
        Note(("Not tried: ", Span(change.expression), f": {change.reason}"), "dim")
        for change in answer.untried
    ]
    if answer.skipped_count:
        skipped = counted(answer.skipped_count, "combination")
        rest.append(Note(f"{skipped} not tried: there are too many.", "dim"))
    best = answer.results[0]
    for number, remedy in enumerate(best.remedies if best.compiles is not None else ()):
        snippet = remedy.snippet
        body = Code(snippet, most=_MOST_LINES) if snippet else Note(remedy.title)
        rest.append(Rows([Row("with" if number else "try", body)]))
    yield Section("What if", (table, Note(what_if_text(answer)), *rest))


def what_if_text(answer: WhatIf) -> str:
    """Say which change to fix, with the counts that show it."""
    if (base := answer.unchanged) is None:
        return "The calls couldn't be replayed, so there is nothing to compare."

    def saved(result: TrialResult) -> str:
        """``8 compiles → 2, no longer over the recompile limit``."""
        over = "over the recompile limit"
        limit = f", no longer {over}" if base.frames_over_limit else ""
        if result.frames_over_limit:
            limit = f", still {over}" if base.frames_over_limit else f", {over}"
        return f"{counted(base.compiles or 0, 'compile')} → {result.compiles}{limit}"

    singles = [result for result in answer.for_causes if len(result.remedies) == 1]
    best = next((result for result in answer.better if result in singles), None)
    least = (best or base).score
    joint = next((result for result in answer.better if result.score < least), None)
    together = f" Fixing {_addressed(joint)} together: {saved(joint)}." if joint else ""
    if best is None:
        return f"None of the remedies that were tried saves a compile by itself.{together}"
    if not answer.binding:
        alike = (result for result in singles if result.score == least)
        savings = "; ".join(f"{_addressed(result)}: {saved(result)}" for result in alike)
        return f"No single cause stands out. Fixing one alone: {savings}.{together}"
    verb = "is enough" if least <= (0, answer.frame_count) else "helps most"
    return f"Fixing {_addressed(best)} alone {verb}: {saved(best)}.{together}"


def _addressed(result: TrialResult) -> str:
    names = [name for remedy in result.remedies for name in remedy.addresses]
    return listed([quoted(name) for name in names])


def _trial(result: TrialResult) -> TableRow:
    remedies = Span(" + ".join(remedy.name for remedy in result.remedies) or "unchanged")
    if result.compiles is None:
        error = Span(result.error or "failed", tone="bad")
        return Cell(remedies, error), *("-" for _ in range(5))
    outputs = Cell("not compared", tone="dim")
    if result.outputs == "equal":
        outputs = Cell("equal", tone="good")
    elif result.outputs == "different":
        by = "" if result.largest_difference is None else f" by {result.largest_difference:.2g}"
        outputs = Cell(f"differ{by}", Span(result.where or ""), "bad")
    is_hit = bool(result.frames_over_limit)
    seconds = (result.compile_s, result.calls_s)
    return (
        remedies,
        str(result.compiles),
        Cell("hit", tone="bad") if is_hit else Cell("not hit", tone="good"),
        outputs,
        *("?" if time is None else f"{time:.2f} s" for time in seconds),
    )


# What the compiled call is sensitive to, the worst first: ``recompiles --vary``.


def variations_view(diagnosis: Diagnosis) -> View:
    """Return which changes to the first call cause recompiles; findings are left out."""
    pieces = (
        *partial_note(diagnosis),
        *variation_parts(diagnosis),
        unknown_section(other_gaps(diagnosis)),
    )
    return diagnosis_view(diagnosis, "variations", pieces, after_run(diagnosis))


def variation_parts(diagnosis: Diagnosis) -> Iterator[Block]:
    """Show what each changed property did; nothing if none was changed."""
    variations, calls = diagnosis.recording.variations, diagnosis.recording.calls
    if variations is None:
        return
    yield Verdict("What your compiled model is sensitive to")
    if calls and (inputs := calls[-1].inputs) is not None:
        start = "One property changed at a time, starting from the call ("
        yield Note((start, Span(inputs), ")."))
    groups = grouped((variation.verdict, variation) for variation in variations)
    counts = [
        f"{len(groups[name])} {text}" for name, (text, _) in _VERDICTS.items() if name in groups
    ]
    yield Note(" · ".join(counts))
    ordered = [variation for name in _VERDICTS for variation in groups.get(name, ())]
    columns = ("property", "was", "effect", "tried", "#compiling")
    yield Table(columns, map(_row, ordered), "property", _MOST_VARIED)
    reasons = (row for variation in ordered for row in _reasons(variation))
    yield Rows(reasons, show="long")


def _row(variation: Variation) -> TableRow:
    tied = f"with {few_text(variation.tied, _MOST_TIED)}" if variation.tied else ""
    effect, tone = _VERDICTS[variation.verdict]
    alike = groupby(variation.tried, lambda value: (value.outcome, value.compiles, value.error))
    outcomes = [_outcome(list(values)) for _, values in alike]
    if variation.back_compiles:
        compiles = counted(variation.back_compiles, "compile")
        outcomes.append(Span(f"changed back: {compiles}", tone="warning"))
    cost = f"{variation.compile_s:.2f} s" if variation.compile_s else ""
    return (
        Cell(Span(variation.expression), Span(tied)),
        Span(variation.base),
        Cell(effect, tone=tone),
        joined(outcomes, " · ") or Span(variation.reason or ""),
        Cell(cost, value=variation.compile_s),
    )


def _outcome(values: Sequence[TriedValue]) -> Inline:
    first = values[0]
    compiles = f"{counted(first.compiles or 0, 'compile')}{' each' if len(values) > 1 else ''}"
    outcomes = {
        "free": "free",
        "compiled": compiles,
        "over_limit": "over the limit, eager",
        "fails_eager": "fails in eager mode",
    }
    text = outcomes.get(first.outcome, first.error or "raises")
    tones: dict[str, Tone] = {"free": "good", "fails_eager": "dim"}
    said = Span(text, tone=tones.get(first.outcome, "bad"))
    return (Span(", ".join(value.value for value in values), "strong"), ": ", said)


def _reasons(variation: Variation) -> Iterator[Row]:
    for value in variation.tried:
        said = f"not tried, {value.error}" if value.outcome == "fails_eager" else value.torch_reason
        if said:
            text = Span(f"{value.value}: {said}")
            yield Row(Span(variation.expression), Note(text, "dim"))
