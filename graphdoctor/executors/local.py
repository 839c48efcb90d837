"""Works on pieces on this machine: in this process, or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from graphdoctor.executors.work import ATTEMPTS, OnBegin, Outcome, Piece, Result, Share, attempt, outcome_of

if TYPE_CHECKING:
    from graphdoctor.executors.slots import Slot


@dataclass(frozen=True)
class Local:
    """This machine.

    Args:
        jobs: How many pieces to work on at once, from 1. With 1, or one piece, no process is started for
            pieces without a share.
    """

    jobs: int

    @property
    def elsewhere(self) -> None:
        """See ``Engine.elsewhere``."""
        return None

    def run(
        self,
        work: Callable[[Piece], Result],
        pieces: Sequence[Piece],
        *,
        ahead: int | None = None,
        share: Share | None = None,
        attempts: int = ATTEMPTS,
        on_begin: OnBegin | None = None,
    ) -> Iterator[Outcome[Result]]:
        """See ``Engine.run``."""
        if share is None and min(self.jobs, len(pieces)) <= 1:
            for index, piece in enumerate(pieces):
                if on_begin is not None:
                    on_begin(index, None)
                yield outcome_of(index, attempt(work, piece))
            return
        # Imported here: most logs are read in one process, which needs none of it.
        from graphdoctor.executors.workers import Alike, Hire, Workers

        slots: Sequence[Slot | None] = [None] * self.jobs
        hire: Hire = Alike(work).hire
        has_room = None
        if share is not None:
            from graphdoctor.executors.keeper import Keepers
            from graphdoctor.executors.machine import has_memory, this_machine
            from graphdoctor.executors.slots import slots_for

            slots = slots_for(share, this_machine(), most=self.jobs)
            hire, has_room = Keepers(work).hire, partial(has_memory, share.memory_bytes)
        workers = Workers(hire, pieces, ahead=ahead, attempts=attempts, on_begin=on_begin, has_room=has_room)
        try:
            yield from workers.outcomes(slots)
        finally:
            workers.end()


ALONE = Local(1)
"""This process."""
