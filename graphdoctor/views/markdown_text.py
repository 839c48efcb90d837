"""Text from outside as GitHub's Markdown, shown as it is: no markup, no links, no mentions.

Comes in: any text. Goes out: Markdown for one line of a paragraph, a list or a table; code
blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from graphdoctor.views.printable import printable, printable_lines

_ACTIVE = re.compile(r"[\\`*_\[\]~$!]")
# GitHub turns names after @, numbers after # or GH-, and addresses into links, and :words: into pictures. Escapes don't
# prevent that; a zero-width space between the two parts does.
_LINKED = re.compile(r"@(?=\S)|#(?=\d)|\bGH-(?=\d)|:(?=//)|\bwww(?=\.)|:(?=[\w+-]+:)", re.IGNORECASE)
# Code may itself hold backticks, in a string: they stand next to quotes or names.
_SPANS = re.compile(r"(?<![^\s(\[])`(\S|\S.*?\S)`(?![^\s.,:;!?)\]'-])")


def one_line(text: str, limit: int) -> str:
    """Text without newlines and control characters, cut at ``limit`` characters."""
    line = printable(" ".join(re.split(r"[ \t\r\n]+", text)).strip())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def plain(text: str, limit: int = 300) -> str:
    """Text without markup."""
    return _plain(one_line(text, limit))


def sentence(text: str, limit: int = 300) -> str:
    """A sentence of graphdoctor's, with code between backticks."""
    parts = _SPANS.split(one_line(text, limit))
    return "".join(code(part, limit) if number % 2 else _plain(part) for number, part in enumerate(parts))


def code(text: str, limit: int = 200) -> str:
    """Text as code; empty for empty text."""
    line = one_line(text, limit)
    if not line:
        return ""
    return html_code(line, limit) if "`" in line or "|" in line else f"`{line}`"


def html_code(text: str, limit: int = 200) -> str:
    """Like ``code``, for places where Markdown isn't read, such as a ``<summary>``."""
    line = escape(one_line(text, limit), quote=False)
    return f"<code>{_ACTIVE.sub(_entity, line).replace('|', '&#124;')}</code>"


def fenced(text: str, language: str = "") -> Iterator[str]:
    """The lines of a code block, with a fence longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield printable_lines(text)
    yield fence


def _plain(line: str) -> str:
    # A control character holds the place until all escaping is done.
    marked = _LINKED.sub("\\g<0>\0", line)
    escaped = escape(_ACTIVE.sub(r"\\\g<0>", marked), quote=False)
    return escaped.replace("|", "&#124;").replace("\0", "&#8203;")


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"
