"""Arguments for signatures made by hand."""

from __future__ import annotations

import inspect

import pytest

from graphdoctor.probe.catalog.library import (
    Slot,
    UnknownParameterError,
    choices,
    evaluated_body,
    parameters_of,
    slots,
)

_VALUES = {"channels": ("16", "8"), "edge_dim": ("3",)}


def _known(parameter: inspect.Parameter) -> tuple[str, ...]:
    return _VALUES.get(parameter.name, ())


class _Layer:
    def __init__(self, channels: int, heads: int = 1, edge_dim: int | None = None, **more: object) -> None:
        pass


def test_an_optional_parameter_is_first_left_out_and_one_without_a_value_always() -> None:
    found = slots(parameters_of(_Layer), _known, owner="_Layer")
    assert found == [Slot("channels", ("16", "8")), Slot("edge_dim", ("", "3"))]


def test_a_parameter_can_be_given_first_and_left_out_then() -> None:
    found = slots(parameters_of(_Layer), _known, owner="_Layer", is_given=lambda each: each.name == "edge_dim")
    assert found[1] == Slot("edge_dim", ("3", ""))


def test_a_required_parameter_that_no_rule_knows_is_named_with_its_type() -> None:
    def forward(graph: dict[str, int]) -> None:
        pass

    with pytest.raises(UnknownParameterError, match=r"No rule knows a value for `graph: dict\[str, int\]` of forward"):
        slots(parameters_of(forward), _known, owner="forward")


def test_the_likeliest_arguments_come_first_and_all_optional_ones_last() -> None:
    found = [Slot("a", ("1", "2")), Slot("b", ("", "3")), Slot("c", ("", "4"))]
    assert list(choices(found, most_changes=1)) == [
        {"a": "1"},
        {"a": "2"},
        {"a": "1", "b": "3"},
        {"a": "1", "c": "4"},
        {"a": "1", "b": "3", "c": "4"},
    ]


def test_no_arguments_are_tried_twice() -> None:
    found = [Slot("a", ("1", "2", "3")), Slot("b", ("", "3"))]
    tried = [tuple(sorted(arguments.items())) for arguments in choices(found, most_changes=4)]
    assert len(tried) == len(set(tried)) == 6


def test_a_function_without_parameters_is_tried_once() -> None:
    assert list(choices([], most_changes=2)) == [{}]


def test_a_module_is_put_in_evaluation_mode_whatever_its_train_returns() -> None:
    assert evaluated_body("Net", {"channels": "16"}) == "model = Net(channels=16)\nmodel.eval()\nreturn model"
