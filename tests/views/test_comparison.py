"""What people read of two runs side by side, at 80 and at 140 columns."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.check import DiagnosisComparison
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.recording import Recording, SteadyCall
from graphdoctor.rules.diagnosis.comparison import compare
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.views.comparison import comparison_view
from tests.factories import (
    LOOP,
    PRINT,
    change,
    compiled,
    diagnosed,
    entry,
    frame,
    graph,
    recompiled,
    record,
    recording,
)
from tests.views.outputs import on_terminal

PASSED_ON = frame(1, function="embed", line=30)


def facts(*, is_after: bool) -> Recording:
    """Before: three prints, one of them in a loop. After: one print less, one moved, one value that
    recompiles."""
    kept = record(entry(14 if is_after else 12, 'print("kept")', columns=(9, 22)))
    again = record(
        entry(20, 'print("again")'),
        compile_id="1/0",
        effect="rest_eager" if is_after else "resumed",
    )
    gone = record(
        entry(25, 'print("gone")'), compile_id="2/0", effect="frame_skipped", chain=(LOOP, PRINT)
    )
    recompiles = (recompiled("0/1", change()),) if is_after else ()
    return recording(
        breaks=(kept, again) if is_after else (kept, again, gone),
        compiles=(compiled(), compiled("1/0"), *recompiles),
        frames=(frame(), PASSED_ON),
        graphs=(graph(), graph("1/0", index=1)) if is_after else (graph(),),
        coverage=Coverage(graph_ops=9 if is_after else 3, eager_ops=3),
    ).replace(
        steady_call=SteadyCall(call_us=61.5 if is_after else 1480.0, runs=()),
        environment=recording().environment.replace(torch="2.15.0" if is_after else "2.13.0"),
    )


def both(selection: Selection | None = None) -> DiagnosisComparison:
    return compare(
        diagnosed(facts(is_after=False)),
        diagnosed(facts(is_after=True)),
        names=("before.json", ".graphdoctor/20261121-042906-123456-model"),
        selection=selection,
    )


def text_of(comparison: DiagnosisComparison, *, width: int = 80, is_verbose: bool = False) -> str:
    return on_terminal(comparison_view(comparison), width=width, is_verbose=is_verbose)


def test_a_comparison_reads_as_it_should(snapshot: SnapshotAssertion) -> None:
    assert text_of(both(), width=100, is_verbose=True) == snapshot


def test_same_unknown_hidden_and_foreign_findings_are_reported(snapshot: SnapshotAssertion) -> None:
    before, clean, found = diagnosed(facts(is_after=False)), diagnosed(coverage=None), both()
    more = found.after.replace(summary=found.after.summary.replace(calls=4))
    log = found.before.replace(has_calls=False, target=found.before.target.replace(text=None))
    assert text_of(compare(before, before)) == snapshot(name="a run against itself")
    assert text_of(compare(clean, clean)) == snapshot(name="two clean runs")
    assert text_of(both(Selection(select=("GD9",)))) == snapshot(name="hidden findings")
    assert text_of(found.replace(after=more)) == snapshot(name="more calls")
    assert text_of(found.replace(before=log, after=more)) == snapshot(name="a foreign log")
