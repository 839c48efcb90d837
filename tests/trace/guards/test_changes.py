"""What a recompile reason says, as torch 2.13 prints it."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.trace.causes import cause_of_reasons, cause_of_record
from graphdoctor.trace.guards.state import read_state, short_dtype, state_changes, state_words
from tests.each import for_each


def said(change: GuardChange) -> tuple[Any, ...]:
    return change.kind, change.expression, change.old, change.new


def test_the_nearest_entry_of_a_compiled_autograd_graph() -> None:
    cause = cause_of_reasons(("!0/1/0: L['f'] == 1.5", "!0/0/0: L['f'] == 1.0"), lambda *_place: None)
    assert (cause.nearest, cause.entry_count) == ("!0/1/0", 2)
    assert [said(change) for change in cause.changes] == [("number", "f", "1.5", None)]


OLD: dict[str, object] = {
    "grad_mode": True,
    "default_dtype": 6,
    "num_threads": 2,
    "allow_tf32": False,
    "autocast_state": {"enabled": [False, False], "dtype": [15, 5]},
}


def test_states_are_compared_setting_by_setting() -> None:
    new = OLD | {
        "grad_mode": False,
        "default_dtype": 7,
        "num_threads": 1,
        "allow_tf32": True,
        "autocast_state": {"enabled": [False, True], "dtype": [15, 5]},
    }
    assert [said(change) for change in state_changes(OLD, new)] == [
        ("grad_mode", "grad mode", "on", "off"),
        ("default_dtype", "the default dtype", "f32", "f64"),
        ("threads", "the number of threads", "2", "1"),
        ("global_state", "TF32 allowed", "off", "on"),
        ("autocast", "autocast", "off", "on (cuda f16)"),
    ]


def test_a_state_in_words() -> None:
    assert state_words(OLD) == "grad mode on, autocast off, default dtype f32, 2 threads"
    assert read_state("{") is None
    assert read_state("[1]") is None


@for_each(
    "dtype, short", [("torch.bfloat16", "bf16"), ("Half", "f16"), (11, "b8"), (99, "99"), ("torch.quint8", "quint8")]
)
def test_a_dtype_has_one_short_name(dtype: str | int, short: str) -> None:
    assert short_dtype(dtype) == short


def relation(text: str, *sources: str) -> dict[str, Any]:
    """The record of a failed condition on values of the frame."""
    return {"leaf": "RELATION", "source": None, "text": [text], "sizes": {source: {"text": "?"} for source in sources}}


def test_two_arguments_that_are_one_object_no_more() -> None:
    item = relation("L['x'] is L['y']", "L['x']", "L['y']")
    cause = cause_of_record({"nearest": "0/0", "failed": [item]}, lambda *_place: None)
    assert [said(change)[:2] for change in cause.changes] == [("aliasing", "x and y")]


def test_the_value_that_a_dynamic_number_had_to_have_is_its_old_one() -> None:
    item = relation("L['t'] == 3", "L['t']")
    item["sizes"]["L['t']"] = {"text": "4"}
    cause = cause_of_record({"nearest": "0/0", "failed": [item]}, lambda *_place: None)
    assert [said(change) for change in cause.changes] == [("number", "t", "3", "4")]
    size = relation("L['x'].size()[0] == 3", "L['x'].size()[0]")
    (change,) = cause_of_record({"nearest": "0/0", "failed": [size]}, lambda *_place: None).changes
    assert change.kind == "relation"


def test_an_enums_member_is_no_second_argument() -> None:
    item = relation("L['mode'] is L['Mode'].SIN", "L['mode']")
    identity = {
        "leaf": "ID_MATCH",
        "source": "L['mode']",
        "text": ["___check_obj_id(L['mode'], 1), type=<class 'Mode'>"],
    }
    cause = cause_of_record({"nearest": "0/0", "failed": [item, identity]}, lambda *_place: None)
    assert [said(change)[:2] for change in cause.changes] == [("identity", "mode")]


def test_a_sets_member_is_not_said_beside_the_set() -> None:
    member = {"leaf": "SET_CONTAINS", "source": "L['s']", "text": ["set.__contains__(L['s'], 'a')"]}
    whole = {"leaf": "EQUALS_MATCH", "source": "L['s']", "text": ["L['s'] == {'a'}"], "now": {"text": "{'b'}"}}
    cause = cause_of_record({"nearest": "0/0", "failed": [member, whole]}, lambda *_place: None)
    assert [said(change) for change in cause.changes] == [("value", "s", "{'a'}", "{'b'}")]
