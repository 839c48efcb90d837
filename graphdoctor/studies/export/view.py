"""What an export came to: the answer, each way, what blocks it, which sizes can stay dynamic, what
to paste.

Comes in: an ``ExportReport``. Goes out: a view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.bench import Correctness
from graphdoctor.facts.export import DynamicShapes, ExportDim, ExportReport, ExportWay, WayStatus
from graphdoctor.facts.trials import ResultKind
from graphdoctor.views.finding_cards import card_of
from graphdoctor.views.next_step import after_export
from graphdoctor.views.parts import (
    Block,
    Code,
    Diff,
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
from graphdoctor.wording import counted

_KINDS = {
    "user_input": "argument",
    "parameter": "parameter",
    "buffer": "buffer",
    "constant_tensor": "constant tensor",
    "custom_obj": "object",
    "token": "token",
}
"""torch's kinds of inputs (``torch/export/graph_signature.py``, 2.13) in words."""

_UNWRITTEN: dict[ResultKind, str] = {
    "stdout": "The program doesn't print what eager mode prints.",
    "logs": "The program doesn't log or warn as eager mode does.",
}
_MAX_NAMES = 4
_MAX_DIMS = 12
_MAX_BREAKS = 6
_MAX_CONSTRAINTS = 4


def export_view(report: ExportReport) -> View:
    """The report as a tree."""
    return study_view(report, "export", _parts(report), after_export(report))


def _parts(report: ExportReport) -> Iterator[Block]:
    is_cured = any(way.is_cured for way in report.ways)
    yield Verdict(
        report.text, "good" if report.best is not None else "warning" if is_cured else "bad"
    )
    if report.is_wrapped:
        yield Note(
            "The target is a function; torch.export takes modules, so it was wrapped in one.", "dim"
        )
    if report.calls_other:
        numbers = ", ".join(map(str, report.calls_other))
        yield Note(
            f"Calls with other arguments than the first one weren't made: {numbers}. An exported program takes the "
            "arguments that it was exported with, in other sizes at most.",
            "dim",
        )
    yield Section(
        "What torch.export says", Rows(_way(way, report) for way in report.ways), short="Ways"
    )
    yield from (_inputs(way) for way in report.ways)
    for group in blocked_groups(report):
        for blocker in group[-1].blockers:
            said = f" {_verb(group, 'stops', 'stop')} here"
            start = "With the fix before, " if blocker.is_behind else ""
            card = card_of([blocker.finding], has_path=False)
            yield Section((start, _flags(group), said), card, blocker.finding.code)
    if any(way.blockers and not way.is_cured for way in report.ways):
        yield Note(
            "torch stops at the first thing that it can't export; more may come after it.", "dim"
        )
    yield from (_cured(group) for group in cured_groups(report))
    found = (
        (one.code, (short_place(one.location), f" {first_sentence(one.message)}"))
        for one in report.breaks
    )
    breaks = Rows((Row(code, Note(said)) for code, said in found), "line", _MAX_BREAKS)
    yield Section(
        "torch.compile also breaks here, so strict=True may stop here next", breaks, short="Breaks"
    )
    if report.dynamic is not None:
        yield _dynamic(report.dynamic)
    if (line := to_paste(report)) is not None:
        static = "The program takes the sizes that it was exported with. --dynamic tries which can stay dynamic."
        is_static = report.dynamic is None
        yield Section(
            "Export it so",
            (Code(line), *([Note(static, "dim")] if is_static else [])),
            short="Code",
        )
    yield unknown_section(report.gaps)


def _flag(*, is_strict: bool) -> Span:
    return Span(f"strict={is_strict}", "code")


def _flags(group: Sequence[ExportWay]) -> Inline:
    return joined([_flag(is_strict=way.is_strict) for way in group], " and ")


def _verb(group: Sequence[ExportWay], one: str, several: str) -> str:
    return one if len(group) == 1 else several


def _way(way: ExportWay, report: ExportReport) -> Row:
    tone: Tone = (
        "good"
        if way.status == "exported"
        else "warning"
        if way.is_cured or way.status == "unknown"
        else "bad"
    )
    said = (Note(text, "dim") for text in left_out_texts(way, report))
    return Row(_flag(is_strict=way.is_strict), (Note(_way_text(way), tone), *said))


def _way_text(way: ExportWay) -> str:
    match way.status:
        case "failed":
            return f"fails: {way.reason}"
        case "blocked":
            cured = "; exports with the verified fixes" if way.is_cured else ""
            return f"refused{cured}" if way.blockers else f"refused: {way.reason}"
        case "different":
            said = f"exports, but computes something else: {way.reason}"
        case "unknown":
            said = f"exports; whether it is right is unknown: {way.reason}"
        case _:
            said = f"exports{_correctness(way.correctness)}"
    kinds = Counter(_KINDS.get(one.kind, one.kind.replace("_", " ")) for one in way.inputs)
    inputs = ", ".join(counted(number, kind) for kind, number in kinds.items()) or "no inputs"
    seconds = "" if way.seconds is None else f", in {way.seconds:.1f} s"
    return f"{said}. {counted(way.op_count or 0, 'operation')}; {inputs}{seconds}."


def _correctness(correctness: Correctness | None) -> str:
    if correctness is None:
        return ""
    how = "bit by bit" if correctness.is_bitwise_equal else "up to rounding"
    return f", and computes the same as eager mode, {how}"


