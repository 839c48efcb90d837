"""What collects records beside the ``Intake``, and which compiles it keeps of a log that a page can't hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

from graphdoctor.trace.grammar import Record


@dataclass
class Text:
    """The text of a record; None once it was let go of."""

    text: str | None


class Details:
    """Keeps the texts of some compiles."""

    def __init__(self, compile_ids: Iterable[str], *, most_bytes: int | None) -> None:
        # A section of a log doesn't know the prefix that its ids will get.
        self._places = {unprefixed(compile_id): place for place, compile_id in enumerate(compile_ids)}
        self._most_bytes = most_bytes
        self._held: dict[str, list[Text]] = {}
        self._sizes: dict[str, int] = {}

    def keeps(self, compile_id: str | None) -> bool:
        """Whether texts of a compile are kept."""
        return compile_id is not None and unprefixed(compile_id) in self._places

    def hold(self, compile_id: str | None, text: Text) -> None:
        """Keep a text of a compile that is kept, and let go of others if these are too many."""
        if compile_id is None or text.text is None:
            return
        self._held.setdefault(compile_id, []).append(text)
        self._sizes[compile_id] = self._sizes.get(compile_id, 0) + len(text.text)
        while self._most_bytes is not None and sum(self._sizes.values()) > self._most_bytes and len(self._sizes) > 1:
            last = max(self._sizes, key=self._places.__getitem__)
            for held in self._held.pop(last):
                held.text = None
            del self._sizes[last], self._places[last]


class Collector:
    """Takes the records of one process until a reset of Dynamo, in the order of the log."""

    KINDS: ClassVar[frozenset[str]]

    def __init__(self, details: Details | None = None) -> None:
        self._details = details

    def add(self, record: Record) -> None:
        """Take the next record, one of ``KINDS``."""
        raise NotImplementedError

    def after_reset(self) -> Self:
        """What takes the records of the same process from here on, when compile ids count from 0 again."""
        return type(self)(self._details)

    def _keeps(self, compile_id: str | None) -> bool:
        return self._details is None or self._details.keeps(compile_id)


def unprefixed(compile_id: str) -> str:
    """A compile id as in the log, without the names of processes and resets."""
    return compile_id.rpartition(":")[2]
