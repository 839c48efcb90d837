"""A view as text, a document as a page, and a page as its reader sees it."""

from __future__ import annotations

import html
import re
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from graphdoctor.views.formats import Document, RenderOptions
from graphdoctor.views.parts import View
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
