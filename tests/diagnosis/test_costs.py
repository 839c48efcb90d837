"""What findings cost: gaps between graphs, verified fixes, compile seconds; and the order that follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Cost, Diagnosis, Finding
from graphdoctor.facts.fixes import PairedTime, Treatment, TriedFix
from graphdoctor.facts.recording import Compile, GraphRun, Recording, SteadyCall
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.views.finding_cards import closing
from graphdoctor.views.parts import plain_text
from graphdoctor.views.words import cost_text
from tests.each import for_each
from tests.factories import LOOP, PRINT, change, compiled, entry, frame, graph, recompiled, record, recording

MEASURES = Counts(break_sites=1, skipped_frames=0, graphs=2, compiles=2, recompiles=0, frames_over_limit=0)


def steady(*runs: tuple[int, float, float], call_us: float = 100.0) -> SteadyCall:
    """A steady call by graph, start and end of each run."""
    return SteadyCall(
        call_us=call_us,
        runs=tuple(GraphRun(graph=index, start_us=start, end_us=end) for index, start, end in runs),
    )


def broken(*lines: int, call: SteadyCall | None = None, effect: Any = "resumed", **changes: Any) -> Recording:
    """Breaks at lines, each ending the graph of its number; one more graph runs to the return."""
    ids = [f"{number}/0" for number in range(len(lines) + 1)]
    facts = recording(
        breaks=tuple(
            record(entry(line, f'print("line {line}")'), compile_id=compile_id, effect=effect)
            for line, compile_id in zip(lines, ids, strict=False)
        ),
        frames=(frame(), *(frame(number, resumes_at=line) for number, line in enumerate(lines, start=1))),
        compiles=tuple(compiled(compile_id) for compile_id in ids),
        graphs=tuple(graph(compile_id, index=number) for number, compile_id in enumerate(ids)),
    )
    return facts.model_copy(update={"steady_call": call, **changes})


def diagnosed(facts: Recording) -> Diagnosis:
    return diagnose(facts, RULES, root=Path("/project"), version="0")


def costs(facts: Recording) -> dict[int, Cost | None]:
    """By line."""
    return {finding.location.line: finding.cost for finding in diagnosed(facts).findings}


def gap_us(facts: Recording) -> dict[int, float | None]:
    return {line: cost and cost.call_us for line, cost in costs(facts).items()}


def test_a_break_costs_what_lies_between_its_graph_and_the_next() -> None:
    found = costs(broken(12, call=steady((0, 5, 20), (1, 60, 100))))
    assert found == {12: Cost(call_us=40.0, call_from="gap", share=0.4)}


def test_each_break_costs_its_own_gap() -> None:
    found = gap_us(broken(12, 15, call=steady((0, 0, 10), (1, 30, 40), (2, 45, 100))))
    assert found == {12: 20.0, 15: 5.0}


def test_a_break_that_fires_several_times_costs_all_its_gaps() -> None:
    found = gap_us(broken(12, call=steady((0, 0, 10), (0, 30, 40), (1, 45, 100))))
    assert found == {12: 25.0}


def test_what_follows_a_graph_that_returns_belongs_to_the_break_before() -> None:
    """A helper of the broken line's caller has a graph of its own, which ends by returning."""
    found = gap_us(broken(12, call=steady((0, 0, 10), (1, 30, 40), (1, 50, 60), (1, 90, 100))))
    assert found == {12: 60.0}


def test_what_lies_in_front_of_the_first_break_is_nobody_s() -> None:
    found = gap_us(broken(12, call=steady((1, 0, 10), (0, 40, 50), (1, 60, 100))))
    assert found == {12: 10.0}


def test_the_rest_of_the_call_belongs_to_the_break_that_ends_the_last_graph() -> None:
    found = costs(broken(12, call=steady((0, 0, 10))))
    assert found == {12: Cost(call_us=90.0, call_from="gap", share=0.9)}


def test_the_rest_of_the_call_behind_a_return_is_nobody_s() -> None:
    assert gap_us(broken(12, call=steady((0, 0, 10), (1, 20, 30)))) == {12: 10.0}


@for_each("effect", ["frame_skipped", "rest_eager"])
def test_the_rest_of_the_call_is_unknown_where_a_function_runs_eagerly(effect: str) -> None:
    facts = broken(12, call=steady((0, 0, 10)))
    other = record(entry(40, "print(2)"), compile_id="1/0", effect=effect, chain=(PRINT, LOOP))  # type: ignore[arg-type]
    outcome: Any = "skipped" if effect == "frame_skipped" else "compiled"
    facts = facts.model_copy(
        update={"breaks": (*facts.breaks, other), "compiles": (facts.compiles[0], compiled("1/0", outcome=outcome))}
    )
    assert set(gap_us(facts).values()) == {None}


