"""Documents that aren't trees, as text: a lint report, one line for each finding in the form of
compilers and ruff, and the documentation of rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.markdown import CodeBlock, Markdown, Paragraph
from rich.text import Text

from graphdoctor.facts.base import values_of
from graphdoctor.facts.check import LintReport
from graphdoctor.facts.command import rule_url
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.views.json import json_text
from graphdoctor.views.next_step import explained
from graphdoctor.views.terminal import SEVERITIES
from graphdoctor.views.terminal_lines import Indented, Prose, clean, code, cut_lines, write
from graphdoctor.views.words import fix_text
from graphdoctor.wording import counted

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from graphdoctor.rules.diagnosis.rule import Page

_MANY = 3


def render_lint(report: LintReport, console: Console) -> None:
    """Write the findings, each with its source line and first suggestion, then their number."""
    for finding in report.findings:
        for line in _lines(finding):
            console.print(line, soft_wrap=True)
    recorded = f"also checks functions seen in the last run ({report.recording})."
    for note in (*([] if report.recording is None else [recorded]), *report.notes):
        console.print(clean(f"note: {note}"), soft_wrap=True)
    console.print(_summary(report), soft_wrap=True, highlight=False)
    if (then := explained(finding.code for finding in report.findings)) is not None:
        console.print(f"Next: {then}", soft_wrap=True, highlight=False)


def _lines(finding: Finding) -> Iterator[Text]:
    location = finding.location
    place = f"{location.file}:{location.line}:{location.column or 1}: "
    yield Text.assemble(
        clean(place, "bold"),
        clean(finding.code, SEVERITIES[finding.severity]),
        clean(f" {finding.message}"),
    )
    if location.text:
        yield clean(f"  {location.line} | {location.text}")
    if finding.fixes:
        fix, title = finding.fixes[0], fix_text(finding.fixes[0])
        is_short = fix.snippet is not None and "\n" not in fix.snippet
        yield Text.assemble(
            ("  = help: ", "bold"), clean(f"{title}: {fix.snippet}" if is_short else title)
        )


def _summary(report: LintReport) -> str:
    new = len(report.findings)
    noun = "new finding" if report.known else "finding"
    what = counted(new, noun) if new else f"No {noun}s"
    where = (
        f" in {counted(report.function_count, 'compiled function')} of"
        f" {counted(report.file_count, 'file')}"
    )
    allowed = new - report.failing_count
    others = {
        "below fail-on": allowed,
        "in the baseline": len(report.known),
        "ignored": report.ignored_count,
    }
    return (
        f"{what}{where}{''.join(f', {count} {name}' for name, count in others.items() if count)}."
    )


def render_rules(rules: Sequence[Page], console: Console) -> None:
    """Write up to three rules in full, more in a line each."""
    if len(rules) > _MANY:
        widest = max(len(rule.name) for rule in rules)
        write(
            console,
            cut_lines(
                [Text(f"{rule.code}  {rule.name:<{widest}}  {rule.title()}") for rule in rules]
            ),
        )
        return
    for rule in rules:
        console.print(Text(f"{rule.code} {rule.name}", "bold"), Text(f"({rule.severity})", "dim"))
        write(console, _Page(rule.documentation()))
        console.print()
        if url := rule_url(rule.code):
            console.print(Text(url, "dim"), soft_wrap=True)
            console.print()


class _CodeBlock(CodeBlock):
    """Code that means the same when it is pasted."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The block, with an indent."""
        yield from (Text(), Indented(code(str(self.text).rstrip()), Text(" ")), Text())


class _Paragraph(Paragraph):
    """Text whose names stay whole."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        yield Prose(self.text)


class _Page(Markdown):
    """A rule's page."""

    elements: ClassVar = {
        **Markdown.elements,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "paragraph_open": _Paragraph,
    }


def rules_json(rules: Sequence[Page]) -> str:
    """Return the rules with their documentation by section."""
    described = (
        values_of(rule, "code", "name", "severity")
        | {"title": rule.title(), "sections": dict(rule.sections()), "url": rule_url(rule.code)}
        for rule in rules
    )
    return json_text(list(described))
