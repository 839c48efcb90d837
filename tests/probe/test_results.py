"""When what two replays gave is the same, and how a difference is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.replay.results import Results, copies_of, gradients_of, modules_of, tensors_in  # noqa: E402


def compared(mine: Any, other: Any) -> dict[str, Any] | None:
    """The only difference of two outputs."""
    results = []
    for output in (mine, other):
        result = Results()
        result.add_call(output)
        results.append(result)
    differences = results[0].compared(results[1])["differences"]
    assert len(differences) <= 1
    return differences[0] if differences else None


def test_results_survive_the_disk_and_are_equal_within_tolerance(tmp_path: Path) -> None:
    first, second = Results(), Results()
    first.add_call({"loss": torch.ones(3), "name": "x", "none": None})
    second.add_call({"loss": torch.ones(3) + 1e-7, "name": "x", "none": None})
    first.save(tmp_path / "first.pt")
    assert second.compared(Results.load(tmp_path / "first.pt")) == {
        "kinds": ["outputs"],
        "differences": [],
        "note": None,
    }


@pytest.mark.parametrize(
    ("mine", "where", "largest", "detail"),
    [
        ({"a": torch.ones(2)}, "call 1, output['a']", 1.0, None),
        ({"a": torch.zeros(3)}, "call 1, output['a']", None, "f32[3] instead of f32[2]"),
        ({"a": torch.zeros(2, dtype=torch.float64)}, "call 1, output['a']", None, "f64[2] instead of f32[2]"),
        ({"a": torch.full((2,), float("nan"))}, "call 1, output['a']", None, "NaN or infinity"),
        ({"a": "text"}, "call 1, output['a']", None, "text instead of f32[2]"),
        ({"a": 1.5}, "call 1, output['a']", None, "1.5 instead of f32[2]"),
        ({}, "call 1, output['a']", None, "is missing"),
    ],
)
def test_what_differs_is_named(mine: Any, where: str, largest: float | None, detail: str | None) -> None:
    found = compared(mine, {"a": torch.zeros(2)})
    assert found is not None
    assert (found["kind"], found["where"], found["largest"], found["detail"]) == ("outputs", where, largest, detail)


def test_the_kind_of_a_container_is_a_part_of_the_result() -> None:
    found = compared([torch.zeros(2)], (torch.zeros(2),))
    assert found is not None
    assert found["where"] == "call 1, structure"


def test_the_largest_difference_is_told() -> None:
    found = compared([torch.ones(2), torch.full((2,), 5.0)], [torch.zeros(2), torch.zeros(2)])
    assert found is not None
    assert (found["where"], found["largest"]) == ("call 1, output[1]", 5.0)


def test_tensors_inside_objects_of_the_program_are_compared() -> None:
    @dataclass
    class Loss:
        value: Any

    class Plain:
        def __init__(self, value: Any) -> None:
            self.value = value

    for kind in (Loss, Plain):
        found = compared(kind(torch.ones(1)), kind(torch.zeros(1)))
        assert found is not None
        assert found["where"] == "call 1, output.value"


def test_a_call_that_never_came_back_is_a_difference() -> None:
    one, none = Results(), Results()
    one.add_call(torch.ones(1))
    assert none.compared(one)["differences"][0]["detail"] == "is missing"


def test_state_is_parameters_buffers_and_numbers() -> None:
    def state(change: Any) -> Results:
        module = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
        module.seen = 1
        change(module)
        result = Results()
        result.add_state({"": module})
        return result

    untouched = state(lambda module: None)
    assert untouched.compared(state(lambda module: None))["differences"] == []
    for change, where in (
        (lambda module: module[0].running_mean.add_(1), "0.running_mean after the calls"),
        (lambda module: module[0].weight.data.add_(1), "0.weight after the calls"),
        (lambda module: setattr(module, "seen", 2), "seen after the calls"),
    ):
        assert [found["where"] for found in state(change).compared(untouched)["differences"]] == [where]


def test_an_argument_that_a_call_mutates_is_kept() -> None:
    def run(factor: float) -> Results:
        arguments = tensors_in({"x": [torch.ones(2)], "n": 3})
        copies = copies_of(arguments)
        arguments["x[0]"].mul_(factor)
        result = Results()
        result.add_call(None)
        result.add_arguments(copies, arguments)
        return result

    assert run(1.0).compared(run(1.0))["kinds"] == ["outputs"]
    assert run(2.0).compared(run(3.0))["differences"][0]["where"] == "call 1, argument x[0] after it"
    assert run(1.0).compared(run(3.0))["differences"][0]["detail"] == "is missing"


def test_gradients_are_weighted_so_that_a_sum_hides_nothing() -> None:
    x = torch.randn(4, requires_grad=True)
    found = gradients_of(torch.softmax(x, 0), {}, {"x": x})
    assert found["x"] is not None
    assert found["x"].abs().max() > 1e-3
    assert x.grad is None


def test_gradients_reach_parameters_by_their_names() -> None:
    module = torch.nn.Linear(2, 2)
    found = gradients_of(module(torch.ones(1, 2)), {"": module, "other": torch.nn.Linear(1, 1)}, {})
    assert set(found) == {"weight", "bias", "other.weight", "other.bias"}
    assert found["other.weight"] is None


def test_modules_are_found_in_closures_and_globals() -> None:
    model = torch.nn.Linear(2, 2)

    def step(x: Any) -> Any:
        return model(x)

    assert modules_of(step) == {"model": model}
    assert modules_of(model) == {"": model}
    assert modules_of(model.forward) == {"self": model}


def test_printed_text_is_compared_by_lines() -> None:
    results = []
    for text in ("a\nb\nc\n", "a\nc\n", "a\nb\nd\n"):
        result = Results()
        result.add_stdout(text)
        results.append(result)
    details = [result.compared(results[0])["differences"][0]["detail"] for result in results[1:]]
    assert details == ["2 of 3 lines; the first missing one: 'b'", "'d' instead of 'c'"]
