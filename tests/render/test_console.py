"""What people read at 80 and at 140 columns."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.diagnosis import Cost, Fix
from graphdoctor.facts.recording import BreakReason, Enclosing, GraphRun, Recording, SteadyCall
from graphdoctor.facts.run import ProbeExit
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.views.report import report_view
from graphdoctor.views.terminal import write_view
from tests.factories import LOOP, PRINT, compiled, context, entry, frame, graph, record, recording
from tests.views.outputs import on_terminal


def rendered(facts: Recording, *, width: int = 80, is_verbose: bool = False, own_code: bool = False) -> str:
    selection = Selection(is_own_code_only=own_code)
    diagnosis = diagnose(facts, RULES, root=Path("/project"), version="0", selection=selection)
    return on_terminal(report_view(diagnosis), width=width, is_verbose=is_verbose).rstrip("\n")


def broken() -> Recording:
    line = entry(14, "x = helper(print(x))", columns=(20, 28))
    return recording(
        breaks=(record(entry(11, "y = self.body(x)"), line),),
        frames=(frame(), frame(1, resumes_at=11)),
        compiles=(compiled(), compiled("1/0")),
        graphs=(graph(), graph("1/0", index=1)),
        coverage=Coverage(graph_ops=311, eager_ops=1, extra_calls=2, extra_compiles=1),
    )


def skipped() -> Recording:
    return recording(
        breaks=(record(entry(14), effect="frame_skipped", chain=(PRINT, LOOP)),),
        compiles=(compiled(outcome="skipped"),),
        graphs=(),
        sources=(context(14, 'print("x")', Enclosing(kind="for", line=12, text="for layer in self.layers:")),),
        coverage=Coverage(graph_ops=0, eager_ops=26, extra_calls=1, extra_compiles=0),
    )


@pytest.mark.parametrize("width", [80, 140])
def test_a_break(snapshot: SnapshotAssertion, width: int) -> None:
    assert rendered(broken(), width=width) == snapshot


@pytest.mark.parametrize("width", [80, 140])
def test_a_skipped_frame(snapshot: SnapshotAssertion, width: int) -> None:
    assert rendered(skipped(), width=width) == snapshot


def test_verbose_adds_operations_and_code(snapshot: SnapshotAssertion) -> None:
    assert rendered(broken(), width=120, is_verbose=True) == snapshot


def test_no_break(snapshot: SnapshotAssertion) -> None:
    assert rendered(recording()) == snapshot


def test_a_share_that_is_not_whole_is_never_shown_as_whole() -> None:
    assert "coverage >99% (311 of 312 operations)" in " ".join(rendered(broken()).split())


def test_a_partial_run_says_so_and_why() -> None:
    end = ProbeExit(status=-9, reason="killed", message="The process was killed by SIGKILL during call 1.")
    text = rendered(recording(ended=end, coverage=None))
    assert "PARTIAL" in text
    assert "killed by SIGKILL" in text
    assert "No graph break" not in text


def test_the_owning_package_is_named_and_its_path_begins_there() -> None:
    place = entry(
        1348, "logger.warning_once(", file="/x/site-packages/transformers/models/l.py", origin="third_party",
        package="transformers",
    )  # fmt: skip
    text = rendered(recording(breaks=(record(place),)), width=140)
    assert "--> transformers/models/l.py:1348" in text
    assert "[transformers]" in text


def test_hidden_findings_are_counted() -> None:
    place = entry(5, file="/lib/site-packages/pkg/mod.py", origin="third_party", package="pkg")
    assert "1 finding hidden" in rendered(recording(breaks=(record(place),)), own_code=True)


SHAPE = PRINT.model_copy(
    update={"context": "builtin print [<class 'torch._dynamo.variables.lists.SizeVariable'>] False"}
)
"""Of a print that torch can't move behind the graph, so each line has a fix of its own."""


def many(count: int, text: str = 'print("{}")', reason: BreakReason = SHAPE, **place: Any) -> Recording:
    """Breaks on lines of their own."""
    return recording(
        breaks=tuple(
            record(entry(20 + number, text.format(number), **place), compile_id=f"{number}/0", chain=(reason,))
            for number in range(count)
        ),
        compiles=tuple(compiled(f"{number}/0") for number in range(count)),
        frames=tuple(frame(number, line=10 + number) for number in range(count)),
    )


