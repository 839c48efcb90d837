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
from graphdoctor.facts.trials import TrialResult, TriedValue, Variation, VariationVerdict
from graphdoctor.views import parts
from graphdoctor.views.finding_cards import card_of, closing, partial_note
from graphdoctor.views.next_step import after_run
from graphdoctor.views.words import (
    clusters,
    diagnosis_view,
    few_text,
    other_gaps,
    short_place,
    step,
    unknown_section,
)
from graphdoctor.wording import counted, join_texts

_MOST_RECOMPILES = 60
_MOST_IDS = 3
_MOST_LINES = 8
"""Of a snippet."""
_GROUPS: tuple[tuple[VariationVerdict, str, parts.Tone], ...] = (
    ("fails", "Fails only under torch.compile", "bad"),
    ("recompiles", "Recompiles for each new value", "bad"),
    ("generalises", "Recompiles once, then handles other values too", "warning"),
    ("free", "Free", "good"),
)
_MOST_NAMES = 12
_MOST_VARIED = 25
_MOST_TIED = 3

_MODES = ("training", "grad_mode", "autocast", "default_dtype", "threads", "determinism")
_ADVICE: tuple[tuple[VariationVerdict, tuple[str, ...], str], ...] = (
    ("fails", (), "`graphdoctor explain` with such an input shows why."),
    (
        "recompiles",
        ("size",),
        "Some code reads a size that never becomes dynamic as a number; `graphdoctor recompiles` with two such inputs "
        "shows the line.",
    ),
    (
        "recompiles",
        ("number",),
        "Pass a number that only tensor arithmetic uses as a tensor, torch.tensor(n); elsewhere that breaks the graph.",
    ),
    (
        "recompiles",
        ("module_number",),
        "Keep changing numbers in a buffer, or set torch.compiler.config.allow_unspec_int_on_nn_module for ints.",
    ),
    (
        "recompiles",
        ("flag", "text", "value"),
        "One compile for each value: fine for a few, but beyond the recompile limit (8) the function runs eagerly.",
    ),
    (
        "recompiles",
        ("dtype", "stride", "requires_grad", "device"),
        "Fix dtype, strides, device and requires_grad before the call: .to(…), .contiguous(), .detach().",
    ),
    ("recompiles", _MODES, "One compile for each mode: warm up every mode that production uses."),
    (
        "generalises",
        ("size",),
        "torch._dynamo.mark_dynamic(tensor, dim) before the first call, or dynamic=True, avoids the second compile.",
    ),
    (
        "generalises",
        ("number",),
        "A number passed as a tensor from the start needs no second compile.",
    ),
)


def recompiles_view(diagnosis: Diagnosis) -> parts.View:
    """The recompiles and their causes; findings about anything else are left out."""
    return diagnosis_view(
        diagnosis, "recompiles", _parts(diagnosis), _replays(diagnosis) or after_run(diagnosis)
    )


def _replays(diagnosis: Diagnosis) -> str | None:
    """The command that says which fixes for several causes are enough; None where that is known or
    can't be.
    """
    recording = diagnosis.recording
    is_known = (
        recording.what_if is not None or recording.treatment is not None or recording.is_partial
    )
    is_asked = diagnosis.summary.recompile_causes > 1 and not is_known
    return command_line(recording.target, "recompiles", "--what-if") if is_asked else None


def _parts(diagnosis: Diagnosis) -> Iterator[parts.Block]:
    yield from partial_note(diagnosis)
    yield from _answer(diagnosis)
    findings = [finding for finding in diagnosis.findings if finding.code.startswith("GD2")]
    yield parts.Cards(tuple(map(card_of, clusters(findings))))
    yield parts.Section("Recompiles", _recompiles(diagnosis), count=len(diagnosis.recompiles))
    yield from what_if_parts(diagnosis)
    yield unknown_section(other_gaps(diagnosis))
    yield from closing(diagnosis, prefix="GD2")


