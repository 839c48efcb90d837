"""``graphdoctor schema``: the JSON Schema of the JSON document."""

from __future__ import annotations

import sys


def schema() -> None:
    """Print the JSON Schema of what --format json writes."""
    import orjson

    from graphdoctor.render.json import json_schema

    sys.stdout.write(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