def left_out_texts(way: ExportWay, report: ExportReport) -> list[str]:
    """What the program leaves out that eager mode does, a sentence each."""
    texts = [text for kind, text in _UNWRITTEN.items() if kind in way.unwritten]
    if way.lost:
        names = few_text([f"`{name}`" for name in way.lost], _MAX_NAMES)
        texts.append(
            f"The program doesn't update {names}: of what modules keep, it changes only buffers."
        )
        if report.calls_made == 1:
            texts.append(
                "One call doesn't show whether later results depend on that; --calls 2 does."
            )
    return texts


def _inputs(way: ExportWay) -> Section:
    rows = [
        Row(
            Span(one.name),
            Span(" ".join(part for part in (one.value, one.kind, one.target) if part)),
        )
        for one in way.inputs
    ]
    rows += [Row("checks", Span(one, "code")) for one in way.constraints] if rows else []
    return Section(
        ("Inputs with ", _flag(is_strict=way.is_strict)), Rows(rows, "input"), show="long"
    )


def blocked_groups(report: ExportReport) -> list[list[ExportWay]]:
    """The ways that torch refuses; those for the same reasons together, the one of which torch says
    most last.
    """

    def reasons(way: ExportWay) -> Hashable:
        found = ((one.finding.code, one.finding.location, one.tried) for one in way.blockers)
        return tuple(
            (code, place.file, place.line, tuple((fix.title, fix.verdict) for fix in tried))
            for code, place, tried in found
        )

    return list(grouped((reasons(way), way) for way in report.ways if way.blockers).values())


def cured_groups(report: ExportReport) -> list[list[ExportWay]]:
    """The ways that export with verified fixes, those with the same fixes together."""
    return list(
        grouped(((way.diff, way.settings), way) for way in report.ways if way.is_cured).values()
    )


def _cured(group: Sequence[ExportWay]) -> Section:
    verb = _verb(group, "exports", "export")
    title = ("With these fixes, ", _flags(group), f" {verb}, and results equal eager mode's")
    parts: list[Block] = [Diff(group[0].diff)] if group[0].diff else []
    parts += (
        [Note("Run first:", "dim"), Code("\n".join(group[0].settings))] if group[0].settings else []
    )
    return Section(title, parts, "Fixes", tone="good")


def _dynamic(dynamic: DynamicShapes) -> Section:
    is_made = dynamic.status in ("exported", "unknown")
    tone: Tone = (
        "good" if dynamic.status == "exported" and dynamic.line else "warning" if is_made else "bad"
    )
    rows = tuple(
        Row(
            Span(_dim_name(dim), "code"),
            Note(dim_text(dim, dynamic), None if dim.is_dynamic else "dim"),
        )
        for dim in dynamic.dims
    )
    checks = tuple(Row("checks", Span(one, "code")) for one in dynamic.constraints)
    cards = () if dynamic.blocker is None else (card_of([dynamic.blocker.finding], has_path=False),)
    sizes = (Rows(rows, "size", _MAX_DIMS), Rows(checks, "condition", _MAX_CONSTRAINTS))
    title = ("Dynamic sizes, with ", _flag(is_strict=dynamic.is_strict))
    return Section(title, (Note(_dynamic_text(dynamic), tone), *sizes, *cards), short="Sizes")


def _dynamic_text(dynamic: DynamicShapes) -> str:
    works = f"With other sizes, the program works{_correctness(dynamic.correctness)}."
    texts: dict[WayStatus, str] = {
        "exported": works
        if dynamic.line is not None
        else f"No size stays dynamic: {dynamic.reason}.",
        "blocked": f"With dynamic sizes, torch.export refuses: {dynamic.reason}",
        "different": f"With other sizes, the program doesn't do what eager mode does: {dynamic.reason}.",
    }
    return texts.get(
        dynamic.status,
        f"Whether the program is right with other sizes is unknown: {dynamic.reason}.",
    )


def _dim_name(dim: ExportDim) -> str:
    return f"{dim.source}.shape[{dim.dim}]"


def dim_text(dim: ExportDim, dynamic: DynamicShapes) -> str:
    """What became of a dim."""
    if not dim.is_dynamic:
        made = "" if dim.reason else ", made a constant"
        if dim.location is not None:
            line = f" `{dim.location.text}`" if dim.location.text else ""
            made = f", made a constant by {short_place(dim.location).shown}{line}"
        return f"always {dim.size}{made}" + (f": {dim.reason}" if dim.reason else "")
    limits = f"{dim.low or 0} to {dim.high}" if dim.high is not None else f"{dim.low or 0} or more"
    alike = [
        _dim_name(one)
        for one in dynamic.dims
        if one.is_dynamic and one.expression == dim.expression
    ]
    said = f"dynamic, {limits}"
    if equal := [name for name in alike if name != _dim_name(dim)]:
        said += f", equal to {equal[0]}"
    elif dim.expression is not None and not dim.expression.isidentifier():
        said += f", {dim.expression}"
    tried = f"; run with {' and '.join(map(str, dim.other_sizes))}" if dim.other_sizes else ""
    return f"{said} (exported with {dim.size}{tried})"


def to_paste(report: ExportReport) -> str | None:
    """The line that makes the best program; None if there is none."""
    dynamic = report.dynamic
    if (
        dynamic is not None
        and dynamic.line is not None
        and dynamic.status in ("exported", "unknown")
    ):
        settings = [
            line
            for way in report.ways
            if way.is_strict == dynamic.is_strict
            for line in way.settings
        ]
        return "\n".join((*settings, dynamic.line))
    working = [way for way in report.ways if way.status in ("exported", "unknown")]
    working += [way for way in report.ways if way.is_cured]
    chosen = [
        way for way in working if report.best is None or way.is_strict == (report.best == "strict")
    ]
    return (
        "\n".join((*chosen[0].settings, chosen[0].line))
        if chosen and chosen[0].line is not None
        else None
    )
