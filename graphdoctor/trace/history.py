"""Chooses the cache entry that explains a recompile: the one that shares most of the function's history.

Comes in: what differs from each cache entry that was compared, first the one that the function's last call used. Goes
out: the entry to name, with the value that each change had in the last call. Pure.

The last call's values passed all guards of the entry that it used. So what differs from that entry has changed since,
and nothing else that it guards on has: another entry that differs in more is of a call from longer ago, and says
nothing about this recompile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.trace.guards.changes import expression

_WHOLE = frozenset({"type", "none", "identity", "attribute", "keys", "length", "value", "entry_gone"})
"""Changes after which nothing inside the value is known to be what it was."""

_COUNTS = frozenset({"size", "relation", "number", "module_number"})
"""A size or a number can be guarded on as such, and in a condition."""

_RANGES = frozenset({"relation"})
"""Guards that several values pass, so that the last call's isn't known."""


@dataclass(frozen=True)
class ComparedEntry:
    """What differs from one cache entry.

    Args:
        compile_id: The compile that made it; None if unknown.
        differing: Every guarded value that differs.
        changes: The same without what follows from another change.
        hidden_count: How many more differ.
    """

    compile_id: str | None
    differing: tuple[GuardChange, ...]
    changes: tuple[GuardChange, ...]
    hidden_count: int = 0


def nearest_entry(entries: Sequence[ComparedEntry]) -> ComparedEntry:
    """The entry with the fewest differences, of those that differ only in values that changed since the last call."""
    last = entries[0]
    possible = [entry for entry in entries[1:] if not entry.hidden_count and _is_of_the_last_call(entry, last)]
    return min((last, *possible), key=_distance)


def _distance(entry: ComparedEntry) -> int:
    return len({change.source or change.expression for change in entry.changes}) + entry.hidden_count


def _is_of_the_last_call(entry: ComparedEntry, last: ComparedEntry) -> bool:
    """Whether the last call had what this entry was compiled for, but for values that changed since."""
    return all(_has_changed(change, last.differing) for change in entry.differing)


def _has_changed(change: GuardChange, since: Iterable[GuardChange]) -> bool:
    """Whether a value that differs from an entry is among those that changed since the last call."""
    return any(
        _is_same_value(change, other)
        or (other.kind in _WHOLE and _is_within(change.source, other.source))
        # Strides follow from sizes, and sizes from the number of dims.
        or (change.source == other.source and change.kind == "stride" and other.kind in ("size", "rank"))
        or (change.source == other.source and change.kind == "size" and other.kind == "rank")
        for other in since
    )


def _is_same_value(one: GuardChange, other: GuardChange) -> bool:
    return _name(one) == _name(other) and (one.kind == other.kind or {one.kind, other.kind} <= _COUNTS)


def _name(change: GuardChange) -> str:
    return expression(change.source) if change.kind == "relation" and change.source else change.expression


def _is_within(source: str | None, whole: str | None) -> bool:
    if source is None or whole is None:
        return False
    return source == whole or (source.startswith(whole) and source[len(whole)] in ".[")


def with_previous(changes: Iterable[GuardChange], last: ComparedEntry | None) -> tuple[GuardChange, ...]:
    """The changes with the value that each had in the function's last call, as far as its entry shows it.

    ``last``: the entry that the last call used, which can be the same one; None if unknown.
    """
    known: dict[tuple[str, str], str | None] = {}
    for change in last.differing if last else ():
        if change.kind not in _RANGES:
            known.setdefault((change.kind, change.expression), change.old)
    return tuple(
        change.model_copy(update={"previous": known.get((change.kind, change.expression))}) for change in changes
    )


def also_changed(nearest: ComparedEntry, last: ComparedEntry) -> tuple[GuardChange, ...]:
    """What else changed since the last call: to the values that the nearest entry was compiled for."""
    named = {change.expression for change in nearest.differing}
    return tuple(change for change in with_previous(last.changes, last) if change.expression not in named)