def _answer(diagnosis: Diagnosis) -> Iterator[parts.Block]:
    summary = diagnosis.summary
    if over := summary.frames_over_limit:
        verbs = ("is", "runs") if over == 1 else ("are", "run")
        yield parts.Verdict(
            f"{counted(over, 'function')} {verbs[0]} over the recompile limit and {verbs[1]} eagerly.",
            "bad",
        )
    if summary.recompiles:
        prevented = sum(
            compile_.is_recompile
            for compile_ in diagnosis.recording.compiles
            if compile_.outcome == "limit"
        )
        stopped = f", {prevented} of them stopped by the limit" if prevented else ""
        causes = counted(summary.recompile_causes, "cause")
        yield parts.Verdict(
            f"{counted(summary.recompiles, 'recompile')} from {causes}{stopped}.", "warning"
        )
    elif not over and summary.compiles:
        yield parts.Verdict("No recompiles.", "good")
    costs = [report.cost_s for report in diagnosis.recompiles if report.cost_s is not None]
    pieces = (
        counted(summary.calls, "call") if summary.calls else None,
        counted(summary.compiles, "compile"),
        None if summary.compile_time_s is None else f"{summary.compile_time_s:.2f} s compiling",
        f"{sum(costs):.2f} s of it recompiling" if costs and summary.compile_time_s else None,
    )
    yield parts.Note(join_texts(" · ", *pieces))
    if _replays(diagnosis):
        yield parts.Note("--what-if shows which fixes are enough, alone or together.", "dim")


def _recompiles(diagnosis: Diagnosis) -> Iterator[parts.Block]:
    reports = diagnosis.recompiles
    headings = ("#compiles", "#call", "function", "what changed", "called from", "#cost")
    yield parts.Table(headings, map(_recompile, reports), "recompile", _MOST_RECOMPILES)
    if not all(report.is_exact for report in reports):
        yield parts.Note(
            "~ from torch's message, which names only the first failed guard of each cache entry",
            "dim",
        )


def _recompile(report: RecompileReport) -> parts.TableRow:
    ids = " ".join(report.compile_ids[:_MOST_IDS])
    if (more := len(report.compile_ids) - _MOST_IDS) > 0:
        ids += f" +{more}"
    then = f"then {counted(len(report.followed_in), 'more function')}" if report.followed_in else ""
    site = report.call_site
    loop = ", ".join(f"{name}={value}" for name, value in report.loop_values.items())
    cost = "?" if report.cost_s is None else f"{report.cost_s:.2f} s"
    return (
        parts.Cell("over limit", tone="bad") if report.is_over_limit else parts.Cell(ids),
        "" if report.call_index is None else str(report.call_index),
        parts.Cell(parts.Span(report.function), then),
        _changes(report),
        parts.Cell("" if site is None else short_place(site), parts.Span(loop)),
        parts.Cell("eager", tone="bad")
        if report.is_over_limit
        else parts.Cell(cost, value=report.cost_s),
    )


def _changes(report: RecompileReport) -> parts.Cell:
    text: list[parts.Inline] = [
        (_change(change), "" if report.is_exact else " ~") for change in report.cause
    ]
    if report.hidden_change_count:
        text.append(f"{report.hidden_change_count} more")
    also: list[parts.Inline] = [f"nearest entry {report.nearest}"] if report.nearest else []
    also += [("also changed: ", _change(change)) for change in report.also_changed]
    return parts.Cell(
        parts.joined(text, "; ") if report.cause else "torch didn't name a guard",
        parts.joined(also, "; "),
    )


def _change(change: GuardChange) -> parts.Inline:
    values, place = step(change), change.guard_location
    said: parts.Inline = (
        (parts.Span(change.expression, "code"), " ", parts.Span(values))
        if values
        else parts.Span(change.expression, "code")
    )
    return (
        said
        if place is None or place.origin not in PROGRAM_ORIGINS
        else (said, "  ", short_place(place))
    )


# What the same calls do with each remedy.


