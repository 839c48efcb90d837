"""What a replay changes in a call."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.replay.trial import Trial  # noqa: E402
from graphdoctor.probe.target.targets import TargetError  # noqa: E402


def function(x: Any, scale: float = 1.0, items: Any = None) -> Any:
    return x * scale


def plan(**changes: Any) -> dict[str, Any]:
    return {"outputs": "unused", "references": {}, **changes}


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


class Cache:
    def __init__(self, *keys: Any) -> None:
        self.layers = [{"k": key} for key in keys]


def test_tensors_in_containers_objects_and_the_module_itself_are_marked() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: Any, cache: Any) -> Any:
            return x

    net, cache = Net(), Cache(torch.ones(2, 5))
    net.seen = [torch.ones(1, 3)]
    marks = [
        {"source": "L['cache'].layers[0]['k']", "dim": 1},
        {"source": "L['cache'].layers[1]['k']", "dim": 1},
        {"source": "L['self'].seen[0]", "dim": 1},
    ]
    Trial(plan(marks=marks), net).changed(((torch.ones(2), cache), {}))
    assert cache.layers[0]["k"]._dynamo_dynamic_indices == {1}
    assert net.seen[0]._dynamo_dynamic_indices == {1}


def test_a_cache_that_is_still_empty_has_nothing_to_mark() -> None:
    call = ((torch.ones(2), 1.0, Cache()), {})
    Trial(plan(marks=[{"source": "L['items'].layers[0]['k']", "dim": 1}]), function).changed(call)


@pytest.mark.parametrize("source", ["L['nothing']", "G['x']", "L['x'].size()[0]"])
def test_a_source_that_is_no_argument_is_refused(source: str) -> None:
    with pytest.raises(TargetError):
        Trial(plan(marks=[{"source": source, "dim": 0}]), function).changed(((torch.ones(2),), {}))
