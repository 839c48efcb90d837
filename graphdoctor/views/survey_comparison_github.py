"""Two surveys side by side as GitHub workflow commands, which become annotations.

Comes in: a ``SurveyComparison``. Goes out: one ``::error …::…`` line for each annotation. A finding that many pieces
share is one annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.views import survey_comparison_words as words
from graphdoctor.views.github import LEVELS, Annotation, commands, error_lines
from graphdoctor.views.survey_words import some_names

if TYPE_CHECKING:
    from graphdoctor.facts.survey_comparison import ComparedPiece, SurveyChange, SurveyComparison


def render_survey_comparison_github(comparison: SurveyComparison, *, root: Path | None = None) -> str:
    """The commands, the worst first; empty if nothing got worse or became unknown.

    Args:
        comparison: What to write.
        root: The repository's folder, which relative paths start from.
    """
    return commands(_annotations(comparison, root))


def _annotations(comparison: SurveyComparison, root: Path | None) -> Iterator[Annotation]:
    for text in words.unknown_texts(comparison):
        yield Annotation("error", "Unknown now", error_lines(text))
    for together in words.new_findings(comparison):
        yield _of_finding(together, comparison, root)
    for piece in comparison.pieces:
        for change in words.unexplained(piece):
            yield _of_piece(piece, change, comparison, root)


def _of_finding(together: Sequence[words.NewFinding], comparison: SurveyComparison, root: Path | None) -> Annotation:
    _, change, cause = together[0]
    lines = [cause.message]
    place = words.cause_file(cause, comparison, root)
    if place.base != "SRCROOT":
        lines.append(f"In {cause.location}, {cause.function}.")
    names = [words.piece_name(piece.after, comparison) for piece, _, _ in together]
    lines.append(f"New in {some_names(names)}.")
    if cause.fix is not None:
        lines.append(f"{'Verified fix' if cause.fix_verdict == 'verified' else 'Try'}: {cause.fix}")
    lines.append(f"Read more: graphdoctor rule {cause.code}")
    is_here = place.base == "SRCROOT"
    return Annotation(
        LEVELS[change.severity],
        f"{cause.code} {cause.rule}",
        tuple(lines),
        place.path if is_here else None,
        max(cause.line, 1) if is_here else None,
    )


def _of_piece(
    piece: ComparedPiece, change: SurveyChange, comparison: SurveyComparison, root: Path | None
) -> Annotation:
    lines = [words.change_text(change, piece)]
    if change.kind == "status" and (why := words.failure_text(piece.after)) is not None:
        lines += error_lines(why)
    if piece.after.command is not None:
        lines.append(piece.after.command)
    place = words.target_place(piece.after, comparison, root)
    return Annotation(
        "notice" if change.is_flaky else LEVELS[change.severity],
        words.piece_name(piece.after, comparison),
        tuple(lines),
        place.path if place is not None and place.base == "SRCROOT" else None,
    )
