"""A view as text, a document as a page, and a page as its reader sees it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from graphdoctor.views.formats import Document, RenderOptions
from graphdoctor.views.parts import (
    Blocks,
    Card,
    Cards,
    Code,
    Diff,
    Drawing,
    Figures,
    Note,
    Part,
    Row,
    Rows,
    Section,
    Source,
    Table,
    Verdict,
    View,
    blocks,
    plain_text,
)
from graphdoctor.views.terminal import write_view


def on_terminal(view: View, *, width: int = 80, is_verbose: bool = False) -> str:
    """What a terminal shows, without colors."""
    stream = StringIO()
    write_view(view, Console(file=stream, width=width, color_system=None), is_verbose=is_verbose)
    return stream.getvalue()


def page_of(document: Document[Any], shown: object, **options: Any) -> str:
    """The page of what a document shows."""
    return str(
        document.named("html").render(shown, RenderOptions(**{"root": Path("/project"), **options}))
    )


def in_file(folder: Path, page: str, name: str = "page") -> Path:
    """A page in a file, for a browser."""
    file = folder / f"{name}.html"
    file.write_text(page, encoding="utf-8")
    return file


def text_of(markup: str) -> str:
    """Markup as a person reads it; the parts of a line of code stand in spans."""
    body = re.sub(r"<(script|style)\b.*?</\1>|</?span\b[^>]*>", "", markup, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def section_of(page: str, name: str) -> str:
    """The markup of one section; empty if the page doesn't have it."""
    found = re.search(rf'<section id="{name}".*?</section>', page, flags=re.DOTALL)
    return found[0] if found else ""


def statements(parts: Blocks, *, is_page: bool = False) -> Iterator[str]:
    """Every text of a tree that has to be in all outputs: all but short forms and lines of the
    program.

    Of a page (``is_page``), what it draws is left out.
    """
    for part in blocks(parts):
        inner: Blocks = ()
        match part:
            case Part(show="short") | Source():
                pass
            case Drawing():
                inner = () if is_page else part.elsewhere
            case Verdict(text) | Note(text):
                yield plain_text(text)
            case Figures(figures):
                yield from (
                    text
                    for figure in figures
                    for text in (figure.label, figure.value, figure.note)
                    if text
                )
            case Table(columns, rows) if rows:
                yield from (plain_text(column.heading) for column in columns)
                yield from (
                    plain_text(text)
                    for row in rows
                    for cell in row
                    for text in (cell.text, cell.detail)
                )
            case Rows(rows):
                inner = rows
            case Row(label, body):
                yield plain_text(label)
                inner = body if isinstance(body, tuple) else (body,)
            case Card():
                yield from (
                    text for heading in part.headings for text in (heading.code, heading.message)
                )
                yield part.place.shown
                inner = part.parts
            case Cards(cards):
                inner = cards
            case Code(text) | Diff(text):
                yield from text.splitlines()
            case Section(title, body) if any(True for _ in statements(body, is_page=is_page)):
                yield plain_text(title)
                inner = body
        yield from statements(inner, is_page=is_page)
