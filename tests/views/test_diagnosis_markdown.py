"""What people read of a diagnosis in an issue."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.recording import CaptureGap, Recording
from graphdoctor.facts.run import ProbeExit
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.views.markdown_text import render_view_markdown
from graphdoctor.views.report import report_view
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


def troubled() -> Recording:
    """Two breaks, one in a loop, and a recompile."""
    skipping = record(
        entry(25, 'print("each")'), compile_id="2/0", effect="frame_skipped", chain=(LOOP, PRINT)
    )
    return recording(
        breaks=(record(entry(12, 'print("x")', columns=(9, 19))), skipping),
        compiles=(compiled(), compiled("2/0", outcome="skipped"), recompiled("0/1", change())),
        frames=(frame(), frame(2, function="smooth", line=20)),
        graphs=(graph(), graph("0/1", index=1)),
    )


def test_a_diagnosis_reads_as_it_should(snapshot: SnapshotAssertion) -> None:
    gap = CaptureGap(
        code="GD904", kind="foreign_log", message="graphdoctor didn't record this log."
    )
    ended = ProbeExit(status=None, reason="timeout", message="the run was stopped after 5 s")
    partial = troubled().replace(gaps=(gap,), exit=ended, is_partial=True)
    shown = report_view(diagnosed(partial, selection=Selection(ignore=("GD1",))))
    assert render_view_markdown(shown) == snapshot(name="partial, unknown and hidden")
