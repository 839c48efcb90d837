"""Shows a cure: the answer, what was tried on the way, and what to change.

Comes in: a ``CureReport``. Goes out: a view.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphdoctor.facts.bench import AS_IT_WAS, CURED, CureReport, CureStep, StepOutcome
from graphdoctor.facts.command import command_line
from graphdoctor.views.measures import noise_text, seconds_text, speedup_text
from graphdoctor.views.next_step import after_cure
from graphdoctor.views.parts import (
    Block,
    Blocks,
    Code,
    Diff,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Tone,
    Verdict,
    View,
)
from graphdoctor.views.words import INTERRUPTED, applied_snippets, first_sentence, study_view
from graphdoctor.wording import join_texts

_TONES: dict[str, Tone] = {CURED: "good", AS_IT_WAS: "good", "eager": "warning"}
_OUTCOMES: dict[StepOutcome, Tone] = {"kept": "good", "wrong": "bad", "failed": "bad"}


def cure_view(report: CureReport, *, is_written: bool = False) -> View:
    """Return the report as a tree."""
    return study_view(
        report,
        "cure",
        _parts(report, is_written=is_written),
        after_cure(report, is_written=is_written),
    )


def _parts(report: CureReport, *, is_written: bool) -> Iterator[Block]:
    if report.is_interrupted:
        yield Note(INTERRUPTED, "warning")
    yield Verdict(report.text, _TONES[report.best] if report.best else "bad")
    if report.noise is not None:
        lead = "The machine was too noisy; " if report.noise.is_noisy else ""
        yield Note(f"{lead}{noise_text(report.noise)}", "dim")
    yield Section(
        "Tried, each on top of what was kept", Rows(map(_step, report.steps), "way"), "Tried"
    )
    if report.best == CURED:
        todo = enumerate(_todo(report, is_written=is_written), start=1)
        yield Section("Do this", Rows(Row(str(number), parts) for number, parts in todo))
    findings = (report.cured or report.as_it_was).findings
    left = tuple(Row(finding.code, first_sentence(finding.message)) for finding in findings)
    yield Section("What still holds it back", Rows(left, "finding"), "Findings")
    is_cut = any(step.outcome == "skipped" and step.is_late for step in report.steps)
    more = " More time would try more: --budget SECONDS." if is_cut else ""
    yield Note(f"Searched for {report.spent_s:.0f} of {report.budget_s:.0f} s.{more}", "dim")


def _step(step: CureStep) -> Row:
    beside = (
        None if step.speedup is None else f"{speedup_text(step.speedup)} beside the best before it"
    )
    compiling = None
    if step.compile_cold_s is not None and step.compile_before_s is not None:
        compiling = (
            f"compile {seconds_text(step.compile_before_s)} → {seconds_text(step.compile_cold_s)}"
        )
    details = join_texts("; ", beside, compiling, step.reason)
    name = Span(step.name, tone=_OUTCOMES.get(step.outcome))
    return Row(step.outcome, Note((name, Span(f": {details}" if details else "", tone="dim"))))


def _todo(report: CureReport, *, is_written: bool) -> Iterator[Blocks]:
    if report.diff:
        command = command_line(report.target, "cure", "--apply")
        if is_written:
            yield ("These edits are being written:", Diff(report.diff))
        elif command is not None:
            yield (f"Write the edits ({command}):", Diff(report.diff))
        else:
            yield (Diff(report.diff),)
    if report.treatment is not None and (report.settings or report.calls):
        for place, snippet in applied_snippets(report.treatment, is_by_hand=True):
            yield (f"{place}:" if place else "Set yourself:", Code(snippet))
    if report.compile_lines:
        yield ("Compile it like this:", Code("\n".join(report.compile_lines)))
