"""Two surveys side by side as SARIF 2.1.0: one result for each new finding, and one for whatever else got worse.

Comes in: a ``SurveyComparison``. Goes out: JSON text. A finding that many pieces share is one result, at its own line.
A piece that fails, or is slower, is a result at its target's file. What is unknown isn't a result: the run as a whole
says it, and didn't succeed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.facts.check import FailOn
from graphdoctor.views import survey_comparison_words as words
from graphdoctor.views.sarif import (
    FINGERPRINT,
    LEVELS,
    Json,
    artifact_of,
    driver_of,
    message_of,
    notification_of,
    rule_of,
    sarif_log,
)
from graphdoctor.views.survey_words import some_names

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SurveyCause
    from graphdoctor.facts.survey_comparison import ComparedPiece, SurveyChange, SurveyChangeKind, SurveyComparison

_RULES: dict[SurveyChangeKind, tuple[str, str]] = {
    "status": ("survey-failure", "A target passed and fails now."),
    "break_sites": ("survey-breaks", "A target has more break sites."),
    "skipped_frames": ("survey-skipped-frames", "A target has more skipped frames."),
    "recompiles": ("survey-recompiles", "A target recompiles more often."),
    "frames_over_limit": ("survey-recompile-limit", "More functions of a target hit the recompile limit."),
    "coverage": ("survey-coverage", "A smaller share of a target's operations is compiled."),
    "speedup": ("survey-slower", "A target is slower beyond noise."),
    "correct": ("survey-wrong-results", "A target's results differ from those of eager mode."),
    "exports": ("survey-export", "torch.export no longer takes a target."),
    "is_steady": ("survey-not-steady", "A target keeps compiling when its calls are repeated."),
}
"""For what isn't a finding: the id of its rule, and what it says."""


def render_survey_comparison_sarif(comparison: SurveyComparison, *, root: Path | None = None) -> str:
    """A SARIF log.

    Args:
        comparison: What to write.
        root: The folder that relative paths start from.

    Returns:
        JSON, indented, with a newline at the end.
    """
    found = [*_findings(comparison, root), *_others(comparison, root)]
    ids = sorted({result["ruleId"] for result in found})
    texts = dict(_RULES.values())
    rules = [
        {"id": name, "shortDescription": {"text": texts[name]}} if name in texts else rule_of(name) for name in ids
    ]
    results = [result | {"ruleIndex": ids.index(result["ruleId"])} for result in found]
    return sarif_log(
        driver_of(comparison.graphdoctor_version, rules), _invocation(comparison), results, _properties(comparison)
    )


def _invocation(comparison: SurveyComparison) -> Json:
    said = [("error", text) for text in words.unknown_texts(comparison)]
    said += [("note", words.mismatch_text(mismatch)) for mismatch in comparison.mismatches]
    said += [("note", text) for text in words.closing_texts(comparison)]
    return {
        "executionSuccessful": not comparison.is_unknown,
        "exitCode": comparison.exit_code,
        "toolExecutionNotifications": [notification_of(*each) for each in said],
    }


def _properties(comparison: SurveyComparison) -> Json:
    return {
        "before": comparison.before.model_dump(),
        "after": comparison.after.model_dump(),
        "failOn": comparison.fail_on,
        "variants": [variant.model_dump() for variant in comparison.variants],
        "fixed": [[piece.name, piece.variant] for piece in comparison.of("fixed")],
        "unchanged": comparison.unchanged,
    }


# Results.


def _findings(comparison: SurveyComparison, root: Path | None) -> Iterator[Json]:
    """New findings, each once, with the pieces that have it."""
    for together in words.new_findings(comparison):
        cause = together[0][2]
        names = [words.piece_name(piece.after, comparison) for piece, _, _ in together]
        yield _result(
            cause.code,
            f"{cause.message.rstrip('.')}. New in {some_names(names)}.",
            together[0][1],
            comparison.fail_on,
            fingerprint=cause.fingerprint,
            location=_line_of(cause, comparison, root),
            pieces=[piece for piece, _, _ in together],
        ) | {"occurrenceCount": sum(each.count for _, _, each in together)}


def _line_of(cause: SurveyCause, comparison: SurveyComparison, root: Path | None) -> Json:
    region: Json = {"startLine": max(cause.line, 1)}
    if cause.text:
        region["snippet"] = {"text": cause.text}
    return {
        "physicalLocation": {
            "artifactLocation": artifact_of(words.cause_file(cause, comparison, root)),
            "region": region,
        },
        "logicalLocations": [{"fullyQualifiedName": cause.function, "kind": "function"}],
    }


def _others(comparison: SurveyComparison, root: Path | None) -> Iterator[Json]:
    """What got worse and is no finding, or isn't shown by one."""
    for piece in comparison.pieces:
        for change in words.unexplained(piece):
            name = words.piece_name(piece.after, comparison)
            text = f"{name}: {words.change_text(change, piece)}"
            if change.kind == "status" and (why := words.failure_text(piece.after)) is not None:
                text += f": {why}"
            rule = _RULES[change.kind][0]
            yield _result(
                rule,
                text,
                change,
                comparison.fail_on,
                fingerprint=f"{rule}:{piece.variant}:{piece.name}",
                location=_target_location(piece, comparison, root),
                pieces=[piece],
            )


def _result(
    rule: str,
    text: str,
    change: SurveyChange,
    fail_on: FailOn,
    *,
    fingerprint: str,
    location: Json,
    pieces: list[ComparedPiece],
) -> Json:
    return {
        "ruleId": rule,
        "level": "note" if change.is_flaky else LEVELS[change.severity],
        "message": message_of(text),
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: fingerprint},
        "baselineState": "new",
        "properties": {
            "isFailing": change.fails(fail_on),
            "isFlaky": change.is_flaky,
            "pieces": [[piece.name, piece.variant] for piece in pieces],
        },
    }


def _target_location(piece: ComparedPiece, comparison: SurveyComparison, root: Path | None) -> Json:
    """The target, at the first line of its file. GitHub takes no result without a file: then it is the survey."""
    location: Json = {"logicalLocations": [{"fullyQualifiedName": piece.after.target, "kind": "module"}]}
    place = words.target_place(piece.after, comparison, root)
    if place is None and comparison.after.path is not None:
        place = words.placed(comparison.after.path, comparison, root)
    if place is None:
        return location
    physical = {"artifactLocation": artifact_of(place), "region": {"startLine": 1}}
    return {"physicalLocation": physical} | location
