"""What a replay changes in a call, and when two outputs are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.targets import TargetError  # noqa: E402
from graphdoctor.probe.trial import Trial, compare  # noqa: E402

DIFFERENT = {"outputs": "different", "largest_difference": None, "where": "call 1, value 1"}


def function(x: Any, scale: float = 1.0, items: Any = None) -> Any:
    return x * scale


def plan(**changes: Any) -> dict[str, Any]:
    return {"outputs": "unused", "reference": None, **changes}


def test_a_number_becomes_a_tensor_wherever_it_is_given() -> None:
    trial = Trial(plan(tensors=["L['scale']"]), function)
    x = torch.ones(2)
    for call in (((x, 2.0), {}), ((x,), {"scale": 2.0})):
        args, kwargs = trial.changed(call)
        value = kwargs.get("scale", args[1] if len(args) > 1 else None)
        assert torch.is_tensor(value)
        assert value.item() == 2.0


def test_a_default_that_is_not_given_stays_as_it_is() -> None:
    call = ((torch.ones(2),), {})
    assert Trial(plan(tensors=["L['scale']"]), function).changed(call) == call


def test_an_item_inside_containers_is_changed_in_a_copy() -> None:
    strided = torch.ones(2, 3).t()
    items = {"a": [strided, 1]}
    args, _ = Trial(plan(contiguous=["L['items']['a'][0]"]), function).changed(((strided, 1.0, items), {}))
    assert args[2]["a"][0].is_contiguous()
    assert items["a"][0] is strided


def test_a_dim_is_marked_unless_it_is_one() -> None:
    x, y = torch.ones(4, 1), torch.ones(4, 1)
    Trial(plan(marks=[{"source": "L['x']", "dim": 0}, {"source": "L['items'][0]", "dim": 1}]), function).changed(
        ((x, 1.0, [y]), {})
    )
    assert x._dynamo_dynamic_indices == {0}
    assert not hasattr(y, "_dynamo_dynamic_indices")


@pytest.mark.parametrize("source", ["L['nothing']", "G['x']", "L['x'].size()[0]"])
def test_a_source_that_is_no_argument_is_refused(source: str) -> None:
    with pytest.raises(TargetError):
        Trial(plan(marks=[{"source": source, "dim": 0}]), function).changed(((torch.ones(2),), {}))


def test_outputs_are_written_and_found_equal(tmp_path: Path) -> None:
    first, second = tmp_path / "first.pt", tmp_path / "second.pt"
    eager = Trial(plan(outputs=str(first), is_eager=True), function)
    eager.saw({"loss": torch.ones(3), "name": "x", "none": None})
    assert eager.finish()["outputs"] == "not_compared"
    again = Trial(plan(outputs=str(second), reference=str(first)), function)
    again.saw({"loss": torch.ones(3) + 1e-9, "name": "x", "none": None})
    assert again.finish() == {"outputs": "equal"}


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        ([torch.ones(2)], {"outputs": "different", "largest_difference": 1.0, "where": "call 1, value 1"}),
        ([torch.zeros(2), 1], {"outputs": "different", "where": "call 1: 2 values in place of 1"}),
        ([torch.zeros(3)], {"outputs": "different", "largest_difference": None, "where": "call 1, value 1"}),
        (
            [torch.zeros(2, dtype=torch.float64)],
            {"outputs": "different", "largest_difference": None, "where": "call 1, value 1"},
        ),
        (["text"], {"outputs": "different", "largest_difference": None, "where": "call 1, value 1"}),
    ],
)
def test_what_differs_is_named(mine: list[Any], expected: dict[str, Any]) -> None:
    assert compare([mine], [[torch.zeros(2)]]) == expected


def test_a_call_that_never_came_back_is_a_difference() -> None:
    assert compare([], [[torch.zeros(2)]])["outputs"] == "different"
