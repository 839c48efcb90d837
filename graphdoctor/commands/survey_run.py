"""Runs a survey: pieces that are missing go to an executor, and what comes back is kept at once."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from graphdoctor.commands.survey_piece import PieceResult, SurveyPiece, utc_text, work_on
from graphdoctor.commands.survey_plan import Plan, SurveyAsked, plan_survey
from graphdoctor.commands.survey_store import (
    SURVEY_FILE,
    SurveyStore,
    described,
    kept_rows,
    report_of,
)
from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Failure, Outcome, Share
from graphdoctor.facts.base import values_of
from graphdoctor.facts.survey import SurveyReport, SurveyRow, SurveyStatus
from graphdoctor.studies.survey.outcome import cut

if TYPE_CHECKING:
    from graphdoctor.commands.settings import Settings
    from graphdoctor.commands.survey_progress import Key, SurveyProgress
    from graphdoctor.executors.executor import Executor

_TRIED_AGAIN: frozenset[SurveyStatus] = frozenset(
    {"wrong", "compile_failed", "eager_failed", "crashed", "timeout", "out_of_memory", "lost"}
)
"""What another run may not show: the others are decided by the program and the machine, not by the
run."""


@dataclass(frozen=True)
class Working:
    """What works on pieces, what each has for itself, and whether rows of the last survey of this
    name are kept.
    """

    executor: Executor
    share: Share
    resume: bool = False


@dataclass(frozen=True)
class Surveyed:
    """A survey that has run."""

    report: SurveyReport
    folder: Path
    is_interrupted: bool = False


def run_survey(
    asked: SurveyAsked, settings: Settings, working: Working, onlooker: SurveyProgress
) -> Surveyed:
    """Run what is missing of a survey."""
    store = settings.store
    plan = plan_survey(asked, store.programs.absolute(), onlooker.on_phase)
    with _folder(asked, settings, resume=working.resume) as folder:
        with contextlib.closing(SurveyStore(folder)) as kept:
            is_interrupted = _Run(plan, asked, working, kept, onlooker).work()
        return Surveyed(report_of(folder), folder, is_interrupted)


@contextlib.contextmanager
def _folder(asked: SurveyAsked, settings: Settings, *, resume: bool) -> Iterator[Path]:
    store = settings.store
    if resume:
        surveys = (path for path in store.surveys(asked.name) if (path / SURVEY_FILE).is_file())
        # Rows of another shard aren't in this one's table.
        earlier = next(
            (path for path in surveys if described(path)["shard"] == _shard_text(asked)), None
        )
        if earlier is None:
            part = "" if asked.shard is None else f"shard {_shard_text(asked)} of "
            raise GraphDoctorError(
                f"There is no {part}survey {asked.name!r} to resume.",
                hint="Run it without --resume.",
            )
        with contextlib.closing(store.hold(earlier)):
            yield earlier
    else:
        with contextlib.closing(store.create(asked.name, "@survey")) as made:
            yield made.path


@dataclass
class _Run:
    """One run of a survey."""

    _plan: Plan
    _asked: SurveyAsked
    _working: Working
    _store: SurveyStore
    _onlooker: SurveyProgress
    _begun: float = field(default_factory=time.monotonic)
    _started: str = field(default_factory=lambda: utc_text(datetime.datetime.now(datetime.UTC)))
    _made: int = 0
    _attempts: dict[Key, tuple[SurveyRow, ...]] = field(default_factory=dict)

    @property
    def _retries(self) -> int:
        asked = self._asked.measured.retries
        return 1 if asked is None else asked

    def work(self) -> bool:
        """Run what is missing; whether somebody interrupted it."""
        kept = self._kept()
        pieces = [piece for piece in self._plan.pieces if piece.key not in kept]
        self._onlooker.planned(len(self._plan.pieces), len(kept))
        self._describe(len(kept), seconds=None)
        try:
            for left in reversed(range(self._retries + 1)):
                pieces = self._pass(pieces, is_last=left == 0)
                if not pieces:
                    break
        except KeyboardInterrupt:
            return True
        finally:
            self._describe(len(kept), seconds=time.monotonic() - self._begun)
        return False

    def _kept(self) -> dict[Key, PieceResult]:
        found = kept_rows(self._store.folder)
        plans, limits = (
            {piece.key: piece.plan for piece in self._plan.pieces},
            self._asked.measured.limits,
        )
        return {
            key: one for key, one in found.items() if key in plans and one.holds(plans[key], limits)
        }

    def _describe(self, kept: int, seconds: float | None) -> None:
        measured, share = self._asked.measured, self._working.share
        options = {
            **values_of(measured, "bench", "thorough", "export", "fix", "timeout_s"),
            "memory_gib": measured.memory,
            "retries": self._retries,
            "cpus": share.cpus,
            "gpus": share.gpus,
        }
        executor = self._working.executor
        with (
            contextlib.suppress(GraphDoctorError)
            if seconds is not None
            else contextlib.nullcontext()
        ):
            self._store.describe(
                {
                    "name": self._asked.name,
                    "started": self._started,
                    "seconds": seconds,
                    "made": self._made,
                    "kept": kept,
                    "options": {
                        name: value for name, value in options.items() if value not in (None, False)
                    },
                    "shard": _shard_text(self._asked),
                    "engine": executor.cluster
                    or ("1 process" if executor.jobs == 1 else f"{executor.jobs} processes"),
                    "variants": self._plan.variants,
                    "pieces": [piece.key for piece in self._plan.pieces],
                    "notes": self._plan.notes,
                }
            )

    def _pass(self, pieces: Sequence[SurveyPiece], *, is_last: bool) -> list[SurveyPiece]:
        """Run pieces once; those to run again."""
        share = self._working.share
        if self._asked.measured.gpus is not None:
            return self._run(pieces, share, is_last=is_last)
        with_cuda = [piece for piece in pieces if (piece.spec.device or "").startswith("cuda")]
        others = [piece for piece in pieces if piece not in with_cuda]
        return [
            *self._run(others, replace(share, gpus=None), is_last=is_last),
            *self._run(with_cuda, share, is_last=is_last),
        ]

    def _run(
        self, pieces: Sequence[SurveyPiece], share: Share, *, is_last: bool
    ) -> list[SurveyPiece]:
        if not pieces:
            return []
        again: list[SurveyPiece] = []

        has_own_place = bool(share.cpus or share.gpus)

        def begin(index: int, place: str) -> None:
            self._onlooker.began(pieces[index].key, place if has_own_place else None)

        outcomes = self._working.executor.run(work_on, pieces, share=share, on_begin=begin)
        # Closed at once if a row can't be kept: the workers end then.
        with contextlib.closing(cast("Generator[Outcome[PieceResult]]", outcomes)):
            for index, found in outcomes:
                piece = pieces[index]
                result = self._after_attempts(
                    _lost(piece, found) if isinstance(found, Failure) else found
                )
                self._keep_program(piece, result)
                self._store.add(result)
                row = result.row
                if row.status in _TRIED_AGAIN and not is_last:
                    again.append(piece)
                    self._onlooker.retrying(row.key, row.status)
                else:
                    self._made += 1
                    self._onlooker.finished(row)
        return again

    def _after_attempts(self, result: PieceResult) -> PieceResult:
        """The row with what earlier attempts came to."""
        row = result.row
        earlier = self._attempts.get(row.key, ())
        self._attempts[row.key] = (*earlier, row)
        if not earlier:
            return result
        update = {
            "attempts": len(earlier) + 1,
            "earlier": tuple(one.status for one in earlier),
            "seconds": row.seconds + sum(one.seconds for one in earlier),
        }
        return replace(result, row=row.replace(**update))

    @staticmethod
    def _keep_program(piece: SurveyPiece, result: PieceResult) -> None:
        """Keep what a node wrote that doesn't share our file system."""
        if result.program is None:
            return
        path = Path(piece.spec.target)
        with contextlib.suppress(OSError):
            if not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(result.program, encoding="utf-8")


def _lost(piece: SurveyPiece, failure: Failure) -> PieceResult:
    """The row of a piece that nothing came back of."""
    error = f"{failure.reason[:1].upper()}{failure.reason[1:]}."
    row = piece.row({}, status="lost", error=error, traceback=cut(failure.details), seconds=0.0)
    return PieceResult(row, piece.plan)


def _shard_text(asked: SurveyAsked) -> str | None:
    return None if asked.shard is None else f"{asked.shard[0]}/{asked.shard[1]}"
