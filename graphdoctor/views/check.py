"""A check: how many targets passed, a row for each, then what failed it.

Comes in: a ``CheckReport``. Goes out: a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from graphdoctor.facts.check import BudgetName, CheckReport, TargetCheck
from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.views import words
from graphdoctor.views.annotations import (
    baseline_notes,
    budget_texts,
    ended_texts,
    more_eager_texts,
    unused_texts,
    worse_text,
)
from graphdoctor.views.finding_cards import card_of, place_of
from graphdoctor.views.next_step import after_check
from graphdoctor.views.parts import (
    Block,
    Cell,
    Inline,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    TableRow,
    Tone,
    Verdict,
    View,
)
from graphdoctor.wording import counted, join_texts, percent, times

_TONES: dict[str, Tone] = {"passed": "good", "failed": "bad", "crashed": "bad"}
_MOST_ROWS = 20
_UPDATE = Span("graphdoctor baseline --update", "code")
_MEASURED: tuple[tuple[str, BudgetName, Callable[[Counts], str]], ...] = (
    ("break sites", "max-breaks", lambda target: str(target.break_sites)),
    ("recompiles", "max-recompiles", lambda target: str(target.recompiles)),
    ("graphs", "max-graphs", lambda target: str(target.graphs)),
    ("coverage", "min-coverage", lambda target: words.share_text(target.coverage)),
)


def check_view(report: CheckReport) -> View:
    """Return the report as a tree."""
    baseline = () if report.baseline is None else (f"baseline {report.baseline}",)
    return View(
        ("check", *baseline),
        "check",
        tuple(_parts(report)),
        report.graphdoctor_version,
        after_check(report),
    )


def _parts(report: CheckReport) -> Iterator[Block]:
    states = {target.state for target in report.targets}
    ruled = f", judged with {' and '.join(report.variables)}" if report.variables else ""
    yield Verdict(
        f"{_verdict(report)}{ruled}.", "good" if states == {"passed"} else "bad" if states else None
    )
    yield _table(report)
    yield from (
        _about(target, has_baseline=report.baseline is not None) for target in report.targets
    )
    for target in report.targets:
        yield from _findings(target)
    unused = (
        Row("unused", Note((Span(f"{place} "), Span(what, "code"), f" {said}")))
        for place, what, said in map(unused_texts, report.unused_ignores)
    )
    yield Section("Unused ignores", Rows(unused, "entry", _MOST_ROWS))
    reached = Note("These targets don't reach any of the given files.", "dim")
    yield Section("Skipped", (*map(Span, report.skipped), reached) if report.skipped else ())
    yield Section("Notes", (Span(note) for note in report.notes))
    if any(target.fixed for target in report.targets if not target.is_other_torch):
        yield Note((_UPDATE, " removes the fixed findings."), "dim")
    if report.baseline is None and any(target.failing for target in report.targets):
        accepts = " accepts the current findings, so that only new ones fail."
        yield Note((Span("graphdoctor baseline", "code"), accepts), "dim")


def _verdict(report: CheckReport) -> str:
    states = [target.state for target in report.targets]
    if not states:
        return f"No targets ran: {counted(len(report.skipped), 'target')} skipped"
    targets = counted(len(states), "target")
    counts = [
        (states.count("failed"), "failed"),
        (states.count("crashed"), "crashed (results unknown)"),
    ]
    (number, outcome), *rest = [pair for pair in counts if pair[0]] or [(len(states), "passed")]
    subject = targets if number == len(states) else f"{number} of {targets}"
    shares = [target.diagnosis.summary.coverage for target in report.targets if target.diagnosis]
    least = min((share for share in shares if share is not None), default=None)
    said = [f"{subject} {outcome}", *(f"{number} {outcome}" for number, outcome in rest)]
    if outcome == "passed" and least is not None:
        said.append(f"{'at least ' * (len(shares) > 1)}{percent(least)} of operations compiled")
    return ", ".join(said)


def _table(report: CheckReport) -> Table:
    """Return a row for each target."""
    rows: list[TableRow] = []
    for target in report.targets:
        by_name = {
            "worse": target.failing_worse,
            "known": target.known,
            "ignored": target.ignored,
            "fixed": target.fixed,
        }
        also = {name: f"{len(findings)} {name}" for name, findings in by_name.items() if findings}
        # What is known of another torch excuses nothing silently.
        if target.is_other_torch and "known" in also:
            also["known"] += f" under torch {target.baseline_torch}"
        new = Cell(words.UNKNOWN)
        if target.state != "crashed":
            below = len(target.new) - len(target.failing)
            why = "allowed" if target.fail_on == "never" else f"below {target.fail_on}"
            failing = str(len(target.failing))
            tone: Tone | None = "bad" if target.failing else None
            new = Cell(failing, f"{below} {why}" if below else "", tone)
        missed = {budget.name: budget for budget in target.budgets if not budget.is_kept}
        measured = []
        for _, name, shown in _MEASURED:
            cell = Cell(words.UNKNOWN)
            if name in missed:
                cell = Cell(*budget_texts(missed[name]), "bad")
            elif target.diagnosis is not None:
                cell = Cell(shown(target.diagnosis.summary))
            measured.append(cell)
        state = Cell(target.state, tone=_TONES[target.state])
        rows.append((Span(target.name, "code"), state, new, *measured, ", ".join(also.values())))
    headings = ("#target", "state", "#new", *(f"#{name}" for name, *_ in _MEASURED), "also")
    return Table(headings, rows, "target", label="Targets")


def _about(target: TargetCheck, *, has_baseline: bool) -> Section:
    rows = [Row(label, Note(Span(error), "bad")) for label, error in ended_texts(target)]
    if target.hint:
        rows.append(Row("hint", Span(target.hint)))
    if target.is_other_torch and target.diagnosis is not None:
        running = target.diagnosis.recording.environment.torch
        said: Inline = (
            f"compared with the baseline for torch {target.baseline_torch}; this run uses torch"
            f" {running}"
        )
        if target.new or target.fixed:
            can = ", so new and fixed findings may come from the upgrade. "
            said = (said, can, _UPDATE, " adds this version to the baseline")
        rows.append(Row("torch", Note(said)))
    elif has_baseline and target.baseline_torch is None and target.failing:
        rows.append(Row("baseline", "has no entry for this target, so all of its findings are new"))
    rows += [Row("eager", text) for text in more_eager_texts(target)]
    rows += [Row("note", text) for text in baseline_notes(target)]
    return Section(Span(target.name), Rows(rows), tone=_TONES[target.state])


def _findings(target: TargetCheck) -> Iterator[Section]:
    name = Span(target.name, "code")
    worse = {item.finding.fingerprint: worse_text(item) for item in target.worse}
    yield Section(("New in ", name), _cards(target.failing), tone="bad")
    worse_blocks = []
    for item in target.failing_worse:
        worse_blocks += [f"{worse_text(item)}.", *_cards([item.finding])]
    yield Section(("Worse in ", name), worse_blocks, tone="bad")
    kept = [item.finding for item in target.worse if item not in target.failing_worse]
    rows = [
        ("new", finding, finding.message) for finding in target.new if finding not in target.failing
    ]
    rows += [("worse", finding, worse[finding.fingerprint]) for finding in kept]
    rows += [
        ("more", finding, f"{finding.message}, now {times(finding.count)}")
        for finding in target.grown
        if finding.fingerprint not in worse
    ]
    below = [_line(*row) for row in rows]
    yield Section(("Doesn't fail ", name), Rows(below, "finding", _MOST_ROWS))
    fixed = []
    for entry in target.fixed:
        where = (Span(entry.file, "code"), " in ", Span(entry.function, "code"))
        fixed.append(Row(entry.code, Note((*where, f"  {entry.message}"))))
    yield Section(("Fixed in ", name), Rows(fixed, "finding", _MOST_ROWS), tone="good")
    others = [_line("known", finding, finding.message) for finding in target.known]
    for ignored in target.ignored:
        why = join_texts(": ", ignored.by, ignored.reason)
        others.append(_line("ignored", ignored.finding, f"{ignored.finding.message} (by {why})"))
    yield Section(("Accepted in ", name), Rows(others, "finding", _MOST_ROWS), show="long")


def _line(label: str, finding: Finding, said: str) -> Row:
    return Row(label, Note((finding.code, " ", place_of(finding.location), f"  {said}")))


def _cards(findings: Sequence[Finding]) -> Iterator[Block]:
    return (card_of(cluster) for cluster in words.clusters(findings))
