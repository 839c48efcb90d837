"""An ``ExportReport`` in, its view out: the answer, each way, what blocks it, what to paste."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.export import Best, ExportReport, ExportWay, WayStatus
from graphdoctor.facts.trials import ResultKind
from graphdoctor.views.finding_cards import card_of
from graphdoctor.views.next_step import after_export
from graphdoctor.views.parts import (
    Block,
    Code,
    Inline,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Tone,
    Verdict,
    View,
    joined,
)
from graphdoctor.views.words import (
    few_text,
    first_sentence,
    short_place,
    study_view,
    unknown_section,
)
from graphdoctor.wording import counted, join_texts, shortened

_KINDS = {"user_input": "argument", "custom_obj": "object"}
"""torch's kinds of inputs (``torch/export/graph_signature.py``, 2.13) that have another name for
people."""

_UNWRITTEN: dict[ResultKind, str] = {
    "stdout": "Prints are lost in the exported program.",
    "logs": "Logs and warnings are lost in the exported program.",
}
_MAX_REASON = 160
"""Characters of a reason in the answer, which stands in full below it."""
_MAX_NAMES = 4
_MAX_BREAKS = 6


def export_view(report: ExportReport) -> View:
    """Return the report as a tree."""
    return study_view(report, "export", _parts(report), after_export(report))


def _parts(report: ExportReport) -> Iterator[Block]:
    yield Verdict(report.text, "bad" if report.best is None else "good")
    if report.is_wrapped:
        text = "The target is a function; torch.export takes modules, so it was wrapped in one."
        yield Note(text, "dim")
    if report.calls_other:
        numbers = ", ".join(map(str, report.calls_other))
        noun = "call" if len(report.calls_other) == 1 else "calls"
        yield Note(
            f"Skipped {noun} {numbers}: the arguments differ from the first call's, for which the"
            " program is exported.",
            "dim",
        )
    ways = Rows(_way(way, report) for way in report.ways)
    yield Section("What torch.export says", ways, anchor="Ways")
    for way in report.ways:
        inputs = [
            Row(Span(input_.name), Span(join_texts(" ", input_.value, input_.kind, input_.target)))
            for input_ in way.inputs
        ]
        inputs += [Row("checks", Span(text, "code")) for text in way.constraints if inputs]
        yield Section(("Inputs with ", _flags([way])), Rows(inputs, "input"), show="long")
    for group in blocked_groups(report):
        stops = "stops" if len(group) == 1 else "stop"
        for blocker in group[-1].blockers:
            card = card_of([blocker.finding], has_path=False)
            yield Section((_flags(group), f" {stops} here"), card, blocker.finding.code)
    if any(way.blockers for way in report.ways):
        text = "torch stops at the first thing that it can't export; more may come after it."
        yield Note(text, "dim")
    breaks = [
        Row(
            finding.code,
            Note((short_place(finding.location), f" {first_sentence(finding.message)}")),
        )
        for finding in report.breaks
    ]
    next_stop = "torch.compile also breaks here, so strict=True may stop here next"
    yield Section(next_stop, Rows(breaks, "line", _MAX_BREAKS), anchor="Breaks")
    if (lines := to_paste(report)) is not None:
        text = (
            "The program takes only the sizes that it was exported with, unless dynamic_shapes says"
            " otherwise."
        )
        yield Section("To export it", (Code(lines), Note(text, "dim")), anchor="Code")
    yield unknown_section(report.gaps)


def answer(ways: Sequence[ExportWay], best: Best | None) -> str:
    """Return whether torch.export works, and the result of each way."""
    works = "works" if best is not None else "doesn't work"
    return f"torch.export {works}: {'; '.join(map(_result, ways))}."


def _result(way: ExportWay) -> str:
    why = shortened(way.reason or "torch doesn't say why", _MAX_REASON).rstrip(".")
    texts: dict[WayStatus, str] = {
        "exported": "computes what eager mode does",
        "unknown": f"may compute something else: {why}",
        "different": f"computes something else: {why}",
        "failed": f"fails: {why}",
        "blocked": f"is refused: {why}",
    }
    text = texts[way.status]
    if way.blockers:
        text = f"stops at {way.blockers[0].finding.location.shown}"
    return f"`strict={way.is_strict}` {text}"


def _flags(group: Sequence[ExportWay]) -> Inline:
    return joined([Span(f"strict={way.is_strict}", "code") for way in group], " and ")


def _way(way: ExportWay, report: ExportReport) -> Row:
    tones: dict[WayStatus, Tone] = {"exported": "good", "unknown": "warning"}
    said = (Note(text, "dim") for text in left_out_texts(way, report))
    return Row(_flags([way]), (Note(_way_text(way), tones.get(way.status, "bad")), *said))


def _way_text(way: ExportWay) -> str:
    match way.status:
        case "failed":
            return f"fails: {way.reason}"
        case "blocked":
            return "refused" if way.blockers else f"refused: {way.reason}"
        case "different":
            said = f"exports, but computes something else: {way.reason}"
        case "unknown":
            said = f"exports; whether it is right is unknown: {way.reason}"
        case _:
            said = "exports"
            if (correctness := way.correctness) is not None:
                how = "bit by bit" if correctness.is_bitwise_equal else "up to rounding"
                said += f", and computes the same as eager mode, {how}"
    kinds = Counter(_KINDS.get(input_.kind, input_.kind.replace("_", " ")) for input_ in way.inputs)
    inputs = ", ".join(counted(number, kind) for kind, number in kinds.items()) or "no inputs"
    seconds = "" if way.seconds is None else f", in {way.seconds:.1f} s"
    return f"{said}. {counted(way.op_count or 0, 'operation')}; {inputs}{seconds}."


def left_out_texts(way: ExportWay, report: ExportReport) -> list[str]:
    """Return the effects of eager mode that the program leaves out, a sentence each."""
    texts = [text for kind, text in _UNWRITTEN.items() if kind in way.unwritten]
    if way.lost:
        names = few_text([f"`{name}`" for name in way.lost], _MAX_NAMES)
        texts.append(
            f"Updates of {names} are lost in the exported program: it updates only buffers."
        )
        if report.calls_made == 1:
            texts.append("Later results may depend on that: check with --calls 2.")
    return texts


def blocked_groups(report: ExportReport) -> list[list[ExportWay]]:
    """Group the ways that torch refuses by reason."""

    def reasons(way: ExportWay) -> Hashable:
        findings = (blocker.finding for blocker in way.blockers)
        return tuple((finding.code, *finding.location.at) for finding in findings)

    return list(grouped((reasons(way), way) for way in report.ways if way.blockers).values())


def to_paste(report: ExportReport) -> str | None:
    """Return the line that makes the best program; None if there is none."""
    is_strict = report.best == "strict"
    best = (way for way in report.ways if way.is_strict == is_strict)
    return None if report.best is None else next(best).line
