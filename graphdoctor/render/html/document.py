"""A whole HTML document: template, style, scripts, and the policy that keeps it to itself.

The page asks for no file and no host: a policy in its head forbids it, and lets only the scripts run that are written
here. Everything of a program's (paths, source, messages, arguments) goes through Jinja's escaping or, for scripts,
through ``packed``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from graphdoctor.render import words
from graphdoctor.render.html.diffs import diff_rows
from graphdoctor.render.printable import printable

_ASSETS = files("graphdoctor.render.html") / "assets"


def write_document(
    template: str, context: Mapping[str, Any], *, blobs: Mapping[str, str], scripts: Sequence[str]
) -> str:
    """Fill a template that extends ``base.html.j2``.

    Args:
        template: Its name.
        context: What it needs.
        blobs: Data for the scripts, packed, by the name that they ask for.
        scripts: Names of the scripts that it needs beside those that every page has.
    """
    theme, texts = _asset("theme.js"), [_asset(name) for name in ("core.js", *scripts)]
    sources = " ".join(_source_hash(text) for text in (theme, *texts))
    # 'unsafe-inline' for styles alone: a bar's length is a style of its own.
    policy = f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
    return (
        _environment()
        .get_template(template)
        .render(
            context,
            policy=policy,
            style=Markup(_asset("report.css")),
            theme_script=Markup(theme),
            scripts=[Markup(script) for script in texts],
            blobs=blobs,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("graphdoctor.render.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters |= {
        "counted": words.counted,
        "times": words.times,
        "percent": words.percent,
        "duration": words.duration,
        "base_name": words.base_name,
        "first_sentence": words.first_sentence,
        "caused": words.caused_text,
        "cost": words.cost_text,
        "inputs": words.inputs_text,
        "diff_rows": diff_rows,
        "ticks": _ticks,
    }
    environment.globals |= {
        "measured_rows": words.measured_rows,
        "coverage_text": words.coverage_text,
        "compile_calls_text": words.compile_calls_text,
    }
    return environment


def _printable(value: object) -> object:
    """What an expression of a template puts into the page; markup was made of printable text already."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _ticks(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    parts = escape(printable(text)).split("`")
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    return Markup().join(
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
