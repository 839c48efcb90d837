"""Filters JSON by tables: a dict of keys, a list's items, or a reader of one value. Anything else is dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Table = Mapping[str, Any] | list[Any] | Callable[[Any], Any]


def let_through(value: object, table: Table) -> Any:  # noqa: ANN401 - JSON
    """What a table lets through of a JSON value.

    Args:
        value: The value.
        table: A mapping for an object, a list with one table for a list, a function for anything else.

    Returns:
        The value without what the table doesn't have; None if it has another type.
    """
    if value is None:
        return None
    if callable(table):
        return table(value)
    if isinstance(table, list):
        return [let_through(item, table[0]) for item in value] if isinstance(value, list) else None
    if not isinstance(value, dict):
        return None
    return {key: let_through(value[key], inner) for key, inner in table.items() if key in value}


def number(value: object) -> int | float | None:
    """A number or a flag."""
    return value if isinstance(value, (bool, int, float)) else None


def text(reader: Callable[[str], str | None]) -> Callable[[object], str | None]:
    """A reader for values that may not be text."""
    return lambda value: reader(value) if isinstance(value, str) else None


def one_of(*words: str) -> Callable[[object], str | None]:
    """A reader that keeps one of these words."""
    return lambda value: value if isinstance(value, str) and value in words else None
