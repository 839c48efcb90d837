"""Codes -> their pages.

Comes in: the pages of ``graphdoctor.rules.catalog``. Goes out: Markdown by path, made of their
docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphdoctor.rules.catalog import PAGES
from graphdoctor.rules.diagnosis.rule import Page

FAMILIES = {
    "GD1": "Graph breaks",
    "GD2": "Recompiles",
    "GD3": "Guards",
    "GD4": "Compile time and graphs",
    "GD5": "Backends and kernels",
    "GD6": "Exports",
    "GD9": "Your program and the recording",
}
"""Headings by the beginning of a code."""


_CODE = re.compile(r"```.*?```|`[^`]*`|\b(GD\d{3})\b", re.DOTALL)
"""Code, which stays as it is, or a rule's code, which becomes a link."""


def rule_pages() -> Iterator[tuple[str, str]]:
    """The overview, then one page for each code: path below docs/ and text."""
    yield "rules/index.md", _overview()
    for rule in PAGES.values():
        yield page_path(rule), _page(rule)


def page_path(rule: Page) -> str:
    """Where a rule's page is; ``graphdoctor.facts.command.rule_url`` links to it."""
    return f"rules/{rule.code}.md"


def families() -> Iterator[tuple[str, list[Page]]]:
    """Pages under their headings, in order of their codes."""
    for start, heading in FAMILIES.items():
        if found := [rule for code, rule in PAGES.items() if code.startswith(start)]:
            yield heading, found
    strays = [code for code in PAGES if code[:3] not in FAMILIES]
    if strays:
        raise ValueError(f"no heading for {', '.join(strays)}: add one to FAMILIES")


def _overview() -> str:
    lines = [
        "# Rules",
        "",
        "Every finding has the code of its rule; what a recording lacks has a code in GD9.",
        "`graphdoctor rule CODE` prints the same text in the terminal.",
        "",
    ]
    for heading, rules in families():
        lines += [f"## {heading}", "", "| code | name | severity | finds |", "|---|---|---|---|"]
        lines += [
            f"| [{rule.code}]({rule.code}.md) | `{rule.name}` | {rule.severity} | {rule.title()} |"
            for rule in rules
        ]
        lines.append("")
    return "\n".join(lines)


def _page(rule: Page) -> str:
    _, _, text = rule.documentation().partition("\n")
    body = _CODE.sub(lambda found: _link(found, rule), text)
    return "\n".join(
        [
            f"# {rule.code} {rule.name}",
            "",
            f"**{rule.title()}**",
            "",
            f"Severity: {rule.severity} · In the terminal: `graphdoctor rule {rule.code}`",
            body,
            "",
        ]
    )


def _link(found: re.Match[str], rule: Page) -> str:
    code = found[1]
    return f"[{code}]({code}.md)" if code in PAGES and code != rule.code else found[0]
