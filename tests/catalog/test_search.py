"""The search for a program on a library made by hand, and arguments for signatures made by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator

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


class _Library:
    most_parameters = 1000

    def __init__(self, body: str, *inputs: str | Exception) -> None:
        self._body = body
        self._inputs = inputs

    def families(self) -> dict[str, str]:
        return {}

    def models(self, _name: str) -> Iterator[ModelText]:
        yield ModelText((), self._body)

    def inputs(
        self, _text: ModelText, _model: object
    ) -> Generator[InputsText, BaseException, None]:
        for item in self._inputs:
            if isinstance(item, Exception):
                raise item
            yield InputsText(item)


def _refused(library: _Library) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        find_program(library, "net", '"""net.', memory_bytes=None)  # type: ignore[arg-type]
    return caught.value


def test_a_function_is_a_model_that_learns_nothing() -> None:
    program, parameters = find_program(
        _Library("return torch.relu", "return (torch.ones(2),)"),
        "relu",
        '"""relu.',
        memory_bytes=None,
    )  # type: ignore[arg-type]
    assert parameters == 0
    assert "return torch.relu" in program


def test_a_missing_library_is_named() -> None:
    refusal = _refused(_Library("import not_there", "return ()"))
    assert refusal.message == (
        "It needs what can't be imported: ModuleNotFoundError: No module named 'not_there'"
    )


def test_unknown_input_is_named_without_our_exception() -> None:
    unknown = UnknownParameterError("No rule knows a value for `graph: Graph` of forward.")
    refusal = _refused(_Library("return torch.relu", unknown))
    assert refusal.kind == "no_inputs"
    assert refusal.message == "No rule knows a value for `graph: Graph` of forward."


# Arguments for signatures.

_VALUES = {"channels": ("16", "8"), "edge_dim": ("3",)}


def _known(parameter: inspect.Parameter) -> tuple[str, ...]:
    return _VALUES.get(parameter.name, ())


class _Layer:
    def __init__(
        self, channels: int, heads: int = 1, edge_dim: int | None = None, **more: object
    ) -> None:
        pass


def test_optional_parameters_are_first_left_out() -> None:
    slots_found = slots(parameters_of(_Layer), _known, owner="_Layer")
    assert slots_found == [Slot("channels", ("16", "8")), Slot("edge_dim", ("", "3"))]


def test_a_parameter_can_be_given_first_and_left_out_then() -> None:
    slots_found = slots(
        parameters_of(_Layer), _known, owner="_Layer", is_given=lambda item: item.name == "edge_dim"
    )
    assert slots_found[1] == Slot("edge_dim", ("3", ""))


def test_unknown_required_parameter_is_named_with_its_type() -> None:
    def forward(graph: dict[str, int]) -> None:
        pass

    with pytest.raises(
        UnknownParameterError,
        match=r"No rule knows a value for `graph: dict\[str, int\]` of forward",
    ):
        slots(parameters_of(forward), _known, owner="forward")


def test_the_likeliest_arguments_come_first_and_all_optional_ones_last() -> None:
    slots_found = [Slot("a", ("1", "2")), Slot("b", ("", "3")), Slot("c", ("", "4"))]
    assert list(choices(slots_found, most_changes=1)) == [
        {"a": "1"},
        {"a": "2"},
        {"a": "1", "b": "3"},
        {"a": "1", "c": "4"},
        {"a": "1", "b": "3", "c": "4"},
    ]


def test_no_arguments_are_tried_twice() -> None:
    slots_found = [Slot("a", ("1", "2", "3")), Slot("b", ("", "3"))]
    tried = [tuple(sorted(arguments.items())) for arguments in choices(slots_found, most_changes=4)]
    assert len(tried) == len(set(tried)) == 6


def test_a_function_without_parameters_is_tried_once() -> None:
    assert list(choices([], most_changes=2)) == [{}]


def test_module_is_in_evaluation_mode_whatever_train_returns() -> None:
    assert (
        evaluated_body("Net", {"channels": "16"})
        == "model = Net(channels=16)\nmodel.eval()\nreturn model"
    )


# The smallest model.


def _linear(name: str) -> object:
    return torch.nn.Linear(int(name), 10)


def _by_size(names: list[str], build: Callable[[str], object]) -> list[str]:
    return [name for name, _ in smallest(names, "zoo", build)]


def test_the_smallest_comes_first() -> None:
    assert _by_size(["100", "10", "1000"], _linear) == ["10", "100", "1000"]


def test_nothing_is_allocated_for_a_model_of_any_size() -> None:
    assert _by_size(["1_000_000_000_000", "10"], _linear) == ["10", "1_000_000_000_000"]


def test_a_model_that_computes_while_it_is_built_counts() -> None:
    def computed(name: str) -> object:
        return torch.nn.Linear(int(torch.arange(int(name)).sum().item()), 10)

    register = torch.nn.Module.register_parameter
    assert _by_size(["30", "3"], computed) == ["3", "30"]
    assert torch.nn.Module.register_parameter is register


def test_what_cannot_be_built_is_left_out() -> None:
    assert list(smallest(["none", "10"], "zoo", _linear)) == [
        ("10", ("It is the smallest of zoo, which has 2.",))
    ]
    with pytest.raises(ValueError, match="invalid literal"):
        _by_size(["none", "ten"], _linear)
