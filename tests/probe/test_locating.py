"""The first wrong operation of a graph is named, where a backend makes one wrong."""

import operator
from contextlib import suppress

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F

from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.replay.locating import Locating
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from tests.conftest import probe_python

pytestmark = pytest.mark.slow


class Planted:
    """A backend that puts ``wrong`` in the place of an operation, if ``when`` allows it; eager
    kernels do the rest.
    """

    def __init__(self, name, wrong, when=lambda _graph: True):
        self.name, self.wrong, self.when = name, wrong, when
        self.count = 0

    def __call__(self, gm, inputs):
        self.count += 1
        for node in gm.graph.nodes:
            name = getattr(node.target, "__name__", node.target)
            if name == self.name and self.when(node):
                with gm.graph.inserting_after(node):
                    other = gm.graph.call_function(self.wrong, node.args, node.kwargs)
                node.replace_all_uses_with(other)
                gm.graph.erase_node(node)
        gm.recompile()
        return gm.forward


def sought(
    function, backend, *calls, limit_s=300.0, what="values", after=lambda output: None, **options
):
    """What is found of a function after some calls, which may raise; ``after`` is called with what
    each returns."""
    torch.compiler.reset()
    locating = Locating(limit_s, what)
    compiled = torch.compile(function, backend=backend, **options)
    for call in calls:
        locating.call += 1
        with suppress(ValueError, IndexError):
            after(compiled(*call))
    return locating.found()


def located_here(*given, **asked):
    """What is located at the line that is marked."""
    located = sought(*given, **asked)["located"]
    assert located.location.text.endswith("# here")
    return located


def wrong_gelu(x, **_):
    return F.gelu(x) * 1.01


def middle(x):
    y = torch.sin(x) + 1
    y = F.gelu(y)  # here
    return y.cos() * 2


def test_operation_in_the_middle_is_named_with_its_line_and_its_element():
    x = torch.randn(4, 3)
    located = located_here(middle, Planted("gelu", wrong_gelu), (x,))
    assert (located.operation, located.direction) == ("torch.nn.functional.gelu", "forward")
    assert (located.inputs, located.output) == (("f32[4, 3]",), "f32[4, 3]")
    assert (located.compile_id, located.call, located.is_alone) == ("0/0", 1, True)
    element = located.element
    y = torch.sin(x) + 1
    assert element.eager == F.gelu(y)[element.index].item()
    assert element.exact == pytest.approx(F.gelu(y.double())[element.index].item(), rel=1e-6)
    assert element.compiled == pytest.approx(element.eager * 1.01, rel=1e-5)
    assert located.largest == pytest.approx(abs(element.compiled - element.eager))
    assert element.spacings > 1000
    assert (located.together_with, located.node_count, located.code) == ((), 5, None)


class Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sigmoid()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        y = x.sigmoid()
        return gradient * y * (1 - y) * 1.05


def wrong_backward(x):
    return Sigmoid.apply(x)


def test_operation_is_named_whatever_the_default_device():
    x = torch.randn(4, 3, requires_grad=True)
    with torch.device("meta"):
        located = located_here(middle, Planted("gelu", wrong_gelu), (x,))
    assert located.element.compiled == pytest.approx(located.element.eager * 1.01, rel=1e-5)


def test_operation_whose_gradient_is_wrong_is_named():
    def program(x, w):
        y = torch.tanh(x @ w)
        y = torch.sigmoid(y)  # here
        return (y * 3).sum()

    arguments = torch.randn(5, 4), torch.randn(4, 4, requires_grad=True)
    located = located_here(program, Planted("sigmoid", wrong_backward), arguments)
    assert located.direction == "backward"
    assert (located.operation, located.is_alone) == ("torch.sigmoid", True)
    assert located.element is not None


def only_of_seven(x, dim):
    return torch.softmax(x, dim) * (1.5 if x.shape[0] == 7 else 1)


@pytest.mark.parametrize("dynamic", [True, None, False])
def test_one_size_alone_is_wrong(dynamic):
    def program(x):
        y = x * x.shape[0]
        y = y.view(x.shape[0], -1)
        y = torch.softmax(y, 1)  # here
        return y.exp()

    calls = [(torch.randn(size, 6),) for size in (4, 5, 7, 8)]
    located = located_here(program, Planted("softmax", only_of_seven), *calls, dynamic=dynamic)
    assert (located.call, located.is_alone) == (3, True)


def test_twelve_compiles_are_enough_for_500_operations():
    def program(x):
        for _ in range(83):
            x = torch.sin(x) + x
            x = torch.cos(x) * x
            x = torch.tanh(x) - x
        x = torch.erf(x)  # here
        for _ in range(83):
            x = torch.sin(x) + x
        return x

    for wrong_at in (0, 1):
        backend = Planted("erf", lambda x: torch.erf(x) + 1e-3)
        if wrong_at:
            # The very last one.
            backend = Planted("add", lambda x, y: x + y + 1e-3, lambda n: not n.next.next.users)
        located = sought(program, backend, (torch.randn(8),))["located"]
        assert located.node_count > 500
        assert located.compile_count <= 12
        assert backend.count == located.compile_count + 1
        if not wrong_at:
            assert (located.location.text, located.is_alone) == ("x = torch.erf(x)  # here", True)


