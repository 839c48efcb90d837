"""Source files as they were while the program ran: ``graphdoctor_file`` records."""

from __future__ import annotations

from graphdoctor.model.picture import SourceText
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.origin import Origins


class Files:
    """Takes files in the order of the log."""

    KINDS: frozenset[str] = frozenset()

    def add(self, record: Record, call_index: int | None, *, is_extra: bool) -> None:
        """Take the next record.

        Args:
            record: One of ``KINDS``.
            call_index: The user's call that was under way; None outside the calls.
            is_extra: It belongs to a repetition of ours: to be left out.
        """

    def finish(self, origins: Origins) -> tuple[SourceText, ...]:
        """The files."""
        return ()
