"""Checks single values of the configuration. Comes in: a key and its value. Goes out: the value with its type."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import DTYPES

FAIL_ON = ("error", "warning", "info", "never")


def hyphened(name: str) -> str:
    """A field's name as it's written in pyproject.toml."""
    return name.replace("_", "-")


def unknown(where: str, what: str, name: str, known: Iterable[str]) -> GraphDoctorError:
    """The error for an unknown name, with the nearest known one.

    Args:
        where: What the message begins with: the file and the target.
        what: What the name should refer to, such as ``setting``.
        name: The name as written.
        known: All known names.
    """
    names = [hyphened(item) for item in known]
    near = difflib.get_close_matches(hyphened(name), names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"The {what}s are {', '.join(names)}."
    return GraphDoctorError(f"{where}unknown {what} {hyphened(name)!r}.", hint=hint)


def dtype_named(text: str, where: str) -> str:
    """A floating-point dtype by its name or abbreviation, such as ``bf16``.

    Args:
        text: As written.
        where: What an error message begins with.

    Returns:
        torch's name, such as ``bfloat16``.

    Raises:
        GraphDoctorError: There is no such dtype.
    """
    names = {**{name: name for name in DTYPES.values()}, **DTYPES}
    if text not in names:
        raise unknown(where, "dtype", text, names)
    return names[text]


class Values:
    """Checks the values of one table.

    Args:
        where: What error messages begin with.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def _wrong(self, name: str, value: object, wanted: str) -> GraphDoctorError:
        return GraphDoctorError(f"{self._where}{hyphened(name)} must be {wanted}, not {value!r}.")

    def text(self, name: str, value: object) -> str:
        """A string that isn't empty."""
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise self._wrong(name, value, "a non-empty string")
        return value

    def texts(self, name: str, value: object) -> tuple[str, ...]:
        """A list of strings."""
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, value, "a list of strings")
        return tuple(value)

    def switch(self, name: str, value: object) -> bool:
        """A boolean."""
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def count(self, name: str, value: object, *, least: int) -> int:
        """A whole number of at least ``least``."""
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._wrong(name, value, f"a whole number of at least {least}")
        return value

    def dtype(self, name: str, value: object) -> str:
        """The name of a dtype that a run can have."""
        return dtype_named(self.text(name, value), self._where)

    def seconds(self, name: str, value: object) -> float:
        """A positive number."""
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
            raise self._wrong(name, value, "a positive number of seconds")
        return float(value)

    def positive(self, name: str, value: object) -> float:
        """A number above 0."""
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
            raise self._wrong(name, value, "a number above 0")
        return float(value)

    def strings(self, name: str, value: object) -> dict[str, str]:
        """A table of strings."""
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self._wrong(name, value, "a table of strings")
        return dict(value)

    def share(self, name: str, value: object) -> float:
        """A number from 0 to 1."""
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
            raise self._wrong(name, value, "a share from 0 to 1")
        return float(value)

    def severity(self, name: str, value: object) -> Any:  # noqa: ANN401 - one of a Literal's texts
        """One of ``FAIL_ON``."""
        if value not in FAIL_ON:
            raise self._wrong(name, value, f"{', '.join(FAIL_ON[:-1])} or {FAIL_ON[-1]}")
        return value

    def plain_table(self, name: str, value: object) -> dict[str, object]:
        """A table that JSON can hold: strings, numbers, booleans, lists and tables of these."""
        if not isinstance(value, dict) or not _is_plain(value):
            raise self._wrong(name, value, "a table of strings, numbers, booleans, and lists of these")
        return value

    def globs(self, name: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """A table of path patterns, each with the code prefixes to ignore there."""
        if not isinstance(value, Mapping):
            raise self._wrong(name, value, 'a table such as { "tests/**" = ["GD1"] }')
        return tuple((pattern, self.texts(f"{name} {pattern!r}", codes)) for pattern, codes in value.items())


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(item) for item in value.values())
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return isinstance(value, (str, bool, int, float))
