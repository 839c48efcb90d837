"""Data for a page's scripts: compressed JSON in letters that no text from outside can break out of."""

from __future__ import annotations

import base64
import gzip

import orjson

from graphdoctor.views.printable import printable_lines


def packed(value: object) -> str:
    """A value as base64 of gzip of JSON; the page reads it with ``DecompressionStream``."""
    text = printable_lines(orjson.dumps(value).decode())
    # A fixed time in the header, so the same recording always gives the same page.
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
