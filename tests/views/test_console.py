"""What people read of a report."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.diagnosis import Cost
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.recording import (
    BreakReason,
    Enclosing,
    GraphRun,
    Recording,
    SteadyCall,
    TracingBranch,
)
from graphdoctor.facts.run import ProbeExit
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.views.finding_cards import card_of
from graphdoctor.views.parts import Cards, Section, View
from graphdoctor.views.report import report_view
from graphdoctor.views.terminal import write_view
from graphdoctor.views.words import verdict
from tests.factories import (
    LOOP,
    PRINT,
    compiled,
    context,
    diagnosed,
    entry,
    frame,
    graph,
    record,
    recording,
)
from tests.views.outputs import on_terminal


def rendered(facts: Recording, *, is_verbose: bool = False, own_code: bool = False) -> str:
    shown = report_view(diagnosed(facts, selection=Selection(is_own_code_only=own_code)))
    return on_terminal(shown, is_verbose=is_verbose).rstrip("\n")


def broken() -> Recording:
    line = entry(14, "x = helper(print(x))", columns=(20, 28))
    return recording(
        breaks=(record(entry(11, "y = self.body(x)"), line),),
        frames=(frame(), frame(1, resumes_at=11)),
        compiles=(compiled(), compiled("1/0")),
        graphs=(graph(), graph("1/0", index=1)),
        coverage=Coverage(graph_ops=311, eager_ops=1),
    )


def skipped() -> Recording:
    return recording(
        breaks=(record(entry(14), effect="frame_skipped", chain=(PRINT, LOOP)),),
        compiles=(compiled(outcome="skipped"),),
        graphs=(),
        sources=(
            context(
                14, 'print("x")', Enclosing(kind="for", line=12, text="for layer in self.layers:")
            ),
        ),
        coverage=Coverage(graph_ops=0, eager_ops=26),
    )


SHAPE = PRINT.replace(
    context="builtin print [<class 'torch._dynamo.variables.lists.SizeVariable'>] False"
)
"""Of a print that torch can't move behind the graph, so each line has a fix of its own."""


def many(
    count: int, text: str = 'print("{}")', reason: BreakReason = SHAPE, **place: Any
) -> Recording:
    """Breaks on lines of their own."""
    return recording(
        breaks=tuple(
            record(
                entry(20 + number, text.format(number), **place),
                compile_id=f"{number}/0",
                chain=(reason,),
            )
            for number in range(count)
        ),
        compiles=tuple(compiled(f"{number}/0") for number in range(count)),
        frames=tuple(frame(number, line=10 + number) for number in range(count)),
    )


def lasting(facts: Recording) -> Recording:
    """With a steady call of three graphs."""
    steady = SteadyCall(call_us=90.0, runs=(GraphRun(graph=0, start_us=1, end_us=2),) * 3)
    return facts.replace(steady_call=steady)


