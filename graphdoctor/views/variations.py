"""What the compiled call is sensitive to, the worst first: ``graphdoctor recompiles --vary``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted
from graphdoctor.views.finding_cards import partial_note
from graphdoctor.views.parts import (
    Block,
    Cell,
    Column,
    Inline,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Tone,
    Verdict,
    View,
    joined,
)
from graphdoctor.views.words import other_gaps, title_parts, unknown_section

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.variations import TriedValue, Variation
    from graphdoctor.facts.variations import Verdict as Outcome

_GROUPS: tuple[tuple[Outcome, str, Tone], ...] = (
    ("fails", "Fails only under torch.compile", "bad"),
    ("recompiles", "Recompiles for each new value", "bad"),
    ("generalises", "Recompiles once, then handles other values too", "warning"),
    ("free", "Free", "good"),
)
_MOST_NAMES = 12
_MOST_ROWS = 25
_MOST_TIED = 3

_MODES = ("training", "grad_mode", "autocast", "default_dtype", "threads", "determinism")
_ADVICE: tuple[tuple[Outcome, tuple[str, ...], str], ...] = (
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
    ("generalises", ("number",), "A number passed as a tensor from the start needs no second compile."),
)


def variations_view(diagnosis: Diagnosis) -> View:
    """Which changes to the first call cause recompiles; findings are left out."""
    parts = (*partial_note(diagnosis), *variation_parts(diagnosis), unknown_section(other_gaps(diagnosis)))
    return View(tuple(title_parts(diagnosis.recording)), "variations", parts, diagnosis.graphdoctor_version)


def variation_parts(diagnosis: Diagnosis) -> Iterator[Block]:
    """What each changed property did; nothing if none was changed."""
    if diagnosis.recording.variations is None:
        return
    variations = diagnosis.recording.variations
    yield from _head(diagnosis, variations)
    for verdict, heading, tone in _GROUPS:
        group = [variation for variation in variations if variation.verdict == verdict]
        if group:
            columns = [
                Column(name, is_number=name == "compiling") for name in ("property", "was", "compiling", "tried")
            ]
            table = Table(tuple(columns), tuple(map(_row, group)), "property", _MOST_ROWS)
            reasons = Rows(tuple(row for variation in group for row in _reasons(variation)), show="long")
            yield Section(heading, (table, reasons, *_advice(group, verdict)), tone=tone)
    by_reason: dict[str, list[str]] = {}
    for variation in variations:
        if variation.verdict == "not_varied":
            by_reason.setdefault(variation.reason or "", []).append(variation.expression)
    notes = (note for reason, names in by_reason.items() for note in _untried(reason, list(dict.fromkeys(names))))
    yield Section("Not varied", tuple(notes))


def _head(diagnosis: Diagnosis, variations: Sequence[Variation]) -> Iterator[Block]:
    yield Verdict("What your compiled model is sensitive to")
    call = diagnosis.recording.calls[-1] if diagnosis.recording.calls else None
    if call is not None and call.inputs is not None:
        yield Note(("One property changed at a time, starting from the call (", Span(call.inputs), ")."))
    tried = [variation for variation in variations if variation.verdict != "not_varied"]
    names = {"fails": "fail", "recompiles": "recompile", "generalises": "become dynamic", "free": "free"}
    counts = {name: sum(variation.verdict == verdict for variation in tried) for verdict, name in names.items()}
    counts["not varied"] = len(variations) - len(tried)
    parts = [f"{len(tried)} varied", *(f"{number} {name}" for name, number in counts.items() if number)]
    seconds = [variation.compile_s for variation in tried if variation.compile_s is not None]
    if seconds:
        parts.append(f"{sum(seconds):.2f} s compiling")
    yield Note(" · ".join(parts))


def _row(variation: Variation) -> tuple[Cell, ...]:
    tied = [Span(expression) for expression in variation.tied[:_MOST_TIED]]
    hidden = len(variation.tied) - _MOST_TIED
    more = f" and {hidden} more" if hidden > 0 else ""
    cost = f"{variation.compile_s:.2f} s" if variation.compile_s else ""
    return (
        Cell(Span(variation.expression), ("with ", joined(tied), more) if tied else ""),
        Cell(Span(variation.base)),
        Cell(cost, value=variation.compile_s),
        Cell(joined(list(_values(variation)), " · ")),
    )


def _values(variation: Variation) -> Iterator[Inline]:
    """What each value did; neighbors with the same outcome are grouped."""
    made = [value for value in variation.tried if value.outcome != "fails_eager"]
    for _, values in groupby(made, lambda value: (value.outcome, value.compiles, value.error)):
        yield _outcome(list(values))
    if failed := [value.value for value in variation.tried if value.outcome == "fails_eager"]:
        yield Span(f"{', '.join(failed)}: fails in eager mode", tone="dim")
    if variation.back_compiles:
        yield Span(f"changed back: {counted(variation.back_compiles, 'compile')}", tone="warning")


def _outcome(values: Sequence[TriedValue]) -> Inline:
    first = values[0]
    tone: Tone = "bad"
    match first.outcome:
        case "free":
            said, tone = "free", "good"
        case "compiled":
            said = f"{counted(first.compiles or 0, 'compile')}{' each' if len(values) > 1 else ''}"
        case "over_limit":
            said = "over the limit, eager"
        case _:
            said = first.error or "raises"
    return (Span(", ".join(value.value for value in values), "strong"), ": ", Span(said, tone=tone))


def _reasons(variation: Variation) -> Iterator[Row]:
    """What torch said of each compile, and why a value wasn't tried."""
    for value in variation.tried:
        if value.outcome == "fails_eager":
            yield Row(Span(variation.expression), Note(Span(f"{value.value}: not tried, {value.error}"), "dim"))
        elif value.torch_reason:
            yield Row(Span(variation.expression), Note(Span(f"{value.value}: {value.torch_reason}"), "dim"))


def _advice(group: Sequence[Variation], verdict: Outcome) -> Iterator[Note]:
    # If only special sizes and numbers could be tried, there is no advice on the others.
    kinds = {variation.kind for variation in group if any(_is_ordinary(value) for value in variation.tried)}
    for of_verdict, of_kinds, text in _ADVICE:
        if of_verdict == verdict and (not of_kinds or kinds & set(of_kinds)):
            yield Note(f"→ {text}")


def _is_ordinary(value: TriedValue) -> bool:
    return not value.is_special and value.outcome != "fails_eager"


def _untried(reason: str, names: Sequence[str]) -> Iterator[Note]:
    """A reason with the properties it applies to."""
    more = len(names) - _MOST_NAMES
    why = Span(f"  {reason}", tone="dim")
    if more > 0:
        yield Note((Span(", ".join(names[:_MOST_NAMES])), f" and {more} more", why), show="short")
    yield Note((Span(", ".join(names)), why), show="long" if more > 0 else "always")
