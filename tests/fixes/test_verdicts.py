"""What a trial means: sites followed through an edit, results against the untouched program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.kernels import CudaGraphFunction, CudaGraphs, CudaGraphSkip
from graphdoctor.facts.recording import BreakEffect, Recording
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.trials import Attacked, Comparison, Difference, MissingLines, Replay
from graphdoctor.fixes.patch import LineMap
from graphdoctor.fixes.verdicts import Judgment, ProgramChange, reads_from
from graphdoctor.trials.judge import Observed, Untouched
from graphdoctor.views.reasons import reasons_text
from tests.each import for_each
from tests.factories import (
    FILE,
    ROOT,
    change,
    diagnosed,
    entry,
    graph,
    recompiled,
    record,
    recording,
)

BEFORE = b"def forward(x):\n    y = x.sin()\n    print(y)\n    if y.sum() > 0:\n        y = y * 2\n    return y\n"
AFTER = BEFORE.replace(
    b"    print(y)\n", b"    if not torch.compiler.is_compiling():\n        print(y)\n"
)
SAME = Comparison(kinds=("outputs", "stdout"), differences=())


def difference(kind: Any, **values: Any) -> Difference:
    return Difference(kind=kind, where="call 1, output", **values)


def seen(
    *lines: int,
    compared: Comparison = SAME,
    effect: BreakEffect = "resumed",
    coverage: int = 100,
    **changes: Any,
) -> Observed:
    """A replay with a break at each line, all of one cause."""
    measured = Coverage(graph_ops=coverage, eager_ops=100 - coverage)
    breaks = tuple(record(entry(line), effect=effect) for line in lines)
    facts: Recording = recording(breaks=breaks, coverage=measured, **changes)
    facts = facts.replace(replay=Replay(compared={"eager": compared}))
    return Observed(facts, diagnosed(facts))


def judged(
    before: Observed,
    after: Observed,
    reference: Untouched | None = None,
    *,
    contains: bool = False,
    text: bytes = AFTER,
) -> Judgment:
    target = next(finding for finding in before.diagnosis.findings if finding.code == "GD101")
    change = ProgramChange(before, after, {Path(FILE): LineMap(BEFORE, text)}, ROOT)
    return change.judge(target, reference or Untouched(), contains=contains)


@for_each(
    "kind, change, verdict",
    [
        ("outputs", None, "verified"),
        ("state", None, "verified"),
        ("stdout", "fewer", "verified with loss"),
        ("stdout", "other", "changes results"),
        ("files", "other", "changes results"),
    ],
)
def test_other_draws_excuse_results_and_are_said(kind: Any, change: Any, verdict: str) -> None:
    compared = Comparison(kinds=(kind,), differences=(difference(kind, change=change),))
    attacked = Attacked(count=9, is_edited=True, is_own_redrawn=True)
    replay = Replay(compared={"eager": compared}, attacked=attacked)
    facts = recording().replace(replay=replay)
    said, reasons = Untouched().judge(facts)
    assert said == verdict
    assert any(reason.kind == "redraws_own" for reason in reasons) is (verdict == "verified")
    plain = replay.replace(attacked=attacked.replace(is_own_redrawn=False))
    assert Untouched().judge(facts.replace(replay=plain))[0] != "verified"


CLAMPED = BEFORE.replace(b"    print(y)\n", b"    y = y.clamp(min=0)\n")
WRONG = Comparison(kinds=("gradients",), differences=(difference("gradients", largest=0.25),))
DIED = ProbeExit(status=1, reason="error", message="The program failed in call 1: NameError: y.")
ONE, TWO = (graph(),), (graph(), graph(index=1))


OTHER = Comparison(kinds=("outputs",), differences=(difference("outputs", largest=1.0),))
DIFFERING = Untouched(compiled_differs={"outputs": difference("outputs", largest=0.09)})


def silent(kind: Any, change: Any = "fewer") -> Comparison:
    return Comparison(
        kinds=(kind,),
        differences=(
            difference(
                kind, lines=MissingLines(count=0, reference_count=1, first="'x'"), change=change
            ),
        ),
    )


def less(kind: Any, change: Any = "fewer") -> Observed:
    return seen(compared=silent(kind, change))


def compared_with(**runs: Comparison) -> Observed:
    """A replay whose results are compared with those of several runs."""
    return Observed(seen().recording.replace(replay=Replay(compared=runs)), seen().diagnosis)


def unstable(kind: Any) -> Untouched:
    return Untouched(unstable_numbers=frozenset({kind}))


def hiding() -> Observed:
    """A break at line 3, and one that hides what is behind it."""
    before = seen(3)
    facts = before.recording.replace(
        breaks=(*before.recording.breaks, record(entry(4), effect="rest_eager"))
    )
    return Observed(facts, diagnosed(facts))


NUMBERS, BOTH = "numbers", "fewer_and_numbers"
JUDGED: dict[str, tuple[Observed, Observed, dict[str, Any]]] = {
    "the break is gone": (seen(3), seen(), {}),
    "in the edited lines it is the same site": (seen(3), seen(4), {}),
    "a site that only moved isn't new": (seen(3, 4), seen(5), {}),
    "one that shows behind the edit was hidden": (seen(3, effect="rest_eager"), seen(6), {}),
    "unless torch had traced that code already": (seen(3, coverage=80), seen(6), {}),
    "it may have been hidden, but reads what the new lines compute": (
        seen(3, effect="rest_eager"), seen(4), {"text": CLAMPED}
    ),
    "it was hidden by another break that is gone too": (hiding(), seen(6), {}),
    "fewer graphs": (seen(3, 4, 6, graphs=(*TWO, graph(index=2))), seen(6, graphs=TWO), {}),
    "less in graphs": (seen(3), seen(coverage=6), {}),
    "more graphs": (seen(3, graphs=ONE), seen(graphs=TWO), {}),
    "more graphs, of more": (seen(3, effect="rest_eager", coverage=40), seen(graphs=TWO), {}),
    "other results": (seen(3), seen(compared=WRONG), {}),
    "a program that fails": (seen(3), seen(ended=DIED), {}),
    "a break that was to stay, without a gain": (seen(3), seen(4), {"contains": True}),
    "a break that was to stay": (seen(3, graphs=TWO), seen(4, graphs=ONE), {"contains": True}),
    "results that differ from run to run": (seen(3), seen(), {"reference": Untouched(unstable=frozenset({"outputs"}))}),
    "no results": (seen(3), seen(), {"reference": Untouched(is_known=False)}),
    "torch.compile changes results": (seen(3, compared=OTHER), seen(compared=OTHER), {"reference": DIFFERING}),
    "torch.compile changes results, but with the fix": (seen(3, compared=OTHER), seen(), {"reference": DIFFERING}),
    # Whoever wrote the edit.
    **{f"less in {kind}": (seen(3), less(kind), {}) for kind in ("stdout", "logs")},
    "what an earlier fix stops printing": (seen(3, compared=silent("stdout")), less("stdout"), {}),
    **{f"{change} printed": (seen(3), less("stdout", change), {}) for change in (NUMBERS, BOTH, "other")},
    **{
        f"{change} in {kind}, of which numbers differ from run to run": (
            seen(3), less(kind, change), {"reference": unstable(kind)}
        )
        for kind in ("stdout", "state")
        for change in (NUMBERS, BOTH)
    },
    "times in modules that are the same in each run": (seen(3), less("state", BOTH), {}),
    # Standard error counts only if it differs from the compiled program's too.
    "less than eager mode, as without the fix": (
        seen(3), compared_with(eager=silent("stderr"), untouched=SAME), {}
    ),
    "less than without the fix": (seen(3), compared_with(eager=silent("stderr"), untouched=silent("stderr")), {}),
    **{
        f"other numbers than without the fix, {reference.unstable_numbers or 'stable'}": (
            seen(3), compared_with(**dict.fromkeys(("eager", "untouched"), silent("stderr", NUMBERS))),
            {"reference": reference},
        )
        for reference in (Untouched(), unstable("stderr"))
    },
    "what differed in an earlier run of the trial": (seen(3), compared_with(eager=SAME, earlier=OTHER), {}),
}  # fmt: skip


def test_a_trial_says_what_a_fix_did_to_a_break(snapshot):
    found = {name: judged(before, after, **more) for name, (before, after, more) in JUDGED.items()}
    assert [
        f"{name}: {one.verdict}, {reasons_text(one.reasons)}; if faster {one.if_faster}; gone {sorted(one.gone)}, new {one.new}, "
        f"instead {one.instead}"
        for name, one in found.items()
    ] == snapshot


@for_each(
    "line, origins, is_read",
    [
        (4, {3}, True),
        (6, {3}, True),
        (5, {3}, False),
        (8, {3}, False),
        (6, {5}, False),
        (7, {5}, True),
    ],
)
def test_what_a_line_reads_comes_through_names_in_between(line, origins, is_read):
    source = b"""def forward(self, x):
    y = x.sin()
    n = y.max().item()
    m = n + 1
    self.seen["calls"] = x.size(0)
    if m > 2:
        z = len(self.seen)
    return x
