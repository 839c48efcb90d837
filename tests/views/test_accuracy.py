"""The report of ``accuracy``: one of each answer."""

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.accuracy import AccuracyReport, ComparedKind
from graphdoctor.views.accuracy import accuracy_text, accuracy_view
from tests.studies.accuracy.reports import agreeing, stale, wrong
from tests.views.outputs import on_terminal

REPORTS = {
    "same bits": agreeing("same bits"),
    "rounding": agreeing(is_drawn_as_eager=True),
    "far for rounding": agreeing(
        kinds=(ComparedKind(kind="outputs", verdict="rounding", count=1, variant=1e-5, eager=4e-8),)
    ),
    "different": wrong(),
    "stale": stale(),
    "asks": wrong(is_branch_explained=True, located=None, stages=None, cures=()),
    "not located": wrong(located=None, not_located="only_whole", branches=(), cures=()),
    "nothing compiled": agreeing("unknown", graphs=0),
    "partly eager": agreeing("same bits", break_sites=2),
    "unknown": agreeing("unknown", reason="outputs differ from run to run in eager mode too"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_each_answer(name: str, snapshot: SnapshotAssertion) -> None:
    report: AccuracyReport = REPORTS[name]
    view = accuracy_view(report.replace(text=accuracy_text(report)))
    assert on_terminal(view, width=80) == snapshot
