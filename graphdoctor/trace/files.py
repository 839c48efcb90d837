"""Source files as they were while the program ran: ``graphdoctor_file`` records."""

from __future__ import annotations

import orjson

from graphdoctor.model.picture import SourceText
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.origin import Origins


class Files:
    """Takes files in the order of the log."""

    KINDS: frozenset[str] = frozenset({"graphdoctor_file"})

    def __init__(self) -> None:
        self._texts: dict[str, str | None] = {}

    def add(self, record: Record, call_index: int | None, *, is_extra: bool) -> None:  # noqa: ARG002 - a part's interface
        """Take the next record.

        Args:
            record: One of ``KINDS``.
            call_index: The user's call that was under way; None outside the calls.
            is_extra: It belongs to a repetition of ours; a file is written down once, so that makes no difference.
        """
        value = orjson.loads(record.payload or "{}")
        self._texts[value["file"]] = value["text"]

    def finish(self, origins: Origins) -> tuple[SourceText, ...]:
        """The files in the order of the log."""
        found = []
        for file, text in self._texts.items():
            origin, package = origins.of(file)
            found.append(SourceText(file=file, text=text, origin=origin, package=package))
        return tuple(found)