def other(n):
    return n
"""
    assert reads_from(source, line, origins) is is_read


SKIP = CudaGraphSkip(
    kind="mutation", reason="skipping cudagraphs due to mutated inputs", compile_id="0/0"
)


def graphed(
    captured: int | None, *skipped: CudaGraphSkip, left_out: int = 0, again: int = 0
) -> Observed:
    """A replay under CUDA graphs."""
    part = CudaGraphSkip(kind="cpu_device", reason="reason=cpu ops")
    function = CudaGraphFunction(
        compile_id="0/0",
        phase="forward",
        name="f",
        sizes=1,
        recordings=1 + again,
        rerecordings=again,
        copied=(),
    )
    found = CudaGraphs(
        captured=captured, skipped=skipped, left_out=(part,) * left_out, functions=(function,)
    )
    before = seen(7)
    facts = before.recording.replace(cuda_graphs=found)
    return Observed(facts, diagnosed(facts))


def recorded_with(before: Observed, after: Observed) -> tuple[str, str | None]:
    target = next(finding for finding in before.diagnosis.findings if finding.code == "GD504")
    found = ProgramChange(before, after, {}, ROOT).judge(target, Untouched())
    return found.verdict, reasons_text(found.reasons)


@for_each(
    "before, after, verdict",
    [
        (graphed(0, SKIP), graphed(1), "verified"),
        # Nothing was recorded in place of what is no longer skipped: the graph may be gone
        # altogether.
        (graphed(1, SKIP), graphed(1), "no effect"),
        (graphed(0, SKIP), graphed(0), "no effect"),
        (graphed(0, SKIP, SKIP), graphed(1, SKIP), "verified"),
        (graphed(0, SKIP), graphed(0, SKIP), "no effect"),
        (graphed(0, SKIP), graphed(None), "unproven"),
        (graphed(0, SKIP), graphed(3, again=2), "makes it worse"),
        (graphed(2, left_out=2), graphed(1), "verified"),
        (graphed(2, left_out=2), graphed(2, left_out=2), "no effect"),
        (graphed(2, left_out=2), graphed(2, SKIP), "no effect"),
    ],
)
def test_cuda_graph_is_fixed_if_torch_records_it(before, after, verdict):
    found, reason = recorded_with(before, after)
    assert found == verdict
    if verdict == "verified":
        assert reason is not None
        assert reason.startswith("torch records 1 CUDA graph with it, ")


def test_a_cuda_graph_that_costs_recompiles_is_worse():
    after = graphed(1)
    compiles = tuple(recompiled(f"0/{number}") for number in (1, 2))
    facts = after.recording.replace(compiles=(*after.recording.compiles, *compiles))
    after = Observed(facts, diagnosed(facts))
    assert recorded_with(graphed(0, SKIP), after)[0] == "makes it worse"


def test_a_recompile_that_another_rule_names_now_stays() -> None:
    appends = entry(12, "self.history.append(y)")
    length = change("length", "len(self.history)", "0", "1", source="L['self'].history")
    causes = [
        length.replace(guard_location=appends.replace(text=text)) for text in (appends.text, None)
    ]
    size = recompiled("0/3", change())
    before, after = (
        recording(compiles=(recompiled("0/1", cause), recompiled("0/2", cause), *rest))
        for cause, rest in zip(causes, ((size,), ()), strict=True)
    )
    observed = [
        Observed(facts.replace(replay=Replay(compared={"eager": SAME})), diagnosed(facts))
        for facts in (before, after)
    ]
    targets = {finding.code: finding for finding in observed[0].diagnosis.findings}
    whole = ProgramChange(*observed, {}, ROOT)
    assert whole.judge(targets["GD218"], Untouched()).verdict == "no effect"
    assert whole.judge(targets["GD202"], Untouched()).verdict == "verified"


def test_a_tensor_kept_in_place_of_a_number_is_said() -> None:
    kept = difference("state", value="f32[]", reference="float")
    replay = Replay(compared={"eager": SAME.replace(retyped=kept)})
    verdict, reasons = Untouched().judge(recording().replace(replay=replay))
    assert verdict == "verified"
    assert "f32[] instead of float" in (reasons_text(reasons) or "")
