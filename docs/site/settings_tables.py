"""Settings and targets -> the tables of the settings page.

Comes in: the dataclasses ``Settings``, ``RunSpec`` and ``GateTarget`` with the ``Args`` of their docstrings. Goes out:
Markdown.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, Field, fields
from pathlib import PurePath
from typing import Any

from graphdoctor.commands.settings.settings import Settings
from graphdoctor.commands.settings.targets import GateTarget
from graphdoctor.facts.spec import RunSpec

_ONLY_IN_FILES = {"per_path_ignores"}
"""Settings without an environment variable's form: a table has none."""
_INTERNAL = {"spec", "folder"}
"""Fields that no file sets under their own name."""
_FIRST = ("target", "name", "inputs")
"""Keys of a target that come first, whichever class they are of."""


def settings_table() -> str:
    """``[tool.graphdoctor]``: each key with its default, its environment variable, and what it is."""
    described = _described(Settings)
    lines = ["| key | default | what it sets | environment variable |", "|---|---|---|---|"]
    for found in fields(Settings):
        variable = "" if found.name in _ONLY_IN_FILES else f"`GRAPHDOCTOR_{found.name.upper()}`"
        lines.append(f"| `{_key(found)}` | {_default(found)} | {described[found.name]} | {variable} |")
    return "\n".join(lines)


def targets_table() -> str:
    """``[[tool.graphdoctor.targets]]``: each key with its default and what it is."""
    described = {**_described(RunSpec), **_described(GateTarget)}
    keys = [found for settings in (RunSpec, GateTarget) for found in fields(settings) if found.name not in _INTERNAL]
    keys.sort(key=lambda found: _FIRST.index(found.name) if found.name in _FIRST else len(_FIRST))
    lines = ["| key | default | what it sets |", "|---|---|---|"]
    lines += [f"| `{_key(found)}` | {_default(found)} | {described[found.name]} |" for found in keys]
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


def _described(settings: type) -> dict[str, str]:
    """What the docstrings of a class and of those it inherits from say of each of their ``Args``."""
    described: dict[str, str] = {}
    for owner in reversed(settings.__mro__):
        _, _, arguments = inspect.cleandoc(owner.__doc__ or "").partition("Args:\n")
        entries = re.findall(r"^    (\w+): (.+(?:\n {5,}.+)*)", arguments, re.MULTILINE)
        described |= {name: _for_a_page(text) for name, text in entries}
    return described


def _for_a_page(text: str) -> str:
    """Markdown of a docstring's sentence: `code` in single backticks, no None, which no file can hold."""
    text = " ".join(text.split()).replace("``", "`").replace("|", "\\|")
    return re.sub(r"\bNone\b", "unset", text)