def skipped(*lines: int, call: SteadyCall) -> Recording:
    """One function skipped because of the break at each line; no graph at all."""
    facts = recording(
        breaks=tuple(
            record(entry(line), compile_id=f"{number}/0", effect="frame_skipped", chain=(PRINT, LOOP))
            for number, line in enumerate(lines)
        ),
        frames=tuple(frame(number) for number in range(len(lines))),
        compiles=tuple(compiled(f"{number}/0", outcome="skipped") for number in range(len(lines))),
        graphs=(),
    )
    return facts.model_copy(update={"steady_call": call})


def test_a_call_without_any_graph_is_the_gap_of_the_one_line_to_blame() -> None:
    facts = skipped(12, call=steady(call_us=70.0))
    findings = diagnosed(facts).findings
    assert [finding.code for finding in findings] == ["GD101", "GD111"]
    assert {finding.cost for finding in findings} == {Cost(call_us=70.0, call_from="gap", share=1.0)}


def test_a_call_without_any_graph_is_nobody_s_where_two_lines_are_to_blame() -> None:
    assert set(gap_us(skipped(12, 15, call=steady(call_us=70.0))).values()) == {None}


def test_a_call_without_any_graph_is_nobody_s_where_nothing_was_skipped() -> None:
    assert gap_us(broken(12, call=steady())) == {12: None}


def test_nothing_is_known_without_a_steady_call() -> None:
    assert costs(broken(12)) == {12: None}


def test_a_call_of_no_length_has_no_shares() -> None:
    assert costs(broken(12, call=steady((0, 0, 0), call_us=0.0))) == {12: None}


# Fixes.


def times(ratio: float, backend: str = "eager") -> PairedTime:
    return PairedTime(
        backend=backend, before_us=200.0, after_us=200 * ratio, ratio=ratio, ratio_low=ratio, ratio_high=ratio, turns=9
    )


def treated(facts: Recording, **changes: Any) -> Recording:
    """With a verified fix for the first finding, timed."""
    finding = diagnosed(facts).findings[0]
    known = TriedFix(
        title="Do it", kind="code", is_safe=True, code=finding.code, fingerprint=finding.fingerprint,
        place="model.py:12", round=1, is_on_untouched=True, verdict="verified", is_applied=True,
        times=(times(0.75), times(0.5, "inductor")),
    )  # fmt: skip
    treatment = Treatment(tried=(known.model_copy(update=changes),), before=MEASURES)
    return facts.model_copy(update={"treatment": treatment})


def test_a_verified_fix_tells_the_cost_under_the_backend_asked_for() -> None:
    facts = treated(broken(12, call=steady((0, 5, 20), (1, 60, 100))))
    assert costs(facts) == {12: Cost(call_us=50.0, call_from="fix", share=0.25)}


def test_a_fix_that_makes_calls_slower_costs_less_than_nothing() -> None:
    found = costs(treated(broken(12), times=(times(1.25),)))
    assert found == {12: Cost(call_us=-50.0, call_from="fix", share=-0.25)}


@for_each("low, high", [(0.9, 1.1), (0.97, 1.0), (1.0, 1.2)])
def test_a_fix_without_a_measurable_difference_tells_no_cost(low: float, high: float) -> None:
    even = times(0.99).model_copy(update={"ratio_low": low, "ratio_high": high})
    facts = treated(broken(12, call=steady((0, 5, 20), (1, 60, 100))), times=(even,))
    # Not the gap either: timing has shown that the call is no shorter without it.
    assert costs(facts) == {12: None}


@for_each("changes", [{"verdict": "unproven"}, {"is_on_untouched": False}, {"times": ()}])
def test_a_fix_that_proves_nothing_of_the_untouched_program_tells_no_cost(changes: dict[str, Any]) -> None:
    facts = treated(broken(12, call=steady((0, 5, 20), (1, 60, 100))), **changes)
    assert costs(facts) == {12: Cost(call_us=40.0, call_from="gap", share=0.4)}


# Compiling.


def again(compile_id: str, seconds: float | None, *values: Any, **options: Any) -> Compile:
    return recompiled(compile_id, *(values or (change(),)), **options).model_copy(update={"duration_s": seconds})


