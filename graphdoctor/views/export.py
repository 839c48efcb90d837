"""An export on the terminal: the answer, each way, what blocks it, which sizes can stay dynamic, what to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from graphdoctor.facts.wording import counted
from graphdoctor.views import export_words as words
from graphdoctor.views.cards import Code, clean, diff_text, finding_card, labeled_rows, write
from graphdoctor.views.words import base_name, first_sentence

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.export import ExportBlocker, ExportReport, ExportWay
    from graphdoctor.views.words import Tone

_TONES: dict[Tone, str] = {"good": "bold green", "warning": "bold yellow", "bad": "bold red"}
_MAX_DIMS = 12
_MAX_BREAKS = 6


def render_export(report: ExportReport, console: Console, *, is_verbose: bool = False) -> None:
    """Write an export to a terminal.

    Args:
        report: What to show.
        console: Where to.
        is_verbose: Add the programs' inputs, all constraints, and torch's full messages.
    """
    for renderable in _report(report, is_verbose=is_verbose):
        write(console, renderable)


def _report(report: ExportReport, *, is_verbose: bool) -> Iterator[RenderableType]:
    first, *rest = words.title_parts(report)
    title = clean(first, "bold")
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    yield title
    yield Text()
    yield clean(report.text, _TONES[words.tone(report)])
    if report.is_wrapped:
        yield clean("The target is a function; torch.export takes modules, so it was wrapped in one.", "dim")
    if (calls := words.calls_text(report)) is not None:
        yield clean(calls, "dim")
    yield Text()
    yield labeled_rows((words.flag(is_strict=way.is_strict), _way(way, report)) for way in report.ways)
    for way in report.ways:
        yield from _details(way, is_verbose=is_verbose)
    for group in words.blocked_groups(report):
        for blocker in group[-1].blockers:
            yield Text()
            yield from _blocker(blocker, group, is_verbose=is_verbose)
    if any(way.blockers and not way.is_cured for way in report.ways):
        yield Text()
        yield clean(words.FIRST_ONLY, "dim")
    yield from _cured(report, is_verbose=is_verbose)
    yield from _later(report)
    yield from _dynamic(report, is_verbose=is_verbose)
    if (line := words.to_paste(report)) is not None:
        yield Text()
        yield clean("Export it so", "bold")
        yield labeled_rows([("", Code(line))])
    if (static := words.static_text(report)) is not None:
        yield clean(static, "dim")
    if report.gaps:
        yield Text()
        yield labeled_rows((("unknown", clean(gap.message)) for gap in report.gaps), style="dim")
    codes = sorted({blocker.finding.code for way in report.ways for blocker in way.blockers})
    if codes:
        yield Text()
        yield clean(f"Read more: graphdoctor rule {codes[0]}", "dim")


def _way(way: ExportWay, report: ExportReport) -> Text:
    style = {"exported": "green", "unknown": "yellow"}.get(way.status, "yellow" if way.is_cured else "red")
    text = clean(words.way_text(way), style)
    for said in words.left_out_texts(way, report):
        text.append("\n").append_text(clean(said, "dim"))
    return text


def _details(way: ExportWay, *, is_verbose: bool) -> Iterator[RenderableType]:
    """The inputs of a program, and the conditions on them."""
    if not is_verbose or not way.inputs:
        return
    yield Text()
    yield clean(f"Inputs with {words.flag(is_strict=way.is_strict)}", "bold")
    yield labeled_rows(
        (one.name, clean(" ".join(part for part in (one.value, one.kind, one.target) if part))) for one in way.inputs
    )
    if way.constraints:
        yield labeled_rows(("checks", clean(one)) for one in way.constraints)


def _blocker(blocker: ExportBlocker, group: Sequence[ExportWay], *, is_verbose: bool) -> Iterator[RenderableType]:
    yield clean(words.blocker_heading(blocker, group), "bold")
    yield from finding_card([blocker.finding], is_verbose=is_verbose, has_path=is_verbose)


def _cured(report: ExportReport, *, is_verbose: bool) -> Iterator[RenderableType]:
    """What the verified fixes come to."""
    for group in words.cured_groups(report):
        flags = " and ".join(words.flag(is_strict=way.is_strict) for way in group)
        verb = "exports" if len(group) == 1 else "export"
        yield Text()
        yield clean(f"With these fixes, {flags} {verb}, and results equal eager mode's", "bold green")
        if group[0].diff:
            yield labeled_rows([("", diff_text(group[0].diff, is_whole=is_verbose))])
        if group[0].settings:
            yield labeled_rows([("first", Code("\n".join(group[0].settings)))])


def _later(report: ExportReport) -> Iterator[RenderableType]:
    """Where strict export may stop next."""
    if not report.breaks:
        return
    yield Text()
    yield clean("torch.compile also breaks here, so strict=True may stop here next", "bold")
    rows = [
        (
            finding.code,
            clean(f"{base_name(finding.location.file)}:{finding.location.line} {first_sentence(finding.message)}"),
        )
        for finding in report.breaks[:_MAX_BREAKS]
    ]
    if len(report.breaks) > _MAX_BREAKS:
        rows.append(("", clean(f"and {counted(len(report.breaks) - _MAX_BREAKS, 'more line')}", "dim")))
    yield labeled_rows(rows)


def _dynamic(report: ExportReport, *, is_verbose: bool) -> Iterator[RenderableType]:
    dynamic = report.dynamic
    if dynamic is None:
        return
    yield Text()
    yield clean(f"Dynamic sizes, with {words.flag(is_strict=dynamic.is_strict)}", "bold")
    tone = {"exported": "green" if dynamic.line else "yellow", "unknown": "yellow"}.get(dynamic.status, "red")
    yield clean(words.dynamic_text(dynamic), tone)
    shown = dynamic.dims if is_verbose else dynamic.dims[:_MAX_DIMS]
    rows = [
        (words.dim_name(dim), clean(words.dim_text(dim, dynamic), "" if dim.is_dynamic else "dim")) for dim in shown
    ]
    if len(dynamic.dims) > len(shown):
        rows.append(("", clean(f"and {counted(len(dynamic.dims) - len(shown), 'more size')} (-v shows all)", "dim")))
    rows += [("checks", clean(one)) for one in (dynamic.constraints if is_verbose else dynamic.constraints[:4])]
    if rows:
        yield labeled_rows(rows)
    if dynamic.blocker is not None:
        yield Text()
        yield from finding_card([dynamic.blocker.finding], is_verbose=is_verbose, has_path=is_verbose)
