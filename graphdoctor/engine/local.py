"""Works on pieces on this machine: in this process, or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from graphdoctor.engine.work import Outcome, Piece, Result, attempt, outcome_of


@dataclass(frozen=True)
class Local:
    """This machine.

    Args:
        jobs: How many pieces to work on at once, from 1. With 1, or one piece, no process is started.
    """

    jobs: int

    @property
    def elsewhere(self) -> None:
        """See ``Engine.elsewhere``."""
        return None

    def run(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], *, ahead: int | None = None
    ) -> Iterator[Outcome[Result]]:
        """See ``Engine.run``."""
        if min(self.jobs, len(pieces)) <= 1:
            for index, piece in enumerate(pieces):
                yield outcome_of(index, attempt(work, piece))
            return
        # Imported here: most logs are read in one process, which needs none of it.
        from graphdoctor.engine.workers import Workers

        workers = Workers(work, pieces, ahead)
        try:
            yield from workers.outcomes(self.jobs)
        finally:
            workers.end()


ALONE = Local(1)
"""This process."""
