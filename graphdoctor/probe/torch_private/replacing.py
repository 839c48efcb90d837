"""Replaces an attribute until the replacement is undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Undo = Callable[[], None]
"""Undoes what was done; harmless when called twice."""


def put_in_place(owner: Any, name: str, value: object) -> Undo:  # noqa: ANN401
    """Replace an attribute that its owner itself has.

    Returns:
        Restores the old value, unless somebody has replaced the new one since.
    """
    before = vars(owner)[name]
    setattr(owner, name, value)

    def undo() -> None:
        if vars(owner).get(name) is value:
            setattr(owner, name, before)

    return undo
