"""A target that is worse than its baseline without a new finding, in every format of a check."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.check import BaselineRun
from graphdoctor.views.annotations import baseline_notes, more_eager_texts, run_changes
from graphdoctor.views.github import render_github
from graphdoctor.views.junit import render_junit
from tests.views.check_reports import ROOT, target, worse_report
from tests.views.test_junit import outcomes, parsed
from tests.views.test_sarif import run_of


def test_each_is_annotation_failing_case_and_result(snapshot: SnapshotAssertion):
    assert render_github(worse_report(), root=ROOT) == snapshot(name="github")
    assert render_junit(worse_report()) == snapshot(name="junit")
    run = run_of(worse_report())
    (result,) = run["results"]
    assert (result["baselineState"], result["properties"]["isFailing"]) == ("updated", True)
    told = [
        (note["level"], note["message"]["text"])
        for note in run["invocations"][0]["toolExecutionNotifications"]
    ]
    assert [result["message"]["text"], *told] == snapshot(name="sarif")
    assert [case for suite in parsed(worse_report()) for case in outcomes(suite).values()].count(
        "failure"
    ) == 3


def test_without_a_coverage_it_is_unknown_not_0():
    found = worse_report().targets[0]
    summary = found.diagnosis.summary.replace(coverage=None, coverage_detail=None)
    unknown = found.replace(diagnosis=found.diagnosis.replace(summary=summary))
    assert (
        list(more_eager_texts(unknown))[1]
        == "coverage is unknown; in the baseline it is 80% (2 of 10)"
    )


def test_another_number_of_calls_is_said():
    (words,) = baseline_notes(
        target(baseline_torch="2.13.0", baseline_run=BaselineRun(calls=3, graphs=3))
    )
    assert words == "This run made 1 call, the baseline's 3, so findings can differ for that."


def test_an_update_says_what_changes():
    before = BaselineRun(calls=3, graphs=3, graph_ops=8, eager_ops=2, eager_functions=("f",))
    now = BaselineRun(calls=3, graphs=0, eager_functions=("f", "g"))
    assert list(run_changes(before, now)) == [
        "graphs: 3 → 0",
        "coverage: 80% → unknown",
        "now eager: g",
    ]
    assert list(run_changes(None, now)) == []
    assert list(run_changes(before, before)) == []
