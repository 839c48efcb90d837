"""torch's sources in the user's words."""

from __future__ import annotations

from graphdoctor.facts.expressions import (
    argument_source,
    expression,
    is_attribute,
    is_carried,
    is_module_tensor,
    is_own_state,
    size_dim,
)
from tests.each import for_each


@for_each(
    "source, expected",
    [
        ("L['x']", "x"),
        ("L['self']._modules['fc']._parameters['weight']", "self.fc.weight"),
        ("L['self']._modules['0']._buffers['mean']", "self[0].mean"),
        ("L['self'].scale", "self.scale"),
        ("L['kwargs']['input_ids']", "kwargs['input_ids']"),
        ("G['LIMIT']", "LIMIT"),
        ("kwargs['input_ids']", "kwargs['input_ids']"),
        ("something else", "something else"),
    ],
)
def test_sources_read_like_the_users_code(source: str, expected: str) -> None:
    assert expression(source) == expected


def test_a_value_that_dynamo_carried_over_is_named_by_its_line() -> None:
    assert expression("L['___stack0'][1]", 30) == "(value from line 30)[1]"
    assert expression("___stack1 == 2.5") == "(value from an earlier line) == 2.5"


@for_each("name, dim", [("x.shape[1]", 1), ("d['x'][0].shape[12]", 12), ("x.stride(1)", None), ("x.shape", None)])
def test_a_size_says_its_dim(name: str, dim: int | None) -> None:
    assert size_dim(name) == dim


@for_each(
    "source, expected",
    [
        ("L['x']", "L['x']"),
        ("L['x']['a'][0]", "L['x']['a'][0]"),
        ("L['kwargs']['x'][0]", "L['x'][0]"),
        ("L['args'][1]", "L['scale']"),
        ("L['args'][2]", None),
        ("L['kwargs']['y']", None),
        ("L['self']", None),
        ("L['x'].scale", "L['x'].scale"),
        ("L['kwargs']['x'].layers[0].keys", "L['x'].layers[0].keys"),
        ("L['x'].size()[0]", None),
        ("", None),
    ],
)
def test_an_argument_is_found_by_its_own_name(source: str, expected: str | None) -> None:
    assert argument_source(source, ("x", "scale")) == expected


def test_an_argument_that_is_named_args_is_no_wrapper_s() -> None:
    assert argument_source("L['args'][0]", ("args",)) == "L['args'][0]"


@for_each(
    "source, is_state",
    [
        ("L['self'].keys", True),
        ("L['self']._modules['attention'].cache['a'][0]", True),
        ("L['self']._modules['attention']._buffers['keys']", False),
        ("L['self']", False),
        ("L['net'].keys", False),
    ],
)
def test_what_a_module_keeps_beside_parameters_and_buffers(source: str, is_state: bool) -> None:
    assert is_own_state(source) is is_state


def test_an_attribute_is_told_from_an_item() -> None:
    assert is_attribute("L['options'].scale")
    assert is_attribute("L['caches'][0].keys")
    assert not is_attribute("L['options']['scale.x'][0]")


def test_sources_of_modules_and_of_values_carried_over_a_break_are_told_apart() -> None:
    assert is_module_tensor("L['self']._modules['fc']._parameters['weight']")
    assert is_module_tensor("L['self']._buffers['mean']")
    assert not is_module_tensor("L['self'].scale")
    assert is_carried("L['___stack1']")
    assert not is_carried("L['stack1']")
