"""The view of guards: folded, in width, with what is not known left out."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.guards import GuardNode, Guards, GuardSet, SubtreeCost
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.views.guards import VARIES, guards_view, parts_of, walk
from tests import factories
from tests.each import for_each
from tests.views.outputs import on_terminal


def guard(
    expression: str, path: str | None, expected: str = "1", kind: str = "EQUALS_MATCH", *, internal: bool = False
):
    return GuardNode(
        kind=kind,
        source=expression,
        expression=expression,
        expected=expected,
        path=path,
        is_module_internal=internal,
        depth=2,
        guard=f"{expression} == {expected}",
    )


def guard_set(*nodes: GuardNode, bill: tuple[SubtreeCost, ...] = (), **values: object) -> GuardSet:
    return GuardSet(
        compile_id="0/0", guard_count=len(nodes), kinds={"EQUALS_MATCH": len(nodes)}, nodes=nodes, bill=bill, **values
    )


LAYERS = guard_set(
    guard("process-wide state", None, "grad mode on", "GLOBAL_STATE"),
    guard("x", "x", "f32[4, 4]", "TENSOR_MATCH"),
    *[guard(f"self.layers[{index}].scale", f"self.layers[{index}]") for index in range(12)],
    *[guard(f"self.layers[{index}].index", f"self.layers[{index}]", str(index)) for index in range(12)],
    *[
        guard(f"self.layers[{index}].fc.weight", f"self.layers[{index}].fc", "f32[4]", "TENSOR_MATCH", internal=True)
        for index in range(12)
    ],
    bill=tuple(SubtreeCost(path=f"self.layers[{index}]", guard_count=3, check_us=0.5) for index in range(12)),
    check_us=10.0,
    check_low_us=9.0,
    check_high_us=11.0,
    runs_per_call=1,
    share=0.1,
    warm_share=0.1,
)


def shown(found: GuardSet, width: int, *, is_verbose: bool = False, **values: object) -> str:
    guards = Guards(sets=(found,), **values)
    recording = factories.recording().model_copy(update={"guards": guards})
    view = guards_view(diagnose(recording, RULES, root=Path("/project"), version="0"))
    return on_terminal(view, width=width, is_verbose=is_verbose)


def test_equal_modules_are_folded_with_a_count() -> None:
    rows = {part.path: part for _, part in walk(parts_of(LAYERS))}
    layers = rows["self.layers[0…11]"]
    assert (layers.times, layers.guard_count, layers.check_us) == (12, 3, 6.0)
    assert {node.expected for node in layers.guards} == {"1", VARIES}
    assert rows["self"].guard_count == 36


def test_modules_that_check_other_things_stay_apart() -> None:
    found = guard_set(guard("m[0].a", "m[0]"), guard("m[1].b", "m[1]"), guard("m[2].b", "m[2]"))
    assert [part.path for _, part in walk(parts_of(found))] == ["m", "m[0]", "m[1…2]"]


def test_a_cost_that_is_not_known_for_all_is_not_shown_for_the_group() -> None:
    partly = LAYERS.model_copy(update={"bill": LAYERS.bill[:3]})
    (layers,) = [part for _, part in walk(parts_of(partly)) if part.times == 12]
    assert layers.check_us is None


@for_each("width", [80, 140])
@for_each("is_verbose", [False, True])
def test_nothing_runs_over_the_width(width: int, is_verbose: bool) -> None:
    text = shown(LAYERS, width, is_verbose=is_verbose, call_us=100.0, call_low_us=99.0, call_high_us=120.0)
    assert max(map(len, text.splitlines())) <= width
    assert "12 alike" in text


def test_verbose_shows_every_guard() -> None:
    text = shown(LAYERS, 140, is_verbose=True)
    assert all(f"self.layers[{index}].scale" in text for index in range(12))


CALL = {"call_us": 100.0, "call_low_us": 99.0, "call_high_us": 120.0}


def test_the_share_of_the_call_as_it_happens_is_said_first_and_the_warm_figure_beside_it() -> None:
    found = LAYERS.model_copy(update={"search_us": 30.0, "search_low_us": 28.0, "search_high_us": 33.0, "share": 0.3})
    text = shown(found, 140, **CALL, searches_us=30.0, share=0.3, checks_us=10.0, warm_share=0.1)
    assert "Guard checks take 30% of a steady call.\n" in text
    assert "steady call 100 µs (99 µs to 120 µs) · its guard checks 30 µs, repeated with warm caches 10 µs" in text
    assert "30 µs per check in the call (28 µs to 33 µs) · 30% of the steady call" in text
    assert "10 µs repeated with warm caches (9 µs to 11 µs)" in text
    assert "10% of the steady call" not in text
    assert "without it (warm)" in text


def test_a_share_with_warm_caches_alone_is_a_least_one() -> None:
    text = shown(LAYERS.model_copy(update={"share": None}), 100, **CALL, checks_us=10.0, warm_share=0.1)
    assert "Guard checks take at least 10% of a steady call: timed with warm caches." in text
    assert "its guard checks at least 10 µs" in text
    assert "10 µs repeated with warm caches (9 µs to 11 µs) · 10% of the steady call" in text


def test_what_was_not_measured_has_no_number() -> None:
    found = guard_set(guard("x", "x"))
    text = shown(found, 100)
    assert "steady call" not in text
    assert "without it" not in text
    assert " 0 µs" not in text


def test_of_one_function_the_costliest_compile_is_shown() -> None:
    again = LAYERS.model_copy(update={"compile_id": "0/1", "share": 0.2})
    frames = factories.recording(compiles=(factories.compiled(), factories.compiled("0/1")))
    guards = Guards(sets=(LAYERS, again))
    diagnosis = diagnose(frames.model_copy(update={"guards": guards}), RULES, root=Path("/project"), version="0")
    text = on_terminal(guards_view(diagnosis), width=100)
    assert "0/1 Net.forward" in text
    assert "0/0 Net.forward" not in text
    assert "1 more compile of the same functions" in text


def test_a_call_without_compiled_code_has_no_share() -> None:
    found = guard_set(guard("x", "x"), runs_per_call=0)
    text = shown(found, 100, call_us=100.0, call_low_us=99.0, call_high_us=120.0)
    assert "The steady call runs no compiled code" in text
    assert " 0%" not in text
