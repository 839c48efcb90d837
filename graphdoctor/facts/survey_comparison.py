"""Two surveys side by side: what fails now, what is worse or better, and what can't be told.

``SurveyComparison`` is the JSON document of ``graphdoctor diff`` for two surveys. It has the
``SCHEMA_VERSION`` of a diagnosis.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from .base import Document, Fact, values_of
from .diagnosis import Severity, fails
from .spec import FailOn
from .survey import GeometricMean, SharedCause, SurveyCause, SurveyReport, SurveyRow

SurveyAspect = Literal[
    "torch",
    "device",
    "host",
    "python",
    "library",
    "graphdoctor",
    "dtype",
    "batch",
    "calls",
    "options",
    "variant",
    "shard",
]
"""Difference between two surveys. ``torch`` to ``calls``: of pieces that both have; ``options`` and
``variant``: what was asked for; ``shard``: one of them is a part."""

SurveyMeasure = Literal[
    "break_sites",
    "skipped_frames",
    "recompiles",
    "frames_over_limit",
    "coverage",
    "speedup",
    "correct",
    "exports",
    "is_steady",
]
"""Fields of a row that are compared."""

COUNTS_OF_RECORDS: tuple[SurveyMeasure, ...] = (
    "break_sites",
    "skipped_frames",
    "recompiles",
    "frames_over_limit",
)
"""Counts of torch's records: too low where it left one out."""

SurveyChangeKind = Literal[SurveyMeasure, "status", "cause"]
"""Changed thing: a field, the piece's outcome, or a finding."""

ChangeDirection = Literal["worse", "better", "noted"]
"""True if a change is a regression, an improvement, or neither."""

SurveyVerdict = Literal[
    "unknown", "failing", "worse", "flaky", "fixed", "better", "changed", "unchanged"
]
"""Verdict on a piece, the first that applies. ``unknown``: it can't be judged now, or lacks what
was measured before; ``failing``: it passed before, or has wrong results only now; ``worse``:
something else got worse; ``flaky``: its attempts came out differently, and nothing else got worse;
``fixed``: it passes now; ``better``: something got better; ``changed``: it fails in another way."""

SURVEY_VERDICTS: tuple[SurveyVerdict, ...] = get_args(SurveyVerdict)
"""In the order in which they are shown."""


class SurveySide(Fact):
    """One of the two surveys."""

    path: str | None = None
    """Path given by the user; None if it has no name."""
    name: str
    started: str
    """When it began, in UTC."""
    graphdoctor_version: str
    torch: tuple[str, ...]
    """The versions of torch of its rows."""
    devices: tuple[str, ...]
    rows: int
    planned: int
    """Number it would have if nothing had interrupted it."""
    shard: str | None = None
    """Part of the pieces it has; None for all."""

    @property
    def is_whole(self) -> bool:
        """Return whether it has all of its pieces."""
        return self.shard is None and self.rows >= self.planned


class SurveyMismatch(Fact):
    """One way in which the two surveys differ, which can explain other differences."""

    aspect: SurveyAspect
    name: str | None = None
    """Name among several: the option or the variant; None otherwise."""
    before: str | None = None
    """The value before; None if there is none."""
    after: str | None = None
    pieces: int | None = None
    """Number of the pieces of both that differ in this way; None for what is of the whole
    survey."""


class SurveyChange(Fact):
    """One thing that changed in a piece."""

    kind: SurveyChangeKind
    severity: Severity = "info"
    """Severity where it got worse."""
    before: float | bool | str | None = None
    """The value before: a number, whether, or a status; None for a finding."""
    after: float | bool | str | None = None
    cause: SurveyCause | None = None
    """The finding that is new or gone; None for other changes."""
    is_flaky: bool = False
    """True if the piece is unstable, so that this is no regression by itself."""

    def fails(self, fail_on: FailOn) -> bool:
        """Return whether what got worse fails the comparison."""
        return not self.is_flaky and fails(self.severity, fail_on)


