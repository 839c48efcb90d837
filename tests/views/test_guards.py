"""The view of guards: folded, in width, with what is not known left out."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.guards import GuardNode, Guards, GuardSet, SubtreeCost
from graphdoctor.facts.recording import Recording
from graphdoctor.views.guards import VARIES, guards_view, parts_of, walk
from tests.each import for_each
from tests.factories import diagnosed, entry, frame, recording
from tests.views.outputs import on_terminal


def guard(
    expression: str,
    path: str | None,
    expected: str = "1",
    kind: str = "EQUALS_MATCH",
    *,
    internal: bool = False,
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
        compile_id="0/0",
        guard_count=len(nodes),
        kinds={"EQUALS_MATCH": len(nodes)},
        nodes=nodes,
        bill=bill,
        **values,
    )


LAYERS = guard_set(
    guard("process-wide state", None, "grad mode on", "GLOBAL_STATE"),
    guard("x", "x", "f32[4, 4]", "TENSOR_MATCH"),
    *[guard(f"self.layers[{index}].scale", f"self.layers[{index}]") for index in range(12)],
    *[
        guard(f"self.layers[{index}].index", f"self.layers[{index}]", str(index))
        for index in range(12)
    ],
    *[
        guard(
            f"self.layers[{index}].fc.weight",
            f"self.layers[{index}].fc",
            "f32[4]",
            "TENSOR_MATCH",
            internal=True,
        )
        for index in range(12)
    ],
    bill=tuple(
        SubtreeCost(path=f"self.layers[{index}]", guard_count=3, check_us=0.5)
        for index in range(12)
    ),
    check_us=10.0,
    check_low_us=9.0,
    check_high_us=11.0,
    runs_per_call=1,
    share=0.1,
    warm_share=0.1,
)


def shown(found: GuardSet, width: int, *, is_verbose: bool = False, **values: object) -> str:
    guards = Guards(sets=(found,), **values)
    return on_terminal(guards_view(diagnosed(guards=guards)), width=width, is_verbose=is_verbose)


def test_a_forward_that_a_decorator_wraps_is_named_itself() -> None:
    wrapped = frame().replace(
        qualname="decorator.wrapper",
        wraps="Net.forward",
        wraps_at=entry(30, "def forward(self, x):"),
    )
    facts = recording(frames=(wrapped,)).replace(guards=Guards(sets=(LAYERS,)))
    text = on_terminal(guards_view(diagnosed(facts)))
    (line,) = (line for line in text.splitlines() if line.startswith("0/0 Net.forward "))
    assert line.endswith(" model.py:30")
    assert "wrapper" not in text


def test_equal_modules_are_folded_with_a_count() -> None:
    rows = {part.path: part for _, part in walk(parts_of(LAYERS))}
    layers = rows["self.layers[0…11]"]
    # Of a cost that is partly unknown, no sum is shown.
    partly = walk(parts_of(LAYERS.replace(bill=LAYERS.bill[:3])))
    assert [part.check_us for _, part in partly if part.times == 12] == [None]
    assert (layers.times, layers.guard_count, layers.check_us) == (12, 3, 6.0)
    assert {node.expected for node in layers.guards} == {"1", VARIES}
    assert rows["self"].guard_count == 36


def test_modules_that_check_other_things_stay_apart() -> None:
    found = guard_set(guard("m[0].a", "m[0]"), guard("m[1].b", "m[1]"), guard("m[2].b", "m[2]"))
    assert [part.path for _, part in walk(parts_of(found))] == ["m", "m[0]", "m[1…2]"]


CALL = {"call_us": 100.0, "call_low_us": 99.0, "call_high_us": 120.0}
IN_THE_CALL = LAYERS.replace(search_us=30.0, search_low_us=28.0, search_high_us=33.0, share=0.3)
FORMS: dict[str, tuple[GuardSet, dict[str, object]]] = {
    "in the call": (
        IN_THE_CALL,
        {**CALL, "searches_us": 30.0, "share": 0.3, "checks_us": 10.0, "warm_share": 0.1},
    ),
    "warm alone": (LAYERS.replace(share=None), {**CALL, "checks_us": 10.0, "warm_share": 0.1}),
    "not measured": (guard_set(guard("x", "x")), {}),
    "no compiled code": (guard_set(guard("x", "x"), runs_per_call=0), CALL),
}


def test_share_is_of_the_whole_call_or_unknown(snapshot: SnapshotAssertion) -> None:
    for name, (found, values) in FORMS.items():
        assert shown(found, 100, **values) == snapshot(name=name)
    assert shown(LAYERS, 140, is_verbose=True, **CALL) == snapshot(name="verbose")


def test_checks_that_took_longer_than_the_call_are_called_noise() -> None:
    text = shown(guard_set(guard("x", "x")), 100, call_us=100.0, searches_us=115.0)
    assert "Too noisy to say which share of a steady call guard checks take." in text
    assert "%" not in text
    assert "115 µs" in text


@for_each("found", [recording(), recording(compiles=(), frames=(), graphs=())])
def test_a_recording_without_guards_says_what_records_them(found: Recording) -> None:
    shown = on_terminal(guards_view(diagnosed(found)))
    assert "This recording holds no guards." in shown
    assert "To record them: graphdoctor guards model.py" in shown
    assert "0 guards" not in shown
