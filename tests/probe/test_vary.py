"""What varying is made of: values, layouts, putting back, verdicts."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.properties import argument_properties  # noqa: E402
from graphdoctor.probe.restore import ModuleState, copied, copied_tensor  # noqa: E402
from graphdoctor.probe.surroundings import attribute_properties, mode_properties  # noqa: E402
from graphdoctor.probe.vary import Tried, verdict_of  # noqa: E402


def function(x, y=None, *rest, **named):
    return x


def changes_of(call, expression):
    (found,) = [item for item in argument_properties(call, function) if item.expression == expression]
    return [(change.text, change.call(call)) for change in found.ways[0].changes]


def test_a_module_gets_back_what_a_call_changed() -> None:
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()
            self.norm = torch.nn.BatchNorm1d(3)
            self.log = []
            self.step = 0

        def forward(self, x):
            self.log.append(self.step)
            self.step += 1
            self.added = x
            return self.norm(x)

    net = Net()
    mean, log = net.norm.running_mean, net.log
    state = ModuleState(net)
    net.eval()
    net.train()
    net(torch.randn(4, 3)).sum().backward()
    net.eval()
    net.norm.weight = torch.nn.Parameter(torch.zeros(3))
    state.restore()
    assert net.norm.running_mean is mean
    assert mean.eq(0).all()
    assert net.norm.num_batches_tracked == 0
    assert net.norm.weight.eq(1).all()
    assert net.norm.weight.grad is None
    assert (net.log, net.step, net.training, net.norm.training) == ([], 0, True, True)
    assert net.log is log
    assert not hasattr(net, "added")


def test_a_lazy_module_is_left_alone_until_it_has_parameters() -> None:
    ModuleState(torch.nn.LazyLinear(3)).restore()
    ModuleState(None).restore()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(4, 6).t(),
        torch.randn(4, 6)[:, ::2],
        torch.randn(1, 6).expand(4, 6),
        torch.randn(3, 1, 2).permute(2, 0, 1),
        torch.empty(0, 3),
        torch.tensor(1.5, requires_grad=True),
        torch.nn.Parameter(torch.ones(2)),
        torch.eye(3).to_sparse(),
    ],
)
def test_a_copied_tensor_is_as_the_original(tensor) -> None:
    made = copied_tensor(tensor)
    assert type(made) is type(tensor)
    assert made.shape == tensor.shape
    assert made.requires_grad == tensor.requires_grad
    assert torch.equal(made.to_dense(), tensor.to_dense())
    if tensor.layout is torch.strided:
        assert made.stride() == tensor.stride()
        assert made.data_ptr() != tensor.data_ptr() or not tensor.numel()


def test_copied_arguments_share_what_the_originals_share_and_keep_marks() -> None:
    class Refuses:
        def __deepcopy__(self, memo):
            raise TypeError

    x, refuses = torch.randn(4), Refuses()
    torch._dynamo.mark_dynamic(x, 0)
    (a, b, c), named = copied(((x, [x], refuses), {"k": len}))
    assert a is b[0]
    assert a is not x
    assert a._dynamo_dynamic_indices == {0}
    assert c is refuses
    assert named["k"] is len


def test_sizes_are_cut_and_repeated_so_that_indices_stay_valid() -> None:
    x = torch.tensor([[0, 1, 2], [3, 4, 5]]).t()
    changed = changes_of(((x,), {}), "x.shape[0]")
    assert [text for text, _ in changed] == ["4", "6", "2", "1"]
    (made, *_), _ = changed[0][1]
    assert made.tolist() == [[0, 3], [1, 4], [2, 5], [0, 3]]
    assert made.stride() == (1, 4)


def test_other_layouts_hold_the_same_values() -> None:
    x = torch.randn(2, 3)
    for _, ((made, *_), _) in changes_of(((x,), {}), "x.stride()"):
        assert made.stride() != x.stride()
        assert torch.equal(made, x)


def test_every_value_has_a_name_of_the_users() -> None:
    call = ((torch.ones(()), [1, {"k": 2.0}], "rest"), {"y2": None, "z": (True, object())})
    found = {item.expression: item for item in argument_properties(call, function)}
    assert {"x.dtype", "y[0]", "y[1]['k']", "rest[0]", "y2", "z[0]", "z[1]"} <= set(found)
    assert found["y2"].reason
    assert found["z[1]"].reason
    assert [change.text for change in found["y[1]['k']"].ways[0].changes] == ["2.5", "4.0"]
    assert [change.text for change in found["y[0]"].ways[0].changes] == ["2", "3", "0", "-2"]


def test_a_tensor_that_cannot_be_cut_says_so() -> None:
    (found,) = argument_properties(((torch.eye(3).to_sparse(),), {}), function)
    assert found.reason


def test_a_size_is_tied_to_its_equals() -> None:
    call = ((torch.ones(4, 8), torch.ones(4, 3)), {"m": torch.ones(8, 4)})
    found = [item for item in argument_properties(call, function) if item.expression == "x.shape[0]"]
    assert [way.tied for way in found[0].ways] == [("y.shape[0]",)]
    assert [way.tied for way in found[1].ways] == [(), ("y.shape[0]",), ("y.shape[0]", "m.shape[1]")]
    (x, y), named = found[1].ways[2].changes[0].call(call)
    assert (x.shape, y.shape, named["m"].shape) == ((5, 8), (5, 3), (8, 5))


def test_modes_are_as_before_when_the_call_is_over() -> None:
    net = torch.nn.Linear(2, 2)
    before = (torch.get_default_dtype(), torch.get_num_threads(), torch.is_inference_mode_enabled())
    call = ((torch.ones(2),), {})
    found = list(mode_properties(call, net, is_grad_on=True, switch_grad=torch.no_grad))
    state = ModuleState(net)
    for item in [*found, *attribute_properties(net)]:
        for way in item.ways:
            for change in way.changes:
                with pytest.raises(ValueError, match="inside"), change.around():
                    raise ValueError("inside")
                state.restore()
    assert (torch.get_default_dtype(), torch.get_num_threads(), torch.is_inference_mode_enabled()) == before
    assert net.training
    assert net.in_features == 2


@pytest.mark.parametrize(
    ("compiles", "verdict"),
    [
        ([0, 0], "free"),
        ([1, 0], "generalises"),
        ([1, 0, 1], "generalises"),
        ([1, 1], "recompiles"),
        ([1], "recompiles"),
        ([None, 2], "recompiles"),
        ([0, 1, 0], "generalises"),
        ([None], None),
        ([], None),
    ],
)
def test_the_verdict_of_what_was_tried(compiles, verdict) -> None:
    assert verdict_of([Tried("v", count) for count in compiles]) == verdict


def test_values_apart_count_where_there_are_no_others() -> None:
    assert verdict_of([Tried("9", 0), Tried("1", 1, is_special=True)]) == "free"
    assert verdict_of([Tried("9", None, "no"), Tried("1", 1, is_special=True)]) == "recompiles"
