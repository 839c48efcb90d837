"""torch's sources in the user's words."""

from __future__ import annotations

import pytest

from graphdoctor.model.expressions import expression


@pytest.mark.parametrize(
    ("source", "expected"),
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
