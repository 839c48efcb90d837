"""The documentation of rules, as ``graphdoctor rule`` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.markdown import CodeBlock, Markdown, Paragraph
from rich.text import Text

from graphdoctor.facts.command import rule_url
from graphdoctor.views.terminal_lines import Indented, Prose, code, cut_lines, write

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from graphdoctor.rules.diagnosis.rule import Page


_MANY = 3


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


def described(rules: Sequence[Page]) -> list[dict[str, object]]:
    """The rules for JSON, with their documentation by section."""
    return [
        {
            "code": rule.code,
            "name": rule.name,
            "severity": rule.severity,
            "title": rule.title(),
            "sections": dict(rule.sections()),
            "url": rule_url(rule.code),
        }
        for rule in rules
    ]
