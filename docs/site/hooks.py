"""What MkDocs calls while it builds the site: generated pages, and the parts of pages that are
generated.

A page asks for a part with a comment of its own line: ``<!-- generated: help explain -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from column_tables import columns_table
from command_help import help_text
from format_tables import formats_table
from mkdocs.structure.files import File, Files
from rule_pages import families, page_path, rule_pages
from settings_tables import settings_table, targets_table

from graphdoctor.facts.command import DOCS_URL
from graphdoctor.servers.mcp.texts import skill_file

_PART = re.compile(
    r"^<!-- generated: (?P<kind>[\w-]+)(?: (?P<argument>[\w-]+))? -->$", re.MULTILINE
)


def _help_block(*command: str) -> str:
    return f"```text\n{help_text(*command)}\n```"


_PARTS: dict[str, Callable[..., str]] = {
    "help": _help_block,
    "settings": settings_table,
    "targets": targets_table,
    "formats": formats_table,
    "columns": columns_table,
    "skill": lambda: f"````markdown\n{skill_file()}````",
}

_BOOSTS = {"Rules": 1.0, "Reference": 0.5, "How it was made and measured": 0.1}
"""How far up a search lists what isn't a guide, by its part of the navigation."""


def on_config(config: Any) -> Any:  # noqa: ANN401 - MkDocs' own object
    """Take the site's address from the package, and put the rules into the navigation."""
    config["site_url"] = DOCS_URL
    rules: list[Any] = ["rules/index.md"]
    for heading, found in families():
        rules.append({heading: [{f"{rule.code} {rule.name}": page_path(rule)} for rule in found]})
    reference = next(place for place, entry in enumerate(config["nav"]) if "Reference" in entry)
    config["nav"].insert(reference, {"Rules": rules})
    return config


def on_files(files: Files, *, config: Any) -> Files:  # noqa: ANN401 - MkDocs' own object
    """Add the pages that no file holds."""
    for path, text in rule_pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs' own object
    """Say how far up a search lists the page, and fill in the generated parts."""
    part = page.ancestors[-1].title if page.ancestors else None
    page.meta.setdefault("search", {"boost": _BOOSTS.get(part, 4.0)})
    return _PART.sub(_part, markdown)


def _part(found: re.Match[str]) -> str:
    return _PARTS[found["kind"]](*filter(None, [found["argument"]]))
