"""The kinds of records in torch's trace log, and which of them a report shows, from
``record_kinds.toml``.

A kind that isn't there is counted under its own name.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

OWN_PREFIX = "graphdoctor_"

_KNOWN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_SHOWN = frozenset(_KNOWN["shown"].split())

MEANINGS: dict[str, str] = _KNOWN["meanings"]
"""Contents of records of kinds that a report doesn't show, where the name alone doesn't tell."""

TORCH_KINDS = _SHOWN.union(MEANINGS, _KNOWN["named"].split())

_FAMILIES = ("_ORIGINAL_BYTECODE", "_MODIFIED_BYTECODE")
"""Endings of kinds that begin with the name of a function."""


def family_of(kind: str) -> str:
    """Return the kind to count a record under: ``*_ORIGINAL_BYTECODE`` for that of any function."""
    return next((f"*{ending}" for ending in _FAMILIES if kind.endswith(ending)), kind)


def is_shown(kind: str) -> bool:
    """Return whether a report, its page or its JSON has what records of a kind say."""
    return kind in _SHOWN or kind.startswith(OWN_PREFIX)
