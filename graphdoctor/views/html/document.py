"""A whole HTML document: template, style, scripts, and a policy against loading anything else.

The page loads no file and contacts no host: a policy in its head forbids that, and runs only the
scripts written here. All text from outside (paths, source, messages, arguments) goes through
``printable_lines`` and Jinja's escaping or, for scripts, through ``packed``.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from graphdoctor import wording
from graphdoctor.views import parts, words
from graphdoctor.views.printable import printable_lines
from graphdoctor.views.reasons import verdict_text

_ASSETS = files("graphdoctor.views.html") / "assets"


def render_view_page(view: parts.View, *, has_source: bool = True) -> str:
    """Return a view as a page."""
    drawings = list(_drawings(view.parts))
    shown = [part for part in parts.blocks(view.parts) if parts.has_content((part,))]
    sections = [at for at, part in enumerate(shown) if isinstance(part, parts.Section)]
    first = sections[0] if sections else len(shown)
    scripts = dict.fromkeys(script for drawing in drawings for script in drawing.scripts)
    styles = dict.fromkeys(style for drawing in drawings for style in drawing.styles)
    theme, *texts = map(_asset, ("theme.js", "core.js", *scripts, "find.js"))
    digests = (hashlib.sha256(text.encode()).digest() for text in (theme, *texts))
    sources = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    # 'unsafe-inline' is for styles only: the length of a bar is an inline style.
    policy = (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'"
    )
    blobs = {name: packed(blob) for drawing in drawings for name, blob in drawing.blobs.items()}
    template = environment().get_template("view.html.j2")
    return template.render(
        view=view,
        links=view.links,
        has_source=has_source,
        opening=tuple(shown[:first]),
        rest=[part for part in shown[first:] if part.show != "short"],
        policy=policy,
        style=Markup("".join(map(_asset, ("report.css", *styles)))),
        theme_script=Markup(theme),
        scripts=[Markup(script) for script in texts],
        blobs=blobs,
    )


def render_view_cell(view: parts.View, *, most_bytes: int) -> str:
    """Return a view for the cell of a notebook, without scripts; what it has no room for is left
    out part by part, and it says so.
    """
    template = environment().get_template("cell.html.j2")

    def rendered(part: parts.Part | None, name: str = "") -> str:
        return template.render(view=view, links={}, part=part, name=name).strip()

    ends = [f"<p>Next: <code>{escape(view.then)}</code></p>" if isinstance(view.then, str) else ""]
    pieces = ['<div class="graphdoctor">', rendered(None)]
    cut = "<p>Cut here: <code>report.save(&quot;report.html&quot;)</code> writes all of it.</p>"
    room = most_bytes - sum(len(text.encode()) + 1 for text in (*pieces, *ends, cut, "</div>"))
    for number, part in enumerate(_pieces(view.parts)):
        piece = rendered(part, f"c{number}")
        room -= len(piece.encode()) + 1
        if room < 0:
            ends.insert(0, cut)
            break
        pieces.append(piece)
    return "\n".join((*pieces, *ends, "</div>"))


def _pieces(body: parts.Block | parts.Blocks) -> Iterator[parts.Part]:
    """Yield what can be left out by itself."""
    for part in parts.blocks(body):
        if part.show == "short" or not parts.has_content((part,)):
            continue
        if isinstance(part, parts.Section) and part.show == "always":
            yield parts.Note(parts.Span(parts.plain_text(part.title), mark="strong"))
            yield from _pieces(part.parts)
        elif isinstance(part, parts.Cards):
            yield from part.cards
        else:
            yield part


def _drawings(body: parts.Blocks) -> Iterator[parts.Drawing]:
    for part in body:
        if isinstance(part, parts.Drawing):
            yield part
        elif isinstance(part, (parts.Section, parts.Card)):
            yield from _drawings(part.parts)


@cache
def environment() -> Environment:
    """Templates, and what they call."""

    def anchor(section: parts.Section) -> str:
        name = section.anchor or parts.plain_text(section.title)
        return re.sub(r"\W+", "-", name).strip("-").lower()

    def drawn(drawing: parts.Drawing) -> Markup:
        return Markup(templates.get_template(drawing.template).render(drawing.facts))

    def made_printable(value: object) -> object:
        # Markup is already made from printable text.
        if isinstance(value, str) and not isinstance(value, Markup):
            return printable_lines(value)
        return value

    templates = Environment(
        loader=PackageLoader("graphdoctor.views.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=made_printable,
    )
    templates.filters |= {
        "counted": wording.counted,
        "times": wording.times,
        "percent": wording.percent,
        "duration": wording.duration,
        "base_name": words.base_name,
        "inputs": words.inputs_text,
        "step": words.step,
        "fix_text": words.fix_text,
        "verdict_text": verdict_text,
        "ticks": _ticks,
        "spans": parts.spans,
        "plain": parts.plain_text,
        "blocks": parts.blocks,
        "has_content": parts.has_content,
        "kind": lambda part: type(part).__name__,
        "anchor": anchor,
        "drawn": drawn,
    }
    return templates


def _ticks(text: str) -> Markup:
    """Return text with code between backticks."""
    pieces = escape(printable_lines(text)).split("`")
    if len(pieces) % 2 == 0:
        return Markup("`").join(pieces)
    pieces[1::2] = [Markup("<code>{}</code>").format(code) for code in pieces[1::2]]
    return Markup().join(pieces)


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def packed(value: object) -> str:
    """Return a value as base64 of gzip of JSON; the page reads it with ``DecompressionStream``."""
    text = printable_lines(orjson.dumps(value).decode())
    # A fixed time in the header, so the same recording always gives the same page.
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
