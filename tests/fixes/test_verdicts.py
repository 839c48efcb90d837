"""What a trial means: sites followed through an edit, results against the untouched program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.kernels import CudaGraphFunction, CudaGraphs, CudaGraphSkip
from graphdoctor.facts.recording import BreakEffect, Recording
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.trials import Comparison, Difference, Replay
from graphdoctor.fixes.patch import LineMap
from graphdoctor.fixes.verdicts import Judgment, SiteChange, judge, reads_from
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trials.judge import Observed, Untouched
from tests.each import for_each
from tests.factories import FILE, entry, graph, recompiled, record, recording

ROOT = Path("/project")
BEFORE = b"def forward(x):\n    y = x.sin()\n    print(y)\n    if y.sum() > 0:\n        y = y * 2\n    return y\n"
AFTER = BEFORE.replace(b"    print(y)\n", b"    if not torch.compiler.is_compiling():\n        print(y)\n")
SAME = Comparison(kinds=("outputs", "stdout"), differences=())


def difference(kind: Any, **values: Any) -> Difference:
    return Difference(kind=kind, where="call 1, output", **values)


def seen(
    *lines: int, compared: Comparison = SAME, effect: BreakEffect = "resumed", coverage: int = 100, **changes: Any
) -> Observed:
    """A replay with a break at each line, all of one cause."""
    measured = Coverage(graph_ops=coverage, eager_ops=100 - coverage, extra_calls=1, extra_compiles=0)
    breaks = tuple(record(entry(line), effect=effect) for line in lines)
    facts: Recording = recording(breaks=breaks, coverage=measured, **changes)
    facts = facts.model_copy(update={"replay": Replay(compared={"eager": compared})})
    return Observed(facts, diagnose(facts, RULES, root=ROOT, version="0"))


def judged(
    before: Observed,
    after: Observed,
    reference: Untouched | None = None,
    *,
    drops_output: bool = False,
    contains: bool = False,
    text: bytes = AFTER,
) -> Judgment:
    target = next(finding for finding in before.diagnosis.findings if finding.code == "GD101")
    sites = SiteChange.between(
        before.diagnosis,
        after.diagnosis,
        maps={Path(FILE): LineMap(BEFORE, text)},
        texts={Path(FILE): text},
        root=ROOT,
    )
    return judge(
        target, before, after, reference or Untouched(), sites=sites, contains=contains, drops_output=drops_output
    )


SITE_3, SITE_6 = "model.py:3 (GB0059)", "model.py:6 (GB0059)"
CLAMPED = BEFORE.replace(b"    print(y)\n", b"    y = y.clamp(min=0)\n")
WRONG = Comparison(kinds=("gradients",), differences=(difference("gradients", largest=0.25),))
DIED = ProbeExit(status=1, reason="error", message="The program failed in call 1: NameError: y.")
ONE, TWO = (graph(),), (graph(), graph(index=1))


@for_each(
    "before, after, more, expected",
    [
        (seen(3), seen(), {}, ("verified", None, SITE_3, None)),
        # In the edited lines it is the same site; one that only moved isn't new.
        (seen(3), seen(4), {}, ("no effect", "the break is still there", None, None)),
        (seen(3, 4), seen(5), {}, ("verified", None, SITE_3, None)),
        # One that shows behind the edit was hidden, unless torch had traced that code already.
        (seen(3, effect="rest_eager"), seen(6), {}, ("verified", None, SITE_3, SITE_6)),
        (seen(3, coverage=80), seen(6), {}, ("moved", f"it breaks at {SITE_6} instead", SITE_3, SITE_6)),
        # It may have been hidden, but reads what the new lines compute.
        (
            seen(3, effect="rest_eager"),
            seen(4),
            {"text": CLAMPED},
            ("moved", "it breaks at model.py:4 (GB0059) instead", SITE_3, "model.py:4 (GB0059)"),
        ),
        (
            seen(3, 4, 6, graphs=(*TWO, graph(index=2))),
            seen(6, graphs=TWO),
            {},
            ("contained", f"it breaks at {SITE_6} instead, but 3 graphs → 2", SITE_3, SITE_6),
        ),
        (
            seen(3),
            seen(coverage=6),
            {},
            ("makes it worse", "the finding is gone, but coverage goes from 100% to 6%", SITE_3, None),
        ),
        (
            seen(3, graphs=ONE),
            seen(graphs=TWO),
            {},
            ("makes it worse", "the finding is gone, but 1 graph → 2", SITE_3, None),
        ),
        (seen(3, effect="rest_eager", coverage=40), seen(graphs=TWO), {}, ("verified", None, SITE_3, None)),
        # Other results come before everything.
        (seen(3), seen(compared=WRONG), {}, ("changes results", "call 1, output differs by 0.25", SITE_3, None)),
        (seen(3), seen(ended=DIED), {}, ("failed", "The program failed in call 1: NameError: y", None, None)),
        (
            seen(3),
            seen(4),
            {"contains": True},
            ("no effect", "the break stays, and nothing else improves", None, None),
        ),
        (
            seen(3, graphs=TWO),
            seen(4, graphs=ONE),
            {"contains": True},
            ("contained", "the break stays, but 2 graphs → 1", None, None),
        ),
    ],
)
def test_a_trial_says_what_a_fix_did_to_a_break(
    before: Observed, after: Observed, more: dict[str, Any], expected: tuple[str, str | None, str | None, str | None]
) -> None:
    found = judged(before, after, **more)
    assert (found.verdict, found.reason) == expected[:2]
    assert expected[2] is None or expected[2] in found.gone
    assert found.new == (() if expected[3] is None else (expected[3],))
    assert found.instead or found.verdict != "moved"
    assert found.if_faster == ("verified" if found.verdict == "makes it worse" else None)


def test_a_site_that_was_hidden_by_another_break_that_is_gone_too_is_no_fault_of_the_fix() -> None:
    before = seen(3)
    hiding = record(entry(4), effect="rest_eager")
    facts = before.recording.model_copy(update={"breaks": (*before.recording.breaks, hiding)})
    found = judged(Observed(facts, diagnose(facts, RULES, root=ROOT, version="0")), seen(6))
    assert (found.verdict, found.new) == ("verified", ("model.py:6 (GB0059)",))


@for_each(
    "line, origins, is_read",
    [(4, {3}, True), (6, {3}, True), (5, {3}, False), (8, {3}, False), (6, {5}, False), (7, {5}, True)],
)
def test_what_a_line_reads_comes_through_names_in_between(line: int, origins: set[int], is_read: bool) -> None:
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


@for_each(
    "reference, words",
    [
        (Untouched(unstable=frozenset({"outputs"})), "differ from run to run"),
        (Untouched(is_known=False), "didn't return results in two runs"),
    ],
)
def test_nothing_is_proven_without_a_reference(reference: Untouched, words: str) -> None:
    found = judged(seen(3), seen(), reference)
    assert found.verdict == "unproven"
    assert words in (found.reason or "")


def test_a_fix_proves_nothing_where_torch_compile_changes_results_by_itself() -> None:
    other = Comparison(kinds=("outputs",), differences=(difference("outputs", largest=1.0),))
    reference = Untouched(compiled_differs={"outputs": difference("outputs", largest=0.09)})
    found = judged(seen(3, compared=other), seen(compared=other), reference)
    assert (found.verdict, found.reason) == (
        "unproven", "torch.compile changes outputs even without the fix (call 1, output differs by 0.09)",
    )  # fmt: skip
    assert judged(seen(3, compared=other), seen(), reference).verdict == "verified"


def silent(kind: Any, change: Any = "fewer") -> Comparison:
    return Comparison(kinds=(kind,), differences=(difference(kind, detail="0 of 1 lines", change=change),))


def test_printing_less_is_what_a_guard_means_to_do() -> None:
    found = judged(seen(3), seen(compared=silent("stdout")), drops_output=True)
    assert (found.verdict, found.reason) == ("verified", "the compiled program prints 0 of 1 lines")
    found = judged(seen(3), seen(compared=silent("logs")), drops_output=True)
    assert (found.verdict, found.reason) == ("verified", "the compiled program logs 0 of 1 lines")
    for kind in ("stdout", "logs"):
        assert judged(seen(3), seen(compared=silent(kind))).verdict == "changes results"


def test_what_an_earlier_fix_stops_printing_is_not_said_of_a_later_one() -> None:
    before = seen(3, compared=silent("stdout"))
    found = judged(before, seen(compared=silent("stdout")), drops_output=True)
    assert (found.verdict, found.reason) == ("verified", None)


@for_each("change", ["numbers", "fewer_and_numbers", "other"])
def test_printing_something_else_is_no_guard(change: Any) -> None:
    found = judged(seen(3), seen(compared=silent("stdout", change)), drops_output=True)
    assert found.verdict == "changes results"


def test_numbers_that_differ_from_run_to_run_in_what_is_printed_are_left_out() -> None:
    reference = Untouched(unstable_numbers=frozenset({"stdout"}))
    assert judged(seen(3), seen(compared=silent("stdout", "numbers")), reference).verdict == "verified"
    less = seen(compared=silent("stdout", "fewer_and_numbers"))
    assert judged(seen(3), less, reference).verdict == "changes results"
    assert judged(seen(3), less, reference, drops_output=True).verdict == "verified"


@for_each(
    "change, untouched, unstable, verdict",
    [
        # Standard error counts only if it differs from the compiled program's too.
        ("fewer", SAME, (), "verified"),
        ("fewer", None, (), "changes results"),
        ("numbers", None, (), "changes results"),
        ("numbers", None, ("stderr",), "verified"),
    ],
)
def test_standard_error_is_compared_with_the_compiled_program_s(
    change: Any, untouched: Comparison | None, unstable: tuple[Any, ...], verdict: str
) -> None:
    other = silent("stderr", change)
    replay = Replay(compared={"eager": other, "untouched": untouched or other})
    after = Observed(seen().recording.model_copy(update={"replay": replay}), seen().diagnosis)
    assert judged(seen(3), after, Untouched(unstable_numbers=frozenset(unstable))).verdict == verdict


def test_times_in_modules_that_differ_from_run_to_run_may_be_left_out() -> None:
    reference = Untouched(unstable_numbers=frozenset({"state"}))
    assert judged(seen(3), seen(compared=silent("state", "numbers")), reference).verdict == "verified"
    less = seen(compared=silent("state", "fewer_and_numbers"))
    assert judged(seen(3), less, reference).verdict == "changes results"
    found = judged(seen(3), less, reference, drops_output=True)
    assert found.verdict == "verified"
    assert found.reason is not None and "isn't kept" in found.reason
    assert judged(seen(3), less, drops_output=True).verdict == "changes results"


def test_what_differed_in_an_earlier_run_of_the_trial_counts() -> None:
    other = Comparison(kinds=("outputs",), differences=(difference("outputs", largest=1.0),))
    facts = seen().recording.model_copy(update={"replay": Replay(compared={"eager": SAME, "earlier": other})})
    assert judged(seen(3), Observed(facts, seen().diagnosis)).verdict == "changes results"


SKIP = CudaGraphSkip(kind="mutation", reason="skipping cudagraphs due to mutated inputs", compile_id="0/0")


def graphed(captured: int | None, *skipped: CudaGraphSkip, left_out: int = 0, again: int = 0) -> Observed:
    """A replay under CUDA graphs."""
    part = CudaGraphSkip(kind="cpu_device", reason="reason=cpu ops")
    function = CudaGraphFunction(
        compile_id="0/0", phase="forward", name="f", sizes=1, recordings=1 + again, rerecordings=again, copied=()
    )
    found = CudaGraphs(captured=captured, skipped=skipped, left_out=(part,) * left_out, functions=(function,))
    before = seen(7)
    facts = before.recording.model_copy(update={"cuda_graphs": found})
    return Observed(facts, diagnose(facts, RULES, root=ROOT, version="0"))


def recorded_with(before: Observed, after: Observed) -> tuple[str, str | None]:
    target = next(finding for finding in before.diagnosis.findings if finding.code == "GD504")
    sites = SiteChange.between(before.diagnosis, after.diagnosis, maps={}, texts={}, root=ROOT)
    found = judge(target, before, after, Untouched(), sites=sites, contains=False, drops_output=False)
    return found.verdict, found.reason


@for_each(
    "before, after, verdict",
    [
        (graphed(0, SKIP), graphed(1), "verified"),
        # Nothing was recorded in place of what is no longer skipped: the graph may be gone altogether.
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
def test_a_cuda_graph_is_mended_if_torch_says_that_it_records_it(before, after, verdict):
    found, reason = recorded_with(before, after)
    assert found == verdict
    if verdict == "verified":
        assert reason is not None
        assert reason.startswith("torch records 1 CUDA graph with it, ")


def test_a_cuda_graph_that_costs_recompiles_is_worse():
    after = graphed(1)
    compiles = tuple(recompiled(f"0/{number}") for number in (1, 2))
    facts = after.recording.model_copy(update={"compiles": (*after.recording.compiles, *compiles)})
    after = Observed(facts, diagnose(facts, RULES, root=ROOT, version="0"))
    assert recorded_with(graphed(0, SKIP), after)[0] == "makes it worse"
