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
from graphdoctor.views import words
from graphdoctor.views.edits import diff_rows
from graphdoctor.views.html.terms import explained
from graphdoctor.views.parts import (
    Blocks,
    Card,
    Drawing,
    Section,
    View,
    blocks,
    plain_text,
    spans,
    statements,
)
from graphdoctor.views.printable import printable_lines

_ASSETS = files("graphdoctor.views.html") / "assets"


def render_view_page(view: View, *, has_source: bool = True) -> str:
    """A view as a page."""
    drawings = list(_drawings(view.parts))
    shown = [
        part
        for part in blocks(view.parts)
        if not isinstance(part, Section) or _has_parts(part.parts)
    ]
    first = next(
        (number for number, part in enumerate(shown) if isinstance(part, Section)), len(shown)
    )
    scripts = dict.fromkeys(script for part in drawings for script in part.scripts)
    styles = dict.fromkeys(style for part in drawings for style in part.styles)
    theme, texts = _asset("theme.js"), [_asset(name) for name in ("core.js", *scripts)]
    sources = " ".join(_source_hash(text) for text in (theme, *texts))
    # 'unsafe-inline' is for styles only: the length of a bar is an inline style.
    policy = f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
    return (
        environment()
        .get_template("view.html.j2")
        .render(
            view=view,
            links=view.links,
            has_source=has_source,
            opening=tuple(shown[:first]),
            rest=[part for part in shown[first:] if part.show != "short"],
            policy=policy,
            style=Markup("".join(_asset(name) for name in ("report.css", *styles))),
            theme_script=Markup(theme),
            scripts=[Markup(script) for script in texts],
            blobs={name: packed(blob) for part in drawings for name, blob in part.blobs.items()},
        )
    )


def _drawings(body: Blocks) -> Iterator[Drawing]:
    for part in body:
        if isinstance(part, Drawing):
            yield part
        elif isinstance(part, (Section, Card)):
            yield from _drawings(part.parts)


def _has_parts(body: Blocks) -> bool:
    return any(True for _ in statements(body)) or any(True for _ in _drawings(body))


@cache
def environment() -> Environment:
    """Templates, and what they call."""
    environment = Environment(
        loader=PackageLoader("graphdoctor.views.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters |= {
        "counted": wording.counted,
        "times": wording.times,
        "percent": wording.percent,
        "duration": wording.duration,
        "base_name": words.base_name,
        "inputs": words.inputs_text,
        "step": words.step,
        "fix_text": words.fix_text,
        "diff_rows": diff_rows,
        "ticks": _ticks,
        "explained": explained,
        "spans": spans,
        "plain": plain_text,
        "blocks": blocks,
        "kind": lambda part: type(part).__name__,
        "anchor": _anchor,
        "drawn": _drawn,
    }
    return environment


def _drawn(drawing: Drawing) -> Markup:
    return Markup(environment().get_template(drawing.template).render(drawing.facts))


def _anchor(section: Section) -> str:
    return re.sub(r"\W+", "-", section.short or plain_text(section.title)).strip("-").lower()


def _printable(value: object) -> object:
    """The value of a template's expression, printable; markup is already made from printable
    text.
    """
    return (
        printable_lines(value)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


def _ticks(text: str) -> Markup:
    """Text with code between backticks."""
    parts = escape(printable_lines(text)).split("`")
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    return Markup().join(
        Markup("<code>{}</code>").format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def packed(value: object) -> str:
    """A value as base64 of gzip of JSON; the page reads it with ``DecompressionStream``."""
    text = printable_lines(orjson.dumps(value).decode())
    # A fixed time in the header, so the same recording always gives the same page.
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