KILLED = ProbeExit(
    status=-9, reason="killed", message="The process was killed by SIGKILL during call 1."
)
READS = BreakReason(
    gb_type="Unsupported Tensor.item() call with capture_scalar_outputs=False", torch_id="GB0124"
)
PACKAGE: dict[str, Any] = {
    "file": "/lib/site-packages/pkg/mod.py",
    "origin": "third_party",
    "package": "pkg",
}
CALLED = (entry(11, "y = inner(x)"), entry(1348, "odd(", **PACKAGE, qualname="inner"))
ODD = many(3, "y = odd({})", BreakReason(gb_type="Odd"), **PACKAGE)
HALF = Coverage(graph_ops=2, eager_ops=2, eager_op_names={"aten::detach": 1, "aten::item": 1})
FORMS: dict[str, tuple[Recording, dict[str, Any]]] = {
    "no break": (recording(), {}),
    "no break, but operations that run eagerly": (recording(coverage=HALF), {}),
    "a break": (broken(), {}),
    "a break, its operations and code": (broken(), {"is_verbose": True}),
    "a skipped frame": (skipped(), {}),
    "a partial run": (recording(ended=KILLED, coverage=None), {}),
    "hidden findings": (recording(breaks=(record(entry(5, **PACKAGE)),)), {"own_code": True}),
    "shares come before any finding": (lasting(many(2)), {}),
    "what mends most comes first": (many(3), {}),
    "at most ten findings are shown, in two lines each": (many(13), {}),
    "all findings": (many(2), {"is_verbose": True}),
    "findings of a package that nothing can be done about": (ODD, {}),
    "findings with one remedy are one card": (many(6, "y = x.item() + {}", READS), {}),
    "the user's own line": (recording(breaks=(record(*CALLED),)), {}),
    "the call path": (recording(breaks=(record(*CALLED),)), {"is_verbose": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_report_is_as_long_as_it_has_to_be(snapshot: SnapshotAssertion, name: str) -> None:
    facts, options = FORMS[name]
    assert rendered(facts, **options) == snapshot


@pytest.mark.parametrize(("height", "times"), [(20, 2), (200, 1)])
def test_the_verdict_is_repeated_where_it_has_scrolled_away(
    height: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosis = diagnosed(many(6))
    buffer = StringIO()
    monkeypatch.setattr(buffer, "isatty", lambda: True)
    write_view(
        report_view(diagnosis), Console(file=buffer, width=100, height=height, color_system=None)
    )
    assert buffer.getvalue().count("100% of operations compiled") == times


def test_a_resume_function_that_recompiled_is_one() -> None:
    finding = diagnosed(many(1)).findings[0]
    effects = finding.effects.replace(resume_functions=("2/0", "2/1", "2/2", "3/0"))
    assert "2 resume functions" in on_terminal(
        View(("model.py",), "report", (card_of([finding.replace(effects=effects)]),))
    )


def test_a_failed_compile_is_never_a_good_verdict() -> None:
    good = recording(frames=(frame(),), compiles=(compiled(),), graphs=(graph(),))
    assert verdict(diagnosed(good))[:2] == ("No graph breaks.", "good")
    failed = good.replace(compiles=(compiled(), compiled("1/0", outcome="failed")))
    assert verdict(diagnosed(failed))[:2] == ("1 compile failed.", "bad")


def test_a_long_view_without_findings_points_to_none() -> None:
    # A report whose other parts are too long is tried without room for whole cards.
    view = View(
        ("model.py",),
        "report",
        (Section("Findings", Cards(())), *[f"line {number}" for number in range(60)]),
    )
    assert "Findings" not in on_terminal(view, width=80)


def test_no_code_to_paste_is_broken_in_what_to_do() -> None:
    known = diagnosed(many(2))
    code = "torch.compiler.config.allow_unspec_int_on_nn_module = True"
    findings = [
        finding.replace(
            fixes=(Fix(kind="config", title=f"Set {number}", snippet=code + " " * number),),
            cost=Cost(compile_s=1.4),
        )
        for number, finding in enumerate(known.findings)
    ]
    shown = known.replace(findings=tuple(findings))
    for width in (30, 80):
        table = (
            on_terminal(report_view(shown), width=width)
            .partition("What to do")[2]
            .partition("Findings")[0]
        )
        assert f"  {code}\n" in table


def asking(line: int, **more: Any) -> TracingBranch:
    location = entry(line).replace(**more)
    return TracingBranch(
        location=location, asks="torch.compiler.is_compiling", text="is_compiling()"
    )


def test_lines_that_ask_whether_they_are_compiled_are_named() -> None:
    package = {"file": "/env/lib/timm/layers.py", "origin": "third_party", "package": "timm"}
    alike = asking(9).replace(is_answered_alike=True)
    branches = (asking(3), asking(4), asking(5), asking(7, **package), alike)
    facts = recording(breaks=()).replace(tracing_branches=branches)
    text, verbose = rendered(facts), rendered(facts, is_verbose=True)
    assert "model.py:3, " in text
    assert "and 1 more: compiled code may" in " ".join(text.split())
    assert "timm" not in text
    assert "timm/layers.py:7" in verbose
    assert "Asks whether" not in rendered(recording().replace(tracing_branches=(alike,)))
