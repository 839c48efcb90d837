"""An export as Markdown for a pull request or an issue.

Comes in: an ``ExportReport``. Goes out: GitHub's Markdown, no longer than GitHub accepts: the answer, each way, what
blocks it, which sizes stay dynamic, what to paste.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted
from graphdoctor.views import export_words as words
from graphdoctor.views.markdown import Section, document
from graphdoctor.views.markdown_text import code, fenced, plain, sentence
from graphdoctor.views.words import suggested, worth_trying

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Location
    from graphdoctor.facts.export import ExportBlocker, ExportReport, ExportWay

_ANSWER = 2000
"""Characters of an answer that repeats what torch said."""


def render_export_markdown(report: ExportReport) -> str:
    """The answer, the ways, what blocks them, sizes, and the code.

    Args:
        report: What to write.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    first, *rest = words.title_parts(report)
    head = ["## graphdoctor", " · ".join([code(first), *map(plain, rest)])]
    return document([*head, f"**{sentence(report.text, _ANSWER)}**"], _sections(report))


def _sections(report: ExportReport) -> Iterator[Section]:
    ways = [f"- {code(words.flag(is_strict=way.is_strict))} {_way(way, report)}" for way in report.ways]
    yield Section(ways, "way")
    for group in words.blocked_groups(report):
        blockers = [_blocker(blocker) for blocker in group[-1].blockers]
        yield Section(blockers, "blocker", f"### {plain(words.blocker_heading(group[-1].blockers[0], group))}\n\n")
    for fixed in words.cured_groups(report):
        lines = [*fixed[0].settings]
        edits = "\n".join(fenced(fixed[0].diff.rstrip(), "diff")) if fixed[0].diff else ""
        run_first = "\n".join(fenced("\n".join(lines), "python")) if lines else ""
        flags = " and ".join(words.flag(is_strict=way.is_strict) for way in fixed)
        yield Section([part for part in (edits, run_first) if part], "edit", f"### With this, {plain(flags)} works\n\n")
    yield from _dynamic(report)
    if (line := words.to_paste(report)) is not None:
        yield Section(["\n".join(fenced(line, "python"))], "line", "### Export it so\n\n")
    breaks = [
        f"- **{plain(found.code)}** {code(_place(found.location))} {sentence(found.message)}" for found in report.breaks
    ]
    yield Section(breaks, "line", summary=f"torch.compile also breaks at {counted(len(breaks), 'line')}")
    yield Section([f"- {sentence(gap.message)}" for gap in report.gaps], "gap", "### Unknown\n\n")


def _way(way: ExportWay, report: ExportReport) -> str:
    notes = "".join(f"  \n  {sentence(said)}" for said in words.left_out_texts(way, report))
    return f"{sentence(words.way_text(way), _ANSWER)}{notes}"


def _blocker(blocker: ExportBlocker) -> str:
    finding = blocker.finding
    text = f"- **{plain(finding.code)}** {code(_place(finding.location))} {sentence(finding.message)}"
    if finding.torch_reason:
        text += f"  \n  {plain(finding.torch_reason)}"
    for fix in worth_trying(finding.fixes)[:1]:
        label = "Try" if fix.verdict == "not tried" else fix.verdict.capitalize()
        text += f"  \n  {plain(label)}: {suggested(fix, sentence(fix.title))}"
    return text


def _place(location: Location) -> str:
    return f"{location.shown_file}:{location.line}"


def _dynamic(report: ExportReport) -> Iterator[Section]:
    dynamic = report.dynamic
    if dynamic is None:
        return
    rows = [f"- {code(words.dim_name(dim))} {sentence(words.dim_text(dim, dynamic))}" for dim in dynamic.dims]
    rows += [f"- checks {code(one)}" for one in dynamic.constraints]
    flag = plain(words.flag(is_strict=dynamic.is_strict))
    yield Section([sentence(words.dynamic_text(dynamic), _ANSWER)], "line", f"### Dynamic sizes, with {flag}\n\n")
    yield Section(rows, "size")