def test_a_recompile_costs_the_seconds_of_its_compiles() -> None:
    facts = recording(compiles=(compiled(), again("0/1", 0.5), again("0/2", 0.25, call=3)))
    [finding] = diagnosed(facts).findings
    assert finding.cost == Cost(compile_s=0.75)


def test_a_call_over_the_limit_compiles_nothing() -> None:
    facts = recording(compiles=(compiled(), again("0/1", 0.5), again("0/2", 4.0, call=3, outcome="limit")))
    by_code = {finding.code: finding.cost for finding in diagnosed(facts).findings}
    assert by_code["GD202"] == Cost(compile_s=0.5)


def test_seconds_that_torch_did_not_tell_are_not_zero() -> None:
    facts = recording(compiles=(compiled(), again("0/1", None)))
    [finding] = diagnosed(facts).findings
    assert finding.cost is None


def test_a_timed_fix_and_compile_seconds_go_together() -> None:
    facts = treated(recording(compiles=(compiled(), again("0/1", 0.5))))
    [finding] = diagnosed(facts).findings
    assert finding.cost == Cost(call_us=50.0, call_from="fix", share=0.25, compile_s=0.5)


# Order.


def order(facts: Recording) -> list[int]:
    return [finding.location.line for finding in diagnosed(facts).findings]


def test_what_costs_more_comes_first() -> None:
    assert order(broken(12, 15, 18)) == [12, 15, 18]
    dear = steady((0, 0, 10), (1, 15, 20), (2, 60, 70), (3, 75, 100))
    assert order(broken(12, 15, 18, call=dear)) == [15, 12, 18]


def test_severity_comes_before_cost() -> None:
    dear = broken(12, 15, call=steady((0, 0, 10), (1, 90, 95), (2, 96, 100)))
    worse = dear.breaks[1].model_copy(update={"effect": "raised"})
    facts = dear.model_copy(update={"breaks": (dear.breaks[0], worse)})
    findings: tuple[Finding, ...] = diagnosed(facts).findings
    assert [(finding.severity, finding.location.line) for finding in findings] == [("error", 15), ("warning", 12)]


def test_compile_seconds_order_what_costs_no_call_anything() -> None:
    cheap = change("number", "scale", "1.0", "2.0", source="L['scale']", line=20)
    facts = recording(compiles=(compiled(), again("0/1", 0.25, cheap), again("0/2", 0.75, change(line=30), call=3)))
    recompiles = [finding for finding in diagnosed(facts).findings if finding.severity == "warning"]
    assert [finding.cost and finding.cost.compile_s for finding in recompiles] == [0.75, 0.25]


def on_device(facts: Recording, device: str) -> Recording:
    """The same graphs with their inputs on a device."""
    moved = tuple(
        found.model_copy(
            update={"inputs": tuple(item.model_copy(update={"device": device}) for item in found.inputs or ())}
        )
        for found in facts.graphs
    )
    return facts.model_copy(update={"graphs": moved})


@for_each("device, kind", [("cuda:0", "host_gap"), ("xpu", "host_gap"), ("cpu", "gap")])
def test_on_an_accelerator_a_gap_is_the_host_s_time_alone(device: str, kind: str) -> None:
    facts = on_device(broken(12, call=steady((0, 5, 20), (1, 60, 100))), device)
    assert costs(facts) == {12: Cost(call_us=40.0, call_from=kind, share=0.4)}  # type: ignore[arg-type]
    found = diagnosed(facts)
    (finding,) = found.findings
    assert finding.cost is not None
    assert ("host gap" in cost_text(finding.cost)) == (kind == "host_gap")
    assert any("A host gap is" in plain_text(note.text) for note in closing(found)) == (kind == "host_gap")


def test_a_run_that_moved_everything_to_a_device_has_host_gaps_even_if_no_graph_says_so() -> None:
    facts = broken(12, call=steady(call_us=70.0), effect="frame_skipped")
    target = facts.target.model_copy(update={"call_options": {"device": "cuda"}})
    found = costs(facts.model_copy(update={"target": target}))
    assert {cost.call_from for cost in found.values() if cost} <= {"host_gap"}


def test_a_cost_of_a_verified_fix_says_so() -> None:
    text = cost_text(Cost(call_us=128.0, call_from="fix", share=0.59))
    assert text == "fixing it saves 128 µs per call (59%), timed with the verified fix"
