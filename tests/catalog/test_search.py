"""The search for a program on a library made by hand, and arguments for signatures made by hand."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterator

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.catalog.library import (
    InputsText,
    ModelText,
    Slot,
    UnknownParameterError,
    choices,
    evaluated_body,
    parameters_of,
    slots,
    smallest,
)
from graphdoctor.catalog.search import RefusedError, find_program
from tests.each import for_each


class _Library:
    most_parameters = 1000

    def __init__(self, body: str, *inputs: str | Exception):
        self._body = body
        self._inputs = inputs

    def families(self) -> dict[str, str]:
        return {}

    def models(self, _name: str) -> Iterator[ModelText]:
        yield ModelText((), self._body)

    def inputs(self, _text: ModelText, _model) -> Generator[InputsText, BaseException, None]:
        for item in self._inputs:
            if isinstance(item, Exception):
                raise item
            yield InputsText(item)


def test_a_function_is_a_model_that_learns_nothing():
    program, parameters = find_program(
        _Library("return torch.relu", "return (torch.ones(2),)"),
        "relu",
        '"""relu.',
        memory_bytes=None,
    )  # type: ignore[arg-type]
    assert parameters == 0
    assert "return torch.relu" in program


_UNKNOWN = "No rule knows a value for `graph: Graph` of forward."


@for_each(
    "library, kind, message",
    [
        (
            _Library("import not_there", "return ()"),
            "load_failed",
            "It needs what can't be imported: ModuleNotFoundError: No module named 'not_there'",
        ),
        (_Library("return torch.relu", UnknownParameterError(_UNKNOWN)), "no_inputs", _UNKNOWN),
    ],
)
def test_why_there_is_no_program_is_said(library, kind, message):
    with pytest.raises(RefusedError) as caught:
        find_program(library, "net", '"""net.', memory_bytes=None)
    assert (caught.value.kind, caught.value.message) == (kind, message)


# Arguments for signatures.

_VALUES = {"channels": ("16", "8"), "edge_dim": ("3",)}


def _known(parameter: inspect.Parameter) -> tuple[str, ...]:
    return _VALUES.get(parameter.name, ())


class _Layer:
    def __init__(self, channels: int, heads: int = 1, edge_dim: int | None = None, **more):
        pass


def test_optional_parameters_are_first_left_out_unless_given():
    parameters, channels = parameters_of(_Layer), Slot("channels", ("16", "8"))
    assert slots(parameters, _known, owner="_Layer") == [channels, Slot("edge_dim", ("", "3"))]
    found = slots(parameters, _known, owner="_Layer", is_given=lambda it: it.name == "edge_dim")
    assert found == [channels, Slot("edge_dim", ("3", ""))]


def test_unknown_required_parameter_is_named_with_its_type():
    def forward(graph: dict[str, int]):
        pass

    with pytest.raises(
        UnknownParameterError,
        match=r"No rule knows a value for `graph: dict\[str, int\]` of forward",
    ):
        slots(parameters_of(forward), _known, owner="forward")


def test_the_likeliest_arguments_come_first_and_all_optional_ones_last():
    slots_found = [Slot("a", ("1", "2")), Slot("b", ("", "3")), Slot("c", ("", "4"))]
    assert list(choices(slots_found, most_changes=1)) == [
        {"a": "1"},
        {"a": "2"},
        {"a": "1", "b": "3"},
        {"a": "1", "c": "4"},
        {"a": "1", "b": "3", "c": "4"},
    ]


def test_module_is_in_evaluation_mode_whatever_train_returns():
    assert (
        evaluated_body("Net", {"channels": "16"})
        == "model = Net(channels=16)\nmodel.eval()\nreturn model"
    )


# The smallest model.


def _linear(name: str):
    return torch.nn.Linear(int(name), 10)


def _computed(name):
    return torch.nn.Linear(int(torch.arange(int(name)).sum().item()), 10)


@for_each(
    "names, build, order",
    [
        (["100", "10", "1000"], _linear, ["10", "100", "1000"]),
        # Nothing is allocated.
        (["1_000_000_000_000", "10"], _linear, ["10", "1_000_000_000_000"]),
        # It computes while it is built.
        (["30", "3"], _computed, ["3", "30"]),
    ],
)
def test_the_smallest_comes_first(names, build, order):
    register = torch.nn.Module.register_parameter
    assert [name for name, _ in smallest(names, "zoo", build)] == order
    assert torch.nn.Module.register_parameter is register


def test_what_cannot_be_built_is_left_out():
    assert list(smallest(["none", "10"], "zoo", _linear)) == [
        ("10", ("It is the smallest of zoo, which has 2.",))
    ]
    with pytest.raises(ValueError, match="invalid literal"):
        list(smallest(["none", "ten"], "zoo", _linear))
