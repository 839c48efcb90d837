"""What the compiled call is sensitive to, the worst first: ``graphdoctor recompiles --vary`` on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.wording import counted
from graphdoctor.views.cards import partial, title_line, unknown_rows
from graphdoctor.views.terminal_lines import clean, write

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.variations import TriedValue, Variation, Verdict

_GROUPS: tuple[tuple[Verdict, str, str], ...] = (
    ("fails", "Fails only under torch.compile", "bold red"),
    ("recompiles", "Recompiles for each new value", "bold red"),
    ("generalises", "Recompiles once, then handles other values too", "bold yellow"),
    ("free", "Free", "bold green"),
)
_MAX_NAMES = 12
_MAX_ROWS = 25
_MAX_TIED = 3
_COST_WIDTH = 6

_MODES = ("training", "grad_mode", "autocast", "default_dtype", "threads", "determinism")
_ADVICE: tuple[tuple[Verdict, tuple[str, ...], str], ...] = (
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


def render_variations(diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
    """Write which changes to the first call cause recompiles to a terminal.

    Args:
        diagnosis: What to show; its findings are left out.
        console: Where to.
        is_verbose: Add torch's reason for each compile, and name everything that wasn't varied.
    """
    write(console, title_line(diagnosis))
    write(console, Text())
    for line in partial(diagnosis):
        write(console, line)
    variations = diagnosis.recording.variations or ()
    if diagnosis.recording.variations is not None:
        for line in _head(diagnosis, variations):
            write(console, line)
    varied = [variation for variation in variations if variation.verdict != "not_varied"]
    widths = _widths(varied, console.width)
    for verdict, heading, style in _GROUPS:
        group = [variation for variation in variations if variation.verdict == verdict]
        if group:
            write(console, Text())
            write(console, Text(heading, style=style))
            write(console, _table(group if is_verbose else group[:_MAX_ROWS], widths, is_verbose=is_verbose))
            if len(group) > _MAX_ROWS and not is_verbose:
                write(console, Text(f"  {len(group) - _MAX_ROWS} more (-v shows all)", style="dim"))
            for advice in _advice(group, verdict):
                write(console, advice)
    untried = [variation for variation in variations if variation.verdict == "not_varied"]
    if untried:
        write(console, Text())
        write(console, Text("Not varied", style="bold"))
        write(console, _untried(untried, is_verbose=is_verbose))
    for renderable in unknown_rows(diagnosis):
        write(console, renderable)


def _head(diagnosis: Diagnosis, variations: Sequence[Variation]) -> Iterator[Text]:
    yield Text("What your compiled model is sensitive to", style="bold")
    call = diagnosis.recording.calls[-1] if diagnosis.recording.calls else None
    if call is not None and call.inputs is not None:
        yield clean(f"One property changed at a time, starting from the call ({call.inputs}).")
    tried = [variation for variation in variations if variation.verdict != "not_varied"]
    parts = [f"{len(tried)} varied"]
    names = {"fails": "fail", "recompiles": "recompile", "generalises": "become dynamic", "free": "free"}
    for verdict, name in names.items():
        number = sum(variation.verdict == verdict for variation in tried)
        if number:
            parts.append(f"{number} {name}")
    if len(variations) > len(tried):
        parts.append(f"{len(variations) - len(tried)} not varied")
    seconds = [variation.compile_s for variation in tried if variation.compile_s is not None]
    if seconds:
        parts.append(f"{sum(seconds):.2f} s compiling")
    yield Text(" · ".join(parts))


def _widths(variations: Sequence[Variation], width: int) -> tuple[int, int]:
    """Widths of the first two columns, the same in each group, so the groups read as one table."""
    lines = [line for variation in variations for line in _name(variation).split()]
    names = max((line.cell_len for line in lines), default=0)
    bases = max((clean(variation.base).cell_len for variation in variations), default=0)
    return min(names, width * 2 // 5), min(bases, width // 6)


def _table(group: Sequence[Variation], widths: tuple[int, int], *, is_verbose: bool) -> Padding:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(overflow="fold", width=widths[0])
    table.add_column(overflow="fold", width=widths[1], style="dim")
    table.add_column(justify="right", no_wrap=True, min_width=_COST_WIDTH)
    table.add_column(overflow="fold", ratio=1)
    for variation in group:
        seconds = variation.compile_s
        cost = Text() if not seconds else Text(f"{seconds:.2f} s")
        table.add_row(_name(variation), clean(variation.base), cost, _values(variation, is_verbose=is_verbose))
    return Padding(table, (0, 0, 0, 2))


def _name(variation: Variation) -> Text:
    text = clean(variation.expression)
    for expression in variation.tied[:_MAX_TIED]:
        text.append("\n").append_text(clean(f"with {expression}", "dim"))
    hidden = len(variation.tied) - _MAX_TIED
    return text.append(f"\nand {hidden} more", "dim") if hidden > 0 else text


def _values(variation: Variation, *, is_verbose: bool) -> Text:
    """What each value did; neighbors with the same outcome are grouped."""
    text = Text()
    made = [value for value in variation.tried if value.outcome != "fails_eager"]
    parts = []
    for _, values in groupby(made, _outcome_key):
        parts.append(_outcome(list(values)))
    text.append_text(Text(" · ").join(parts))
    failed = [value.value for value in variation.tried if value.outcome == "fails_eager"]
    if failed:
        text.append(" · ").append_text(clean(f"{', '.join(failed)}: fails in eager mode", "dim"))
    if variation.back_compiles:
        text.append(" · ").append(f"changed back: {counted(variation.back_compiles, 'compile')}", "yellow")
    if is_verbose:
        for value in made:
            if value.torch_reason:
                text.append("\n").append_text(clean(f"{value.value}: {value.torch_reason}", "dim"))
        for value in variation.tried:
            if value.outcome == "fails_eager":
                text.append("\n").append_text(clean(f"{value.value}: not tried, {value.error}", "dim"))
    return text


def _outcome_key(value: TriedValue) -> tuple[str, int | None, str | None]:
    return value.outcome, value.compiles, value.error


def _outcome(values: Sequence[TriedValue]) -> Text:
    text = clean(", ".join(value.value for value in values), "bold")
    first = values[0]
    match first.outcome:
        case "free":
            return text.append(": ", "not bold").append("free", "not bold green")
        case "compiled":
            each = " each" if len(values) > 1 else ""
            text.append(": ", "not bold")
            return text.append(f"{counted(first.compiles or 0, 'compile')}{each}", "not bold red")
        case "over_limit":
            return text.append(": ", "not bold").append("over the limit, eager", "not bold red")
        case _:
            return text.append(": ", "not bold").append_text(clean(first.error or "raises", "not bold red"))


def _advice(group: Sequence[Variation], verdict: Verdict) -> Iterator[RenderableType]:
    # If only special sizes and numbers could be tried, there is no advice on the others.
    kinds = {variation.kind for variation in group if any(_is_ordinary(value) for value in variation.tried)}
    for of_verdict, of_kinds, text in _ADVICE:
        if of_verdict == verdict and (not of_kinds or kinds & set(of_kinds)):
            yield Padding(Text("→ ", "blue").append_text(Text(text, "not bold cyan")), (0, 0, 0, 2))


def _is_ordinary(value: TriedValue) -> bool:
    return not value.is_special and value.outcome != "fails_eager"


def _untried(variations: Sequence[Variation], *, is_verbose: bool) -> Padding:
    """The reasons, each with the properties it applies to."""
    by_reason: dict[str, list[Variation]] = {}
    for variation in variations:
        by_reason.setdefault(variation.reason or "", []).append(variation)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(overflow="fold", ratio=2)
    table.add_column(overflow="fold", ratio=3, style="dim")
    for reason, group in by_reason.items():
        distinct = list(dict.fromkeys(variation.expression for variation in group))
        shown = distinct if is_verbose else distinct[:_MAX_NAMES]
        names = ", ".join(shown)
        hidden = len(distinct) - len(shown)
        table.add_row(clean(names + (f" and {hidden} more" if hidden else "")), clean(reason))
    return Padding(table, (0, 0, 0, 2))
