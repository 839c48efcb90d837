"""Where compile time went: torch's ``chromium_event`` records."""

from __future__ import annotations

from graphdoctor.model.picture import Phase
from graphdoctor.trace.grammar import Record


class Phases:
    """Takes events in the order of the log."""

    KINDS: frozenset[str] = frozenset()

    def add(self, record: Record, call_index: int | None, *, is_extra: bool) -> None:
        """Take the next record.

        Args:
            record: One of ``KINDS``.
            call_index: The user's call that was under way; None outside the calls.
            is_extra: It belongs to a repetition of ours: to be left out.
        """

    def finish(self, prefix: str, process: str | None) -> tuple[Phase, ...]:
        """The phases, compile ids with a prefix."""
        return ()
