"""What a replay changes in a call."""

import random
from unittest.mock import Mock

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.events import EventFile
from graphdoctor.probe.replay.trial import Trial
from graphdoctor.probe.steps.workload import Workload
from graphdoctor.probe.target.targets import TargetError

EVENTS = Mock(spec=EventFile)


def function(x, scale=1.0, items=None):
    return x * scale


def trial_of(function=function, **plan):
    return Trial({"outputs": "unused", "references": {}, **plan}, function)


def test_a_number_that_is_given_becomes_a_tensor():
    def gathering(*items, scale=1.0):
        return items[0] * scale

    x = torch.ones(2)
    change = trial_of(tensors=["L['scale']"]).changed
    for args, kwargs in (change(((x, 2.0), {})), change(((x,), {"scale": 2.0}))):
        value = kwargs.get("scale", args[-1])
        assert (torch.is_tensor(value), value.item()) == (True, 2.0)
    assert change(((x,), {})) == ((x,), {})
    change = trial_of(gathering, tensors=["L['scale']"]).changed
    assert not any(map(torch.is_tensor, change(((1.0, 2.0), {}))[0]))
    assert torch.is_tensor(change(((1.0, 2.0), {"scale": 2.0}))[1]["scale"])


def test_an_item_inside_containers_is_changed_in_a_copy():
    strided = torch.ones(2, 3).t()
    items = {"a": [strided, 1]}
    args, _ = trial_of(contiguous=["L['items']['a'][0]"]).changed(((strided, 1.0, items), {}))
    assert args[2]["a"][0].is_contiguous()
    assert items["a"][0] is strided


def test_kept_tensor_gets_the_values_of_each_call():
    trial = trial_of(buffers=["L['x']"])
    first = torch.ones(3)
    second = torch.zeros(3)
    (kept, *_), _ = trial.changed(((first,), {}))
    assert kept is not first
    assert kept.equal(first)
    assert kept._dynamo_static_input_type is not None
    (again, *_), _ = trial.changed(((second,), {}))
    assert again is kept
    assert kept.equal(second)
    other_size = torch.ones(4)
    needs_gradient = torch.ones(3, requires_grad=True)
    assert trial.changed(((other_size,), {}))[0][0].shape == (4,)
    assert trial.changed(((needs_gradient,), {}))[0][0] is needs_gradient


class Cache:
    def __init__(self, *keys):
        self.layers = [{"k": key} for key in keys]


def test_tensors_in_containers_objects_and_the_module_are_marked():
    class Net(torch.nn.Module):
        def forward(self, x, cache, scale=1.0):
            return x

    net = Net()
    x = torch.ones(4, 1)
    cache = Cache(torch.ones(2, 5), torch.ones(4, 1))
    net.seen = [torch.ones(1, 3)]
    layers = "L['cache'].layers"
    sources = (
        ("L['x']", 0),
        (f"{layers}[0]['k']", 1),
        (f"{layers}[1]['k']", 1),
        ("L['self'].seen[0]", 1),
    )
    trial = trial_of(net, static=["L['x']", "L['scale']"], marks=sources)
    (same, *_), _ = trial.changed(((x, cache), {}))
    assert same is x
    assert x._dynamo_static_input_type is not None
    marked = [x, cache.layers[0]["k"], net.seen[0]]
    assert [it._dynamo_dynamic_indices for it in marked] == [{0}, {1}, {1}]
    # A size of 1 can't be dynamic.
    assert not hasattr(cache.layers[1]["k"], "_dynamo_dynamic_indices")


def test_only_an_argument_can_be_marked():
    # A cache that is still empty has nothing to mark.
    call = ((torch.ones(2), 1.0, Cache()), {})
    trial_of(marks=[("L['items'].layers[0]['k']", 1)]).changed(call)
    for source in ("L['nothing']", "G['x']", "L['x'].size()[0]", "L['self'].seen[0]"):
        with pytest.raises(TargetError):
            trial_of(marks=[(source, 0)]).changed(call)


def replayed(folder, name, scales, **more):
    """What came of calls that multiply by what the replay has for each."""
    weight = torch.ones(2, requires_grad=True)
    references = {of: str(folder / of) for of in ("eager",) if (folder / of).exists()}
    trial = trial_of(outputs=str(folder / name), references=references, **more)
    for scale in scales:
        call = ((weight,), {})
        trial.begin_call(call)
        # A scale below 0 keeps the output and loses the gradient.
        output = weight * scale if scale > 0 else weight.detach() * -scale
        trial.end_call(output, has_backward=False)
    return trial.finish({"stdout": "line\n" * len(scales)})


