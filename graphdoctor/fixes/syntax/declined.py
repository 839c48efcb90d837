"""The exception that a recipe, and the syntax it builds on, raises to leave source unchanged."""

from __future__ import annotations


class DeclinedError(Exception):
    """The source stays unchanged.

    Args:
        reason: Why, as a clause without a full stop: ``its result is used``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
