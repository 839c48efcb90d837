"""A profile as Markdown for an issue or a pull request.

Comes in: a ``ProfileReport``. Goes out: GitHub's Markdown, no longer than GitHub accepts: the answer, the lines and
kernels that take most of the time, what to do; the rest is folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted
from graphdoctor.views import bench_words
from graphdoctor.views import profile_words as words
from graphdoctor.views.bench_words import time_text
from graphdoctor.views.markdown import Section, document
from graphdoctor.views.markdown_text import code, plain, sentence
from graphdoctor.views.words import suggested, worth_trying

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Finding
    from graphdoctor.facts.profile import ProfiledKernel, ProfiledLine, ProfileReport

_ANSWER = 1000
"""Characters of the answer."""
_NAME = 60
_TEXT = 60
"""Characters of a line of code."""


def render_profile_markdown(report: ProfileReport, *, root: Path) -> str:
    """The answer, the tables, what to do.

    Args:
        report: What to write.
        root: Paths below it are shown relative to it.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    first, *rest = bench_words.title_parts(report)
    head = ["## graphdoctor", " · ".join([code(first), *map(plain, rest)])]
    head.append(f"**{sentence(words.answer_text(report), _ANSWER)}**")
    if measured := words.measured_text(report):
        head.append(plain(measured))
    return document(head, _sections(report, words.Files(report, root)))


def _sections(report: ProfileReport, files: words.Files) -> Iterator[Section]:
    yield Section([f"- {sentence(each)}" for each in words.advice(report)], "way", "### What helps\n\n")
    if report.lines:
        yield _lines(report, files)
    if report.kernels:
        yield _kernels(report)
    findings = [_finding(finding, files) for finding in report.findings]
    yield Section(findings, "finding", "### What to do\n\n")
    yield Section([f"- {sentence(gap.message)}" for gap in report.gaps], "gap", "### Unknown\n\n")
    yield Section(
        [f"- {plain(text)}" for text in _facts(report, files)], "fact", summary="Fusion, memory, CUDA graphs and caches"
    )


def _lines(report: ProfileReport, files: words.Files) -> Section:
    has_backward = words.has_backward(report)
    phases = ["forward", "backward"] if has_backward else ["time"]
    head = f"### By line\n\n| share | {' | '.join(phases)} | line | code | waits for |\n"
    head += f"| ---: |{' ---: |' * len(phases)} --- | --- | --- |\n"
    shown = report.lines[: words.FEW]
    rows = [_line(line, files, has_backward=has_backward) for line in shown]
    blank = " |" * len(phases)
    if len(shown) < len(report.lines):
        hidden = report.lines[len(shown) :]
        share = words.small_percent(sum(line.share for line in hidden))
        rows.append(f"| {share} |{blank} {counted(len(hidden), 'more line')} | | |")
    rows += [
        f"| {words.small_percent(part.share)} |{blank} {time_text(part.us)} {part.name} | | |"
        for part in words.rest_parts(report)
    ]
    return Section(rows, "row", head)


def _line(line: ProfiledLine, files: words.Files, *, has_backward: bool) -> str:
    times = [words.phase_time(line.forward_us), words.phase_time(line.backward_us)][: 2 if has_backward else 1]
    place = code(files.place(line.file, line.line))
    text = code(line.text or "", _TEXT)
    return f"| {words.small_percent(line.share)} | {' | '.join(times)} | {place} | {text} | {line.bound_by or ''} |"


def _kernels(report: ProfileReport) -> Section:
    head = "### By kernel\n\n| share | time | calls | kernel | kind | operations | line | reaches | waits for |\n"
    head += "| ---: | ---: | ---: | --- | --- | --- | --- | --- | --- |\n"
    shown = report.kernels[: words.FEW]
    rows = [_kernel(kernel) for kernel in shown]
    if len(shown) < len(report.kernels):
        hidden = report.kernels[len(shown) :]
        us, share = sum(kernel.time_us for kernel in hidden), sum(kernel.share for kernel in hidden)
        more = counted(len(hidden), "more kernel")
        rows.append(f"| {words.small_percent(share)} | {time_text(us)} | | {more} | | | | | |")
    return Section(rows, "kernel", head)


def _kernel(kernel: ProfiledKernel) -> str:
    cells = (
        words.small_percent(kernel.share),
        time_text(kernel.time_us),
        str(kernel.calls),
        code(words.short_name(words.kernel_name(kernel), _NAME)),
        f"{kernel.kind}, backward" if kernel.phase == "backward" else kernel.kind,
        plain(words.operations_text(kernel)),
        code(words.lines_text(kernel)),
        words.rates_text(kernel),
        kernel.bound_by or "",
    )
    return f"| {' | '.join(cells)} |"


def _finding(finding: Finding, files: words.Files) -> str:
    location = finding.location
    place = f" {code(files.place(location.shown_file, location.line))}" if location.file else ""
    text = f"- **{plain(finding.code)}**{place} {sentence(finding.message)}"
    for fix in worth_trying(finding.fixes)[:1]:
        text += f"  \n  Try: {suggested(fix, sentence(fix.title))}"
    return text


def _facts(report: ProfileReport, files: words.Files) -> Iterator[str]:
    for label, texts in words.fact_texts(report, files, is_short=True):
        yield from (f"{label}: {text}" for text in texts)
    if note := words.sum_note(report):
        yield note
