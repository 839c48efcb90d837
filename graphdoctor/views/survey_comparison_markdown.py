"""Two surveys side by side as Markdown, for a comment on a pull request or the summary of a nightly job.

Comes in: a ``SurveyComparison``. Goes out: GitHub's Markdown with the essentials at the top and the rest folded, no
longer than GitHub accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphdoctor.views import survey_comparison_words as words
from graphdoctor.views.markdown import Section, document
from graphdoctor.views.markdown_text import code, plain, sentence
from graphdoctor.views.survey_words import cause_fix, cause_place, some_names

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SharedCause
    from graphdoctor.facts.survey_comparison import ComparedPiece, SurveyComparison, SurveySide, SurveyVerdict

_OPEN: tuple[SurveyVerdict, ...] = ("unknown", "failing", "worse", "flaky")
_FOLDED: tuple[SurveyVerdict, ...] = ("fixed", "better")
_MAX_CHANGES = 6
"""Of a piece."""


def render_survey_comparison_markdown(comparison: SurveyComparison) -> str:
    """Verdict, differences between the surveys, numbers, what got worse; what got better is folded.

    Args:
        comparison: What to write.

    Returns:
        Markdown of limited length, with a newline at the end.
    """
    said, _ = words.verdict(comparison)
    head = ["## graphdoctor", f"**{plain(said)}**"]
    if (why := words.exit_text(comparison)) is not None:
        head.append(plain(why))
    head.append(f"Before: {_side(comparison.before)}  \nAfter: {_side(comparison.after)}")
    return document(head, _sections(comparison))


def _side(side: SurveySide) -> str:
    first, *rest = words.side_parts(side)
    named = f" ({code(side.path)})" if side.path else ""
    return " · ".join([code(first), *map(plain, rest)]) + named


def _sections(comparison: SurveyComparison) -> Iterator[Section]:
    differing = [f"- {plain(words.mismatch_text(each))}" for each in comparison.mismatches]
    yield Section(differing, "difference", "### The surveys differ\n\n")
    shown = words.variant_grid(comparison)
    head = f"| {' | '.join(shown.headings)} |\n| --- |{' ---: |' * (len(shown.headings) - 1)}\n"
    rows = [f"| {' | '.join([code(name), *(plain(cell.line) for cell in cells)])} |" for name, cells in shown.rows]
    yield Section(rows, "variant", head)
    gone = [f"- {code(words.piece_name(row, comparison))}" for row in comparison.gone]
    yield Section(gone, "piece", "### Only in the first survey\n\n")
    yield Section([_cause(cause) for cause in comparison.new_causes], "finding", "### New findings\n\n")
    for verdict in _OPEN:
        pieces = [_piece(piece, comparison) for piece in comparison.of(verdict)]
        yield Section(pieces, "piece", f"### {words.HEADINGS[verdict]}\n\n")
    for verdict in _FOLDED:
        pieces = [_piece(piece, comparison) for piece in comparison.of(verdict)]
        yield Section(pieces, "piece", summary=f"{words.HEADINGS[verdict]}: {len(pieces)}")
    noted = [
        f"- {code(words.piece_name(piece.after, comparison))}: {plain('; '.join(texts))}"
        for piece in comparison.pieces
        if (texts := words.noted_texts(piece))
    ]
    yield Section(noted, "piece", f"{words.SINGLE}\n\n", summary=f"Noted: {len(noted)}")
    yield Section([f"- {plain(text)}" for text in words.closing_texts(comparison)], "note")


def _cause(cause: SharedCause) -> str:
    text = f"- **{plain(cause.code)}** {plain(words.cause_head(cause))}, {code(cause_place(cause))}  \n  "
    text += f"{sentence(cause.message)}  \n  In {plain(some_names(cause.targets))}."
    if (fix := cause_fix(cause)) is not None:
        text += f"  \n  {'Fix' if fix[1] else 'Try'}: {sentence(fix[0])}"
    return text


def _piece(piece: ComparedPiece, comparison: SurveyComparison) -> str:
    texts = list(words.piece_texts(piece))
    shown = [sentence(text) for text in texts[:_MAX_CHANGES]]
    if len(texts) > _MAX_CHANGES:
        shown.append(f"and {len(texts) - _MAX_CHANGES} more")
    if (why := words.failure_text(piece.after)) is not None:
        shown.append(plain(why))
    if piece.after.command is not None and words.TONES.get(piece.verdict) == "bad":
        shown.append(code(piece.after.command))
    return "  \n  ".join([f"- {code(words.piece_name(piece.after, comparison))}: {shown[0]}", *shown[1:]])
