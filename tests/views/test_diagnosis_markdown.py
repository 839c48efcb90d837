"""What people read of a diagnosis in an issue."""

from __future__ import annotations

from markdown_it import MarkdownIt
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.recording import CaptureGap, Recording
from graphdoctor.facts.run import ProbeExit
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.views.markdown_text import MAX_CHARACTERS, render_view_markdown
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

EVIL = "x</details> @someone #12 [a](http://b.c) |\n# Head `"


def written(facts: Recording, selection: Selection | None = None) -> str:
    return render_view_markdown(report_view(diagnosed(facts, selection=selection)))


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
    assert written(partial, Selection(ignore=("GD1",))) == snapshot(
        name="partial, unknown and hidden"
    )


def test_text_from_a_program_is_no_markup() -> None:
    text = written(recording(breaks=(record(entry(12, f"print({EVIL!r})", function=EVIL)),)))
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    assert [token for token in tokens if token.type == "heading_open" and token.tag == "h1"] == []
    assert not [
        child for token in tokens for child in token.children or () if child.type == "link_open"
    ]
    assert "x</details>" not in text


def test_findings_fit_a_comment_and_the_rest_is_counted() -> None:
    text = written(
        recording(breaks=tuple(record(entry(line, f"print({line})")) for line in range(10, 900)))
    )
    assert len(text) <= MAX_CHARACTERS
    assert "left out" in text