def what_if_parts(diagnosis: Diagnosis) -> Iterator[parts.Section]:
    """The replays with each remedy, the best first; nothing if none was made."""
    answer = diagnosis.recording.what_if
    if answer is None:
        return
    headings = ("#remedy", "#compiles", "limit", "outputs", "#compile time", "#all calls")
    table = parts.Table(
        headings, map(_trial, answer.results), "remedy", label="Replays with each remedy"
    )
    rest: list[parts.Block] = [
        parts.Note(("Not tried: ", parts.Span(change.expression), f": {change.reason}"), "dim")
        for change in answer.untried
    ]
    if answer.skipped_count:
        rest.append(
            parts.Note(
                f"{counted(answer.skipped_count, 'combination')} not tried: there are too many.",
                "dim",
            )
        )
    best = answer.results[0]
    rows = [
        parts.Row(
            "with" if number else "try",
            parts.Code(remedy.snippet, most=_MOST_LINES)
            if remedy.snippet
            else parts.Note(remedy.title),
        )
        for number, remedy in enumerate(best.remedies if best.compiles is not None else ())
    ]
    yield parts.Section("What if", (table, parts.Note(answer.conclusion), *rest, parts.Rows(rows)))


def _trial(result: TrialResult) -> parts.TableRow:
    name: parts.Inline = (
        parts.Span(" + ".join(remedy.name for remedy in result.remedies))
        if result.remedies
        else "unchanged"
    )
    if result.compiles is None:
        return (
            parts.Cell(name, parts.Span(result.error or "failed", tone="bad")),
            *("-" for _ in range(5)),
        )
    times = (
        "?" if seconds is None else f"{seconds:.2f} s"
        for seconds in (result.compile_s, result.calls_s)
    )
    return (
        name,
        str(result.compiles),
        parts.Cell("hit", tone="bad")
        if result.frames_over_limit
        else parts.Cell("not hit", tone="good"),
        _outputs(result),
        *times,
    )


def _outputs(result: TrialResult) -> parts.Cell:
    if result.outputs == "different":
        by = "" if result.largest_difference is None else f" by {result.largest_difference:.2g}"
        return parts.Cell(f"differ{by}", parts.Span(result.where or ""), "bad")
    return (
        parts.Cell("equal", tone="good")
        if result.outputs == "equal"
        else parts.Cell("not compared", tone="dim")
    )


# What the compiled call is sensitive to, the worst first: ``recompiles --vary``.


def variations_view(diagnosis: Diagnosis) -> parts.View:
    """Which changes to the first call cause recompiles; findings are left out."""
    pieces = (
        *partial_note(diagnosis),
        *variation_parts(diagnosis),
        unknown_section(other_gaps(diagnosis)),
    )
    return diagnosis_view(diagnosis, "variations", pieces, after_run(diagnosis))


def variation_parts(diagnosis: Diagnosis) -> Iterator[parts.Block]:
    """Show what each changed property did; nothing if none was changed."""
    if diagnosis.recording.variations is None:
        return
    variations = diagnosis.recording.variations
    yield from _head(diagnosis, variations)
    for verdict, heading, tone in _GROUPS:
        group = [variation for variation in variations if variation.verdict == verdict]
        if group:
            table = parts.Table(
                ("property", "was", "#compiling", "tried"),
                map(_row, group),
                "property",
                _MOST_VARIED,
            )
            reasons = parts.Rows(
                (row for variation in group for row in _reasons(variation)), show="long"
            )
            yield parts.Section(heading, (table, reasons, *_advice(group, verdict)), tone=tone)
    untried = (variation for variation in variations if variation.verdict == "not_varied")
    by_reason = grouped((variation.reason or "", variation.expression) for variation in untried)
    notes = (
        note
        for reason, names in by_reason.items()
        for note in _untried(reason, list(dict.fromkeys(names)))
    )
    yield parts.Section("Not varied", notes)


