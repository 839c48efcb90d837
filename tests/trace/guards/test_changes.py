"""What a recompile reason says, as torch 2.13 prints it."""

from __future__ import annotations

from typing import Any

import pytest

from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.trace.causes import cause_of_reasons, cause_of_record
from graphdoctor.trace.guards.forms import changes_of
from graphdoctor.trace.guards.state import read_state, short_dtype, state_changes, state_words
from graphdoctor.trace.guards.text import take_apart

PARAMETER = (
    " Guard failed on a parameter, consider using torch._dynamo.config.force_parameter_static_shapes = False to allow "
    "dynamism on parameters."
)
KEYS = "DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU)"


def said(change: GuardChange) -> tuple[Any, ...]:
    return change.kind, change.expression, change.old, change.new


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6", ("size", "x.shape[0]", "4", "6")),
        ("!0/1/0: L['f'] == 1.5", ("number", "f", "1.5", None)),
        ("0/0_1: tensor 'x' stride mismatch at index 1. expected 4, actual 1", ("stride", "x.stride(1)", "4", "1")),
        ("0/0: mode == 'a # b'  # if mode:  # a.py:3 in f", ("text", "mode", "'a # b'", None)),
        ('0/0: mode == "it\'s  # b.py:1 in g"', ("text", "mode", '"it\'s  # b.py:1 in g"', None)),
        ("0/0: names == ['a == b', 'c']", ("value", "names", "['a == b', 'c']", None)),
        ("0/0: d['a == b'] == 3", ("number", "d['a == b']", "3", None)),
        ("0/0: tensor 'x' rank mismatch. expected 1, actual 2", ("rank", "x.ndim", "1", "2")),
        ("0/0: tensor 'x' dtype mismatch. expected Float, actual Double", ("dtype", "x.dtype", "f32", "f64")),
        (
            "0/0: tensor 'x' dtype mismatch. expected Float8_e4m3fn, actual UInt16",
            ("dtype", "x.dtype", "f8e4m3fn", "u16"),
        ),
        (
            f"0/0: tensor 'self._parameters['weight']' requires_grad mismatch. expected requires_grad=1.{PARAMETER}",
            ("requires_grad", "self.weight.requires_grad", "True", "False"),
        ),
        (
            "0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0",
            ("requires_grad", "x.requires_grad", "False", "True"),
        ),
        (
            f"0/0: tensor 'net._parameters['bias']' size mismatch at index 0. expected 4, actual 3.{PARAMETER}",
            ("size", "net.bias.shape[0]", "4", "3"),
        ),
        (
            f"0/0: tensor 'x' dispatch key set mismatch. expected {KEYS}, actual DispatchKeySet(CPU, BackendSelect)",
            ("inference_mode", "x", "a normal tensor", "an inference tensor"),
        ),
        (
            "0/0: tensor 'x' Tensor device index mismatch. Expected device index to be 0, actual 1",
            ("device", "x.device", "0", "1"),
        ),
        (
            "0/0: expected type of 'x' to be a tensor type, ' but found <class 'NoneType'>",
            ("type", "x", "a tensor", "None"),
        ),
        ("0/0: ___check_type_id(xs, 139), type=<class 'list'>  # x  # a.py:1 in f", ("type", "xs", "a list", None)),
        ("0/0: ___check_obj_id(f.__code__, 139), type=<class 'code'>", ("identity", "f", None, None)),
        ("0/0: len(xs) == 2", ("length", "len(xs)", "2", None)),
        ("0/0: len(values) != 1", ("length", "len(values)", "1", None)),
        ("0/0: not self._forward_hooks", ("length", "len(self._forward_hooks)", "0", None)),
        ("0/0: ___dict_contains('scale', options)", ("keys", "options", "with 'scale'", "without 'scale'")),
        ("0/0: not ___dict_contains('a, b', options)", ("keys", "options", "without 'a, b'", "with 'a, b'")),
        ("0/0: set.__contains__(names, 'sin')", ("keys", "names", "with 'sin'", "without 'sin'")),
        ("0/0: list(dict.keys(values))[1] == 'b'", ("keys", "values", "with 'b'", None)),
        ("0/0: list(dict.keys(values)) == ['a']", ("keys", "values", "with the keys ['a']", None)),
        ("0/0: hasattr(x, 'scale')", ("attribute", "x", "with scale", "without scale")),
        ("0/0: hasattr(x, 'scale') == False", ("attribute", "x", "without scale", "with scale")),
        ("0/0: getattr failed on source options", ("attribute", "options", None, None)),
        (
            "0/0: hasattr(x, '_dynamo_dynamic_indices') == False",
            ("dynamic_marking", "the dims marked on x", None, None),
        ),
        (
            "0/0: _has_dynamo_dim_marking is present on runtime tensor but was absent at compile time",
            ("dynamic_marking", "the dims marked on a tensor", "not marked", "marked"),
        ),
        ("0/0: flag == True", ("flag", "flag", "True", None)),
        ("0/0: self.count == 2", ("module_number", "self.count", "2", None)),
        ("0/0: self.drop.training == True", ("training", "self.drop.training", "True", None)),
        ("0/0: mask is None", ("none", "mask", "None", None)),
        ("0/0: mask is not None", ("none", "mask", None, "None")),
        ("0/0: (type(f) is float and __math_isnan(f))", ("number", "f", "NaN", None)),
        ("0/0: not math.isnan(f)", ("number", "f", None, "NaN")),
        ("0/0: x is y", ("aliasing", "x and y", "the same object", "two objects")),
        ('0/0: Duplicate tensors found: ["x", "y"]', ("aliasing", "x and y", "different tensors", "the same tensor")),
        ("0/0: 2 <= x.size()[0] <= 10", ("relation", "2 <= x.shape[0] <= 10", None, None)),
        ("0/0: (x.size()[0] % 2) == 0", ("relation", "(x.shape[0] % 2) == 0", None, None)),
        ("0/0: Eq(x.size()[0], 4)", ("relation", "Eq(x.shape[0], 4)", None, None)),
        ("0/0: ___check_torch_function_mode_stack()", ("function_mode", "the active torch function modes", None, None)),
        ("0/0: utils_device.CURRENT_DEVICE == None", ("default_device", "the default device", "None", None)),
        (
            "0/0: BACKEND_MATCH failure: different backends",
            ("backend", "the backend", None, None),
        ),
        (
            "0/0: Cache line invalidated because L['self'] got deallocated",
            ("entry_gone", "an object that the compiled code belonged to", None, None),
        ),
        ("0/0: something else", ("unknown", "something else", None, None)),
    ],
)
def test_a_reason_is_a_change(reason: str, expected: tuple[str, str, str | None, str | None]) -> None:
    (change,) = changes_of(take_apart(reason))
    assert said(change) == expected


def test_several_settings_of_the_process_are_several_changes() -> None:
    found = changes_of(take_apart("0/0: GLOBAL_STATE changed: grad_mode autocast(cpu)_enabled num_threads "))
    assert [said(change) for change in found] == [
        ("grad_mode", "grad mode", None, None),
        ("autocast", "autocast", None, None),
        ("threads", "the number of threads", None, None),
    ]


def test_torchs_advice_is_a_hint_and_no_value() -> None:
    reason = f"0/0: tensor 'w' size mismatch at index 0. expected 4, actual 3.{PARAMETER}"
    (change,) = changes_of(take_apart(reason))
    assert (change.hint, change.is_parameter) == (PARAMETER.strip(), True)


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


@pytest.mark.parametrize(
    ("dtype", "short"),
    [("torch.bfloat16", "bf16"), ("Half", "f16"), (11, "b8"), (99, "99"), ("torch.quint8", "quint8")],
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
