"""Settings and targets -> the tables of the settings page.

Comes in: the dataclasses ``Settings``, ``RunSpec`` and ``GateTarget`` with what they say of their
fields. Goes out: Markdown.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from pathlib import PurePath
from typing import Any

from graphdoctor.commands.settings import GateTarget, Settings
from graphdoctor.facts.spec import RunSpec

_ONLY_IN_FILES = {"per_path_ignores"}
"""Settings without an environment variable's form: a table has none."""
_FIRST = ("target", "name", "inputs")
"""Keys of a target that come first, whichever class they are of."""


def settings_table() -> str:
    """``[tool.graphdoctor]``: each key with its default, its environment variable, and what it
    is.
    """
    lines = ["| key | default | what it sets | environment variable |", "|---|---|---|---|"]
    for found in fields(Settings):
        variable = "" if found.name in _ONLY_IN_FILES else f"`GRAPHDOCTOR_{found.name.upper()}`"
        lines.append(f"| `{_key(found)}` | {_default(found)} | {_help(found)} | {variable} |")
    return "\n".join(lines)


def targets_table() -> str:
    """``[[tool.graphdoctor.targets]]``: each key with its default and what it is."""
    keys = [
        found for settings in (RunSpec, GateTarget) for found in fields(settings) if _is_set(found)
    ]
    keys.sort(key=lambda found: _FIRST.index(found.name) if found.name in _FIRST else len(_FIRST))
    lines = ["| key | default | what it sets |", "|---|---|---|"]
    lines += [f"| `{_key(found)}` | {_default(found)} | {_help(found)} |" for found in keys]
    return "\n".join(lines)


def _key(found: Field[Any]) -> str:
    return found.name.replace("_", "-")


def _default(found: Field[Any]) -> str:
    value = found.default
    if value is MISSING:
        return "the target" if found.default_factory is MISSING else "empty"
    if value == "":
        return "required"
    if value is None or value == ():
        return "unset" if value is None else "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str | PurePath) else f"`{value:g}`"


def _is_set(found: Field[Any]) -> bool:
    """Whether files set it under its own name."""
    return found.name == "target" or "option" in found.metadata


def _help(found: Field[Any]) -> str:
    if found.name == "target":
        return "What to compile, such as `model.py:Net`."
    option = found.metadata["option"]
    return str(option.help).replace("|", "\\|").removesuffix(" Repeatable.")