def _head(diagnosis: Diagnosis, variations: Sequence[Variation]) -> Iterator[parts.Block]:
    yield parts.Verdict("What your compiled model is sensitive to")
    call = diagnosis.recording.calls[-1] if diagnosis.recording.calls else None
    if call is not None and call.inputs is not None:
        yield parts.Note(
            (
                "One property changed at a time, starting from the call (",
                parts.Span(call.inputs),
                ").",
            )
        )
    tried = [variation for variation in variations if variation.verdict != "not_varied"]
    names = {
        "fails": "fail",
        "recompiles": "recompile",
        "generalises": "become dynamic",
        "free": "free",
    }
    counts = {
        name: sum(variation.verdict == verdict for variation in tried)
        for verdict, name in names.items()
    }
    counts["not varied"] = len(variations) - len(tried)
    pieces = [
        f"{len(tried)} varied",
        *(f"{number} {name}" for name, number in counts.items() if number),
    ]
    seconds = [variation.compile_s for variation in tried if variation.compile_s is not None]
    if seconds:
        pieces.append(f"{sum(seconds):.2f} s compiling")
    yield parts.Note(" · ".join(pieces))


def _row(variation: Variation) -> parts.TableRow:
    tied = [parts.Span(expression) for expression in variation.tied[:_MOST_TIED]]
    hidden = len(variation.tied) - _MOST_TIED
    more = f" and {hidden} more" if hidden > 0 else ""
    cost = f"{variation.compile_s:.2f} s" if variation.compile_s else ""
    return (
        parts.Cell(
            parts.Span(variation.expression), ("with ", parts.joined(tied), more) if tied else ""
        ),
        parts.Span(variation.base),
        parts.Cell(cost, value=variation.compile_s),
        parts.joined(list(_values(variation)), " · "),
    )


def _values(variation: Variation) -> Iterator[parts.Inline]:
    made = [value for value in variation.tried if value.outcome != "fails_eager"]
    for _, values in groupby(made, lambda value: (value.outcome, value.compiles, value.error)):
        yield _outcome(list(values))
    if failed := [value.value for value in variation.tried if value.outcome == "fails_eager"]:
        yield parts.Span(f"{', '.join(failed)}: fails in eager mode", tone="dim")
    if variation.back_compiles:
        yield parts.Span(
            f"changed back: {counted(variation.back_compiles, 'compile')}", tone="warning"
        )


def _outcome(values: Sequence[TriedValue]) -> parts.Inline:
    first = values[0]
    compiles = f"{counted(first.compiles or 0, 'compile')}{' each' if len(values) > 1 else ''}"
    outcomes = {"free": "free", "compiled": compiles, "over_limit": "over the limit, eager"}
    said = parts.Span(
        outcomes.get(first.outcome, first.error or "raises"),
        tone="good" if first.outcome == "free" else "bad",
    )
    return (parts.Span(", ".join(value.value for value in values), "strong"), ": ", said)


def _reasons(variation: Variation) -> Iterator[parts.Row]:
    for value in variation.tried:
        said = f"not tried, {value.error}" if value.outcome == "fails_eager" else value.torch_reason
        if said:
            yield parts.Row(
                parts.Span(variation.expression),
                parts.Note(parts.Span(f"{value.value}: {said}"), "dim"),
            )


def _advice(group: Sequence[Variation], verdict: VariationVerdict) -> Iterator[parts.Note]:
    # If only special sizes and numbers could be tried, there is no advice on the others.
    kinds = {
        variation.kind
        for variation in group
        if any(not value.is_special and value.outcome != "fails_eager" for value in variation.tried)
    }
    for of_verdict, of_kinds, text in _ADVICE:
        if of_verdict == verdict and (not of_kinds or kinds & set(of_kinds)):
            yield parts.Note(f"→ {text}")


def _untried(reason: str, names: Sequence[str]) -> Iterator[parts.Note]:
    """A reason with the properties it applies to."""
    why, is_long = parts.Span(f"  {reason}", tone="dim"), len(names) > _MOST_NAMES
    if is_long:
        yield parts.Note((parts.Span(few_text(names, _MOST_NAMES)), why), show="short")
    yield parts.Note((parts.Span(", ".join(names)), why), show="long" if is_long else "always")