def test_the_verdict_has_shares_before_any_finding() -> None:
    facts = many(2).model_copy(
        update={"steady_call": SteadyCall(call_us=90.0, runs=(GraphRun(graph=0, start_us=1, end_us=2),) * 3)}
    )
    assert (
        rendered(facts).splitlines()[2] == "100% of operations compiled · 3 graphs per call · 2 lines break the graph"
    )


def test_what_mends_most_comes_first_and_says_what_it_mends() -> None:
    text = rendered(many(3), width=140)
    table = text[text.index("do this") : text.index("GD101")]
    rows = [line for line in table.splitlines() if line.startswith("Skip")]
    assert len(rows) == 3
    assert all("1 break" in row for row in rows)


def test_at_most_ten_findings_are_shown_and_the_rest_counted() -> None:
    text = rendered(many(13))
    assert text.count("--> model.py") == 10
    assert "3 more findings (-v shows all)" in text
    assert "and 8 more things (-v shows all)" in text
    assert rendered(many(13), is_verbose=True).count("--> model.py") == 13


def test_findings_of_a_package_that_nothing_can_be_done_about_are_one_line() -> None:
    place = {"file": "/lib/site-packages/pkg/mod.py", "origin": "third_party", "package": "pkg"}
    facts = many(3, "y = odd({})", BreakReason(gb_type="Odd"), **place)
    text = rendered(facts)
    assert "pkg: 3 findings in 1 file without a known fix (-v shows them)" in text
    assert "-->" not in text
    assert rendered(facts, is_verbose=True).count("-->") == 3


@pytest.mark.parametrize(("height", "times"), [(20, 2), (200, 1)])
def test_the_verdict_is_repeated_where_it_has_scrolled_away(
    height: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosis = diagnose(many(6), RULES, root=Path("/project"), version="0")
    buffer = StringIO()
    monkeypatch.setattr(buffer, "isatty", lambda: True)
    write_view(report_view(diagnosis), Console(file=buffer, width=100, height=height, color_system=None))
    assert buffer.getvalue().count("100% of operations compiled") == times


def test_findings_with_one_remedy_are_one_card_that_names_the_others() -> None:
    reads = BreakReason(gb_type="Unsupported Tensor.item() call with capture_scalar_outputs=False", torch_id="GB0124")
    facts = many(6, "y = x.item() + {}", reads)
    text = rendered(facts, width=120)
    assert text.count("-->") == 1
    assert "also for  GD103 model.py:21 in Net.forward" in text
    assert "and 2 more findings" in text
    assert "more finding (" not in text


def test_cards_that_do_not_fit_on_two_screens_are_two_lines_each() -> None:
    text = rendered(many(13), width=120)
    assert len(text.splitlines()) <= 80
    lines = text[: text.index("3 more findings")].splitlines()
    places = [number for number, line in enumerate(lines) if line.startswith("  -->")]
    assert lines[places[-1] - 1].startswith("GD101 ")
    assert places[-1] - places[-2] == 2
    assert any("caused" in line for line in lines[places[0] : places[1]])


def test_the_call_path_is_for_v_and_the_users_own_line_for_everyone() -> None:
    place = entry(
        1348, "odd(", file="/x/site-packages/pkg/l.py", origin="third_party", package="pkg", qualname="inner",
    )  # fmt: skip
    facts = recording(breaks=(record(entry(11, "y = inner(x)"), place),))
    text = rendered(facts, width=140)
    assert "called at  model.py:11  in Net.forward" in text
    assert " path " not in text
    assert " path " in rendered(facts, width=140, is_verbose=True)


def test_no_name_is_cut_in_the_code_of_what_to_do() -> None:
    known = diagnose(many(2), RULES, root=Path("/project"), version="0")
    code = "torch.compiler.config.allow_unspec_int_on_nn_module = True"
    findings = [
        finding.model_copy(
            update={
                "fixes": (Fix(kind="config", title=f"Set {number}", snippet=code + " " * number),),
                "cost": Cost(compile_s=1.4),
            }
        )
        for number, finding in enumerate(known.findings)
    ]
    shown = known.model_copy(update={"findings": tuple(findings)})
    table = on_terminal(report_view(shown)).partition("do this")[2].partition("GD101")[0]
    assert "allow_unspec_int_on_nn_module" in table