def test_second_graph_after_a_break_is_the_one():
    def program(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        y = y.add_(1)
        y = F.gelu(y)  # here
        return y * 2

    x = torch.randn(4, requires_grad=True)
    located = located_here(program, Planted("gelu", wrong_gelu), (x,))
    assert located.compile_id == "1/0"


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        y = self.lin(x)
        self.total.add_(y.detach().mean(0))  # here
        return torch.relu(y)


def test_wrong_change_of_a_buffer_is_named():
    backend = Planted("add_", lambda x, y: x.add_(y * 1.1))
    located = located_here(Counting(), backend, (torch.randn(3, 4),))
    assert located.operation == "Tensor.add_"


def test_operation_in_place_is_named():
    def program(x):
        y = torch.sin(x)
        z = y[1:]
        z.mul_(3)  # here
        return torch.cos(y) + 1

    backend = Planted("mul_", lambda x, y: x.mul_(y + 0.1))
    located = located_here(program, backend, (torch.randn(4),))
    assert located.is_alone


def test_first_wrong_step_of_a_training_loop_is_named():
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Linear(8, 1))

    def program(x):
        y = torch.clamp(model(x), -50, 50)  # here
        return (y**2).mean()

    optimizer = torch.optim.SGD(model.parameters(), 1e-6)

    def step(loss):
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    backend = Planted("clamp", lambda x, low, high: torch.clamp(x, low, high - 10))
    calls = [(torch.ones(2, 3) * scale,) for scale in (1, 2, 1e6, 1)]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.1)
    located = located_here(program, backend, *calls, after=step)
    assert (located.call, located.is_alone) == (3, True)


def test_one_of_several_results_is_enough():
    def program(x):
        values, places = torch.topk(x, 2)  # here
        a, b = values.split(1, 1)
        return a * b, places + 1

    backend = Planted("topk", lambda x, k: (torch.topk(x, k)[0], torch.topk(x, k)[1] * 0))
    located = located_here(program, backend, (torch.randn(3, 9),))
    assert located.operation == "torch.topk"
    assert located.output == "f32[3, 2], i64[3, 2]"


