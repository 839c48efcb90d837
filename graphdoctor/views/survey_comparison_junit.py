"""Two surveys side by side as JUnit XML, one test suite for each variant.

Comes in: a ``SurveyComparison``. Goes out: XML text. A piece that differs is a test case; all others are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

from graphdoctor.facts.wording import counted
from graphdoctor.views import survey_comparison_words as words
from graphdoctor.views.junit import case_of, junit_document, suite_of, xml_line, xml_lines_of

if TYPE_CHECKING:
    from graphdoctor.facts.survey_comparison import ComparedPiece, SurveyComparison

_COMPARISON = "graphdoctor diff"


def render_survey_comparison_junit(comparison: SurveyComparison) -> str:
    """A document with one ``testsuite`` for each variant.

    A piece that can't be judged any more is an error, one that got worse a failure if it fails the comparison, and one
    that is flaky is skipped. The rest is in ``system-out``.

    Args:
        comparison: What to write.

    Returns:
        XML, indented, with a newline at the end.
    """
    suites = []
    for variant in dict.fromkeys(
        [*(one.variant for one in comparison.variants), *(g.variant for g in comparison.gone)]
    ):
        cases = list(_cases(variant, comparison))
        suite = suite_of(variant, cases)
        suite.extend(cases)
        if lines := list(_lines(variant, comparison)):
            SubElement(suite, "system-out").text = xml_lines_of(lines)
        suites.append(suite)
    notes = [words.mismatch_text(mismatch) for mismatch in comparison.mismatches]
    if (missing := comparison.after.planned - comparison.after.rows) > 0:
        case = case_of(_COMPARISON, "all pieces finished")
        text = f"{counted(missing, 'piece')} of the second survey didn't finish."
        SubElement(case, "error", type="missing", message=text).text = text
        suite = suite_of(_COMPARISON, [case])
        suite.append(case)
        suites.append(suite)
    return junit_document(_COMPARISON, suites, notes=[*notes, *words.closing_texts(comparison)])


def _cases(variant: str, comparison: SurveyComparison) -> Iterator[Element]:
    for row in comparison.gone:
        if row.variant == variant:
            case = case_of(variant, row.name)
            SubElement(case, "error", type="gone", message="It is only in the first survey.")
            yield case
    own = [piece for piece in comparison.pieces if piece.variant == variant]
    for piece in own:
        yield _case(piece, comparison)
    pieces = next((one.pieces for one in comparison.variants if one.variant == variant), 0)
    if unchanged := pieces - len(own):
        yield case_of(variant, f"{counted(unchanged, 'piece')} unchanged")


def _case(piece: ComparedPiece, comparison: SurveyComparison) -> Element:
    case = case_of(piece.variant, piece.name)
    lines = [*words.piece_texts(piece), *filter(None, (words.failure_text(piece.after), piece.after.command))]
    if piece.verdict == "unknown":
        _put(case, "error", "unknown", lines)
    elif piece.fails(comparison.fail_on):
        _put(case, "failure", piece.verdict, lines)
    elif piece.verdict == "flaky":
        SubElement(case, "skipped", message=xml_line(lines[0]))
    return case


def _put(case: Element, kind: str, verdict: str, lines: list[str]) -> None:
    SubElement(case, kind, type=verdict, message=xml_line(lines[0])).text = xml_lines_of(lines)


def _lines(variant: str, comparison: SurveyComparison) -> Iterator[str]:
    """What fails nothing."""
    for piece in comparison.pieces:
        if piece.variant != variant or piece.verdict == "unknown" or piece.fails(comparison.fail_on):
            continue
        for text in (*words.piece_texts(piece), *words.noted_texts(piece)):
            yield f"{words.HEADINGS[piece.verdict].lower()}: {piece.name}: {text}"
