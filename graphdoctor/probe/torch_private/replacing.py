"""Puts something else in place of an attribute, until it is put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Undo = Callable[[], None]
"""Takes back what was done; harmless when called twice."""


def put_in_place(owner: Any, name: str, value: object) -> Undo:  # noqa: ANN401
    """Set an attribute that its owner has itself.

    Args:
        owner: A module, class or object.
        name: The attribute.
        value: What it becomes.

    Returns:
        Puts the former value back, unless somebody has put a third one there since.
    """
    before = vars(owner)[name]
    setattr(owner, name, value)

    def undo() -> None:
        if vars(owner).get(name) is value:
            setattr(owner, name, before)

    return undo