def test_operation_where_the_graph_cannot_be_cut_is_named_alone():
    def program(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.relu(x @ w)
            y = F.gelu(y)  # here
            y = y @ w
        return y * 2

    def without_gradients(x, w):
        y = (x @ w).requires_grad_()
        with torch.no_grad():
            y = torch.relu(y)
            y = F.gelu(y)  # here
            y = y * 3
        return y + w

    for function in (program, without_gradients):
        backend = Planted("gelu", lambda x: F.gelu(x) * 1.5)
        located = located_here(function, backend, (torch.randn(8, 8), torch.randn(8, 8)))
        assert located.is_alone
        assert located.together_with == ()


def fused(gm, inputs):
    """A backend that is wrong where a product, used once, is added to something."""
    for node in gm.graph.nodes:
        source = node.args[0] if node.args else None
        is_added = node.target is operator.add
        if is_added and getattr(source, "target", None) is operator.mul and len(source.users) == 1:
            node.args = (source, 2.0)
    gm.recompile()
    return gm.forward


def test_operations_that_are_wrong_together_are_named_together():
    def program(x):
        y = torch.sin(x)
        z = y * 3  # here
        z = z + 1
        return torch.exp(z) + y

    located = located_here(program, fused, (torch.randn(4),))
    assert not located.is_alone
    assert located.together_with == ("operator.add",)


def test_operation_that_changes_memory_beside_its_own_is_named():
    def program(x):
        windows = x.unfold(0, 1, 5)
        windows.add_(windows)  # here
        return x

    def clearing(windows, other):
        windows.as_strided((1,), (1,), 1).zero_()
        return windows.add_(other)

    located = located_here(program, Planted("add_", clearing), (torch.arange(1, 25),))
    assert located.operation == "Tensor.add_"


def lenient(x, index):
    return x[index.clamp(max=len(x) - 1)]


def other_error(x, index):
    raise ValueError("no such row")


@pytest.mark.parametrize("wrong", [lenient, other_error])
def test_operation_that_raises_something_else_in_eager_mode_is_named(wrong):
    def program(x, index):
        y = x * 2
        y = torch.embedding(y, index)  # here
        return y + 1

    calls = [(torch.randn(4, 3), torch.tensor([index])) for index in (1, 9)]
    located = located_here(program, Planted("embedding", wrong), *calls, what="exceptions")
    assert (located.operation, located.call) == ("torch.embedding", 2)
    assert located.inputs == ("f32[4, 3]", "i64[1]")


def test_graphs_that_raise_what_eager_mode_raises_blame_nothing():
    program = lambda x: torch.embedding(x, torch.tensor([9]))
    found = sought(program, "eager", (torch.randn(4, 3),), what="exceptions")
    assert found == {"not_located": "no_graph_differs"}


def test_infinity_is_located_without_an_element_which_json_could_not_hold():
    def program(x):
        y = x + 1
        y = torch.reciprocal(y)  # here
        return y * 2

    backend = Planted("reciprocal", lambda x: -torch.reciprocal(x))
    located = located_here(program, backend, (torch.tensor([-1.0, 1.0]),))
    assert located.element is None


def recast(gm, inputs):
    """A backend that gives sums of ones another dtype."""
    for node in gm.graph.find_nodes(op="call_method", target="cumsum"):
        if node.args[0].target is torch.ones:
            node.kwargs = {**node.kwargs, "dtype": torch.int64}
    gm.recompile()
    return gm.forward


def test_operation_with_another_form_is_named_not_what_it_takes_beside_it():
    def program(x):
        ones = torch.ones(4, dtype=torch.bfloat16)
        counts = ones.cumsum(0)  # here
        return x, counts

    located = located_here(program, recast, (torch.randn(4),), what="forms")
    assert located.together_with == ("torch.ones",)


def whole(gm, inputs):
    """A backend that is wrong from 20 operations on."""
    sines = [node for node in gm.graph.nodes if node.target is torch.sin]
    for node in sines[-1:] if len(sines) > 20 else []:
        node.target = torch.cos
    gm.recompile()
    return gm.forward


def test_no_line_is_blamed_for_what_only_the_whole_graph_does():
    def program(x):
        for _ in range(21):
            x = torch.sin(x)
        return x

    found = sought(program, whole, (torch.randn(4),))
    assert found["not_located"] == "only_whole"
    assert [at.text for at in found["not_located_lines"]] == ["x = torch.sin(x)"]


def test_right_graphs_blame_nothing():
    assert sought(middle, "eager", (torch.randn(4),)) == {"not_located": "no_graph_differs"}


def test_graph_that_is_never_the_same_blames_nothing():
    numbers = iter(range(1000))

    @torch.library.custom_op("graphdoctor_test::unstable", mutates_args=())
    def unstable(x: torch.Tensor) -> torch.Tensor:
        return x + next(numbers)

    unstable.register_fake(torch.empty_like)
    found = sought(lambda x: unstable(x) * 2, "eager", (torch.randn(4),))
    assert found == {"not_located": "not_repeatable"}


def test_time_that_is_up_is_said_with_the_lines_that_are_left():
    found = sought(middle, Planted("gelu", wrong_gelu), (torch.randn(4),), limit_s=-1.0)
    assert found["not_located"] == "stopped"


def copied_view(x, *shape):
    return x.clone().view(*shape)


def other_strides(x, *dims):
    return x.permute(*dims).contiguous()


@pytest.mark.parametrize(("name", "wrong"), [("view", copied_view), ("permute", other_strides)])
def test_operation_whose_result_has_another_form_is_named(name, wrong):
    def program(x):
        flat = x.sin().view(2, 3, 4)
        return flat.view(-1), flat.permute(2, 0, 1), flat * 2  # here

    backend = Planted(name, wrong, when=lambda node: node.args[1:] in ((-1,), (2, 0, 1)))
    located = located_here(program, backend, (torch.randn(24),), what="forms")
    assert located.operation == f"Tensor.{name}"


def test_inductors_code_of_a_wrong_lowering_is_shown():
    from torch._inductor import lowering

    def program(x):
        y = torch.sin(x) * 2
        y = torch.atan(y)  # here
        return y + 1

    atan = torch.ops.aten.atan.default
    right = lowering.lowerings[atan]
    lowering.lowerings[atan] = lowering.lowerings[torch.ops.aten.tanh.default]
    try:
        located = located_here(program, "inductor", (torch.randn(64),))
    finally:
        lowering.lowerings[atan] = right
    assert located.is_alone
    assert "tanh" in located.code


def test_replay_writes_what_is_found(tmp_path):
    (tmp_path / "model.py").write_text(PROGRAM)
    spec = RunSpec(target=f"{tmp_path}/model.py:forward", backend="planted")
    setup = Setup(python=str(probe_python()), timeout_s=120)
    with Replays(Request.of(spec), tmp_path / "replays", setup) as replays:
        replay = replays.replay(Program(), "located", locate_s=60.0).replay
        eager = replays.replay(Program(), "eager", locate_s=60.0, backend="eager").replay
    assert (replay.located.location.text, replay.located.call) == ("y = torch.relu(y)", 2)
    assert eager.not_located == "no_graph_differs"


PROGRAM = """
import torch

def wrong(x):
    return torch.where(x > 100, x * 1.5, torch.relu(x))

@torch._dynamo.register_backend
def planted(gm, inputs):
    for node in gm.graph.find_nodes(op="call_function", target=torch.relu):
        node.target = wrong
    gm.recompile()
    return gm.forward

def forward(x):
    y = torch.sin(x) + x
    y = torch.relu(y)
    return (y * y).sum()

def example_inputs():
    return [(torch.ones(3) * scale,) for scale in (1, 200)]
"""