class ComparedPiece(Fact):
    """One target with one variant, in both surveys."""

    before: SurveyRow
    after: SurveyRow
    verdict: SurveyVerdict
    worse: tuple[SurveyChange, ...] = ()
    """Changes for the worse, the worst first."""
    better: tuple[SurveyChange, ...] = ()
    noted: tuple[SurveyChange, ...] = ()
    """Changes that are neither: a failure that is another one now."""
    unknown: tuple[SurveyMeasure, ...] = ()
    """Measures that were known before and aren't now."""
    is_unjudged: bool = False
    """True if it said something about torch.compile before and doesn't now, such as one that the
    cluster lost."""
    is_noisy: bool = False
    """True if speed-ups weren't compared, because the machine was too busy in one of the two."""

    @property
    def name(self) -> str:
        """Return the target's name."""
        return self.after.name

    @property
    def variant(self) -> str:
        """The variant's name."""
        return self.after.variant

    @property
    def counting(self) -> tuple[SurveyChange, ...]:
        """Return what got worse, but for what an unstable piece may do."""
        return tuple(change for change in self.worse if not change.is_flaky)

    def fails(self, fail_on: FailOn) -> bool:
        """Return whether something that got worse is at or above the severity that fails."""
        return any(change.fails(fail_on) for change in self.worse)


class ComparedVariant(Fact):
    """The pieces of one variant that both surveys have."""

    variant: str
    pieces: int
    judged: int
    """Of these, the ones that say something about torch.compile in at least one of the two."""
    passed_before: int
    passed_after: int
    timed: int
    """Pieces with a speed-up that passed in both."""
    speedup_before: GeometricMean | None = None
    """Over the timed pieces; None if there are none."""
    speedup_after: GeometricMean | None = None
    """The same now."""
    compile_cold_s_before: float | None = None
    """Median over the pieces that passed and have it in both; None if there are none."""
    compile_cold_s_after: float | None = None
    """The same now."""


class SurveyComparison(Document):
    """The JSON document of ``graphdoctor diff`` for two surveys."""

    before: SurveySide
    after: SurveySide
    """The second."""
    folder: str | None = None
    """Path from the root of the git repository to the folder that ``diff`` ran in; None at the root
    and outside any. In SARIF and GitHub's annotations, paths begin with it."""
    fail_on: FailOn = "warning"
    """The lowest severity of what got worse that fails the comparison."""
    mismatches: tuple[SurveyMismatch, ...] = ()
    """Ways in which the surveys differ; empty if none is known."""
    variants: tuple[ComparedVariant, ...] = ()
    """Numbers over the pieces that both have."""
    pieces: tuple[ComparedPiece, ...] = ()
    """Pieces that both have and that differ, the worst first."""
    unchanged: int = 0
    still_failing: int = 0
    noisy: int = 0
    """Number of pieces with speed-ups that weren't compared, because the machine was too busy in
    one of the two."""
    added: tuple[SurveyRow, ...] = ()
    """Rows that only the second has."""
    gone: tuple[SurveyRow, ...] = ()
    """Rows that only the first has: whether they still pass is unknown."""
    new_causes: tuple[SharedCause, ...] = ()
    """The new findings added up over pieces, the most costly first."""

    def of(self, verdict: SurveyVerdict) -> tuple[ComparedPiece, ...]:
        """The pieces with a verdict."""
        return tuple(piece for piece in self.pieces if piece.verdict == verdict)

    @property
    def failing(self) -> tuple[ComparedPiece, ...]:
        """The pieces that fail the comparison."""
        return tuple(piece for piece in self.pieces if piece.fails(self.fail_on))

    @property
    def is_unknown(self) -> bool:
        """Return whether something that could be judged before can't be now."""
        return bool(self.gone) or self.after.rows < self.after.planned or bool(self.of("unknown"))

    @property
    def exit_code(self) -> Literal[0, 1, 2]:
        """2 if something is unknown now, otherwise 1 if a piece fails it, otherwise 0."""
        return 2 if self.is_unknown else 1 if self.failing else 0

    def changes(self) -> Iterator[tuple[ComparedPiece, SurveyChange]]:
        """Return what got worse, with its piece."""
        return ((piece, change) for piece in self.pieces for change in piece.worse)


def side_of(report: SurveyReport, path: str | None) -> SurveySide:
    """Return what a comparison says of one survey."""
    return SurveySide(
        path=path,
        **values_of(report, "name", "started", "graphdoctor_version", "planned", "shard"),
        torch=tuple(dict.fromkeys(row.torch for row in report.rows if row.torch is not None)),
        devices=tuple(dict.fromkeys(row.device for row in report.rows if row.device is not None)),
        rows=len(report.rows),
    )
