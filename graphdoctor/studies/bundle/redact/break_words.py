"""Keeps the fixed words of torch's graph-break messages, as its registry has them, and drops what
torch filled in.
"""

from __future__ import annotations

import importlib.util
import json
import re
from functools import cached_property
from itertools import groupby
from pathlib import Path

from graphdoctor.studies.bundle.redact.vocabulary import FRAMING, LEFT_OUT

_LINK = re.compile(r"\bgb(\d{4})\b", re.IGNORECASE)
_LINKED = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"
_PUNCTUATION = ".,:;()[]{}'\"`-=<>/*&!?"
_MAX_PUNCTUATION = 6


def _core(piece: str) -> str:
    return piece.strip(_PUNCTUATION)


_FRAMING = frozenset(map(_core, FRAMING))


class BreakWords:
    """torch's registry of graph breaks: the fixed words of each id."""

    def __init__(self, torch_root: str | None) -> None:
        self._torch_root = torch_root

    @cached_property
    def _entries(self) -> dict[str, list[dict[str, object]]]:
        found = importlib.util.find_spec("torch")
        for folder in filter(
            None, (self._torch_root, *((found and found.submodule_search_locations) or ()))
        ):
            try:
                entries = json.loads(
                    Path(folder, "_dynamo", "graph_break_registry.json").read_text(encoding="utf-8")
                )
            except (OSError, ValueError):
                continue
            if isinstance(entries, dict):
                return entries
        return {}

    @cached_property
    def types(self) -> frozenset[str]:
        """Every graph-break type that torch has."""
        return frozenset(
            str(item.get("Gb_type")) for items in self._entries.values() for item in items
        )

    def kept(self, text: str, *ids: str | None) -> str:
        """The fixed words of a message of torch; the rest is left out."""
        linked = (f"GB{number}" for number in _LINK.findall(text))
        known = _FRAMING.union(*(self._pieces(id_) for id_ in (*ids, *linked) if id_))
        return "\n".join(_known_line(line, known) for line in text.splitlines())

    def _pieces(self, torch_id: str) -> frozenset[str]:
        values = [value for item in self._entries.get(torch_id, []) for value in item.values()]
        texts = [
            str(text)
            for value in values
            for text in (value if isinstance(value, list) else [value])
        ]
        # torch fills in what is in braces.
        pieces = [piece for text in texts for piece in re.sub(r"\{.*?\}", " ", text).split()]
        return frozenset((*pieces, *map(_core, pieces), _core(f"{_LINKED}{torch_id.lower()}.html")))


def _is_known(piece: str, known: frozenset[str]) -> bool:
    core = _core(piece)
    # A single letter can be a name in the program, and a digit a value.
    is_word = (
        core in known
        and (len(core) != 1 or core in "aAI")
        and len(piece) - len(core) <= _MAX_PUNCTUATION
    )
    return is_word or (len(piece) > 1 and piece in known)


def _known_line(line: str, known: frozenset[str]) -> str:
    """The line with ``…`` for each run of other words. Nothing is kept of a line of code that torch
    quotes.
    """
    indent = line[: len(line) - len(line.lstrip(" "))]
    if "code: " in line:
        return indent + LEFT_OUT
    shown = (piece if _is_known(piece, known) else LEFT_OUT for piece in line.split())
    kept = [
        piece for piece, run in groupby(shown) for piece in ([piece] if piece == LEFT_OUT else run)
    ]
    # A line that is mostly gone says nothing.
    is_useful = 2 * kept.count(LEFT_OUT) < len(kept) or not kept
    return indent + (" ".join(kept) if is_useful else LEFT_OUT)