def test_an_earlier_run_is_compared_beside_a_later_one(tmp_path):
    replayed(tmp_path, "eager", [1, 2, 3])
    [output, gradient] = replayed(tmp_path, "one", [1, 5, 3]).compared["eager"].differences
    assert (output.where, output.largest) == ("call 2, output", 3.0)
    assert gradient.kind == "gradients"
    replay = replayed(tmp_path, "two", [1, 2, 3], earlier=str(tmp_path / "one"))
    assert replay.compared["eager"].differences == ()
    assert replay.compared["earlier"].differences[0].where == "call 2, output"
    [difference] = replayed(tmp_path, "gradients", [1, -2, 3]).compared["eager"].differences
    assert (difference.kind, difference.presence) == ("gradients", "missing")


def test_what_a_call_writes_to_a_default_is_compared(tmp_path):
    def function(x, seen=torch.zeros(2)):  # noqa: B008
        return seen.add_(x)

    for name in ("eager", "mine"):
        trial = trial_of(
            function, outputs=str(tmp_path / name), references={"eager": str(tmp_path / "eager")}
        )
        call = ((torch.ones(2),), {})
        trial.begin_call(call)
        if name == "eager":
            function(*call[0])
        trial.end_call(None, has_backward=False)
        comparisons = trial.finish({}).compared
    [difference] = comparisons["eager"].differences
    assert (difference.kind, difference.where) == ("state", "call 1, argument seen after it")


def test_float64_call_sees_earlier_writes_to_its_input():
    shared = [torch.ones(2)]
    trial = trial_of(is_float64=True)
    for expected in (1.5, 2.25):
        (x, *_), _ = trial.changed(((shared[0], 1.0, Cache(shared[0])), {}))
        assert x.dtype == torch.float64
        x.mul_(1.5)
        assert shared[0].tolist() == [expected] * 2


def test_in_float64_everything_that_a_target_uses_is():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)
            self.seen = [torch.ones(2)]

        def forward(self, x):
            return self.layer(x) + self.seen[0] * torch.ones(2)

    net = Net()
    trial = trial_of(net, is_float64=True)
    trial.prepare(EVENTS)
    with trial.seeded(0):
        assert net(torch.ones(2).double()).dtype == torch.float64
        assert torch.ones(2).dtype == torch.float64
    # Inputs are drawn in their own dtype: other dtypes have other random numbers.
    assert torch.ones(2).dtype == torch.float32


def test_random_draws_of_a_call_dont_affect_the_next():
    drawn_inputs = []
    for count in (0, 1, 5):
        trial = trial_of()
        torch.manual_seed(7)
        drawn_inputs.append([])
        for _ in range(2):
            drawn_inputs[-1].append(torch.rand(1).item())
            with trial.seeded(0):
                drawn = torch.rand(count)
            assert drawn.equal(torch.rand(count, generator=torch.Generator().manual_seed(0)))
    assert drawn_inputs[0] == drawn_inputs[1] == drawn_inputs[2]


def test_random_numbers_differ_by_call_and_repeat_by_trial():
    drawn = []

    def target(x):
        drawn.append(torch.rand(1).item())

    for _ in range(2):
        workload = Mock(
            trial=trial_of(target),
            request={"seed": 0},
            _make=lambda call, is_eager: target(*call[0]),
        )
        for draw in range(3):
            Workload.call(workload, ((torch.ones(1),), {}), draw=draw)
    assert drawn[:3] == drawn[3:]
    assert len(set(drawn)) == 3


def test_a_replay_says_whether_its_calls_draw_random_numbers(tmp_path):
    for draw, is_random in (
        (lambda: torch.rand(1), True),
        (random.random, True),
        (lambda: torch.ones(1), False),
    ):
        trial = trial_of(outputs=str(tmp_path / "one"))
        torch.rand(1)
        with trial.seeded(0):
            draw()
        torch.rand(1)
        assert trial.finish({}).draws_random is is_random


def test_a_shaken_run_begins_with_other_last_digits():
    net = torch.nn.Linear(2, 2)
    x = torch.tensor([0.1, 0.2])
    before = [net.weight.detach().clone(), x.clone()]
    trial = trial_of(net, shaken=1)
    trial.prepare(EVENTS)
    trial.changed(((x,), {}))
    for value, old in zip((net.weight, x), before, strict=True):
        assert not torch.equal(value, old)
        torch.testing.assert_close(value.detach(), old, rtol=2e-6, atol=0.0)
