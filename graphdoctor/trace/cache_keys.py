"""Compares what torch's cache on disk is asked for in two starts of one program, to see why it finds nothing.

torch logs the parts of each key with a hash of each (``FxGraphHashDetails.debug_lines``,
``torch/_inductor/codecache.py``, 2.11 to 2.15).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from graphdoctor.facts.profile import CacheKeyChange
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.logs import find_logs

_ASKED = frozenset({"fx_graph_cache_hit", "fx_graph_cache_miss"})
_MISSED = "fx_graph_cache_miss"
_PART = re.compile(r"\[(\w+)\] ([^:]+): (.*)", re.DOTALL)

GRAPH = "gm"
"""torch's name for the graph itself, as code."""


@dataclass(frozen=True)
class _Asked:
    is_missed: bool
    parts: Mapping[str, tuple[str, str]]


def key_changes(first: Path, second: Path) -> tuple[CacheKeyChange, ...]:
    """Why graphs of a second start aren't found: what of their keys differs from those of the first."""
    before, after = _questions(first), _questions(second)
    found = [
        change
        for compile_id, asked in after.items()
        for earlier, now in zip(before.get(compile_id, []), asked, strict=False)
        if now.is_missed
        for change in _changes(compile_id, earlier, now)
    ]
    return tuple(dict.fromkeys(found))


def _questions(folder: Path) -> dict[str | None, list[_Asked]]:
    found: dict[str | None, list[_Asked]] = {}
    for log in find_logs(folder):
        with log.open() as lines:
            for record in read_records(lines, _ASKED.__contains__, LogDamage()):
                found.setdefault(record.compile_id, []).append(_Asked(record.kind == _MISSED, dict(_parts(record))))
    return found


def _parts(record: Record) -> Iterator[tuple[str, tuple[str, str]]]:
    for line in orjson.loads(record.payload or "{}").get("components") or ():
        if match := _PART.fullmatch(str(line)):
            yield match[2], (match[1], match[3])


def _changes(compile_id: str | None, before: _Asked, now: _Asked) -> Iterator[CacheKeyChange]:
    nothing = ("", "")
    for name in dict.fromkeys((*before.parts, *now.parts)):
        (old_hash, old), (new_hash, new) = before.parts.get(name, nothing), now.parts.get(name, nothing)
        if old_hash == new_hash:
            continue
        one, other = _differing_lines(old, new)
        yield CacheKeyChange(compile_id=compile_id, part="graph" if name == GRAPH else name, before=one, after=other)


def _differing_lines(old: str, new: str) -> tuple[str | None, str | None]:
    for one, other in zip(old.splitlines(), new.splitlines(), strict=False):
        if one != other:
            return one.strip(), other.strip()
    return None, None
