"""What forward graphs keep for their backward graphs, against what autograd is given to keep."""

import functools
import gc

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from graphdoctor.probe.measure.timing import kept_bytes
from graphdoctor.probe.torch_private.torch_codegen import PartitionWatch, operation_of, value_bytes

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _all_objects_are_seen():
    """Parameters of the programs, too: what is frozen isn't among the objects that gc names."""
    gc.unfreeze()


class Block(nn.Module):
    """Attention with softmax and dropout written out, a norm, and an MLP."""

    def __init__(self, size=32):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(size), nn.Linear(size, 3 * size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = F.dropout((q @ k.transpose(1, 2)).softmax(-1), 0.1)
        return x + self.down(F.gelu(self.up(weights @ v)))


class Square(torch.autograd.Function):
    """A custom function that also keeps a tensor without `save_for_backward`."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.doubled = x * 2
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.doubled


def broken(x):
    """Two graphs, and an operation between them."""
    y = (x.sin() @ x).cos()
    torch._dynamo.graph_break()
    return (y @ y).exp()


def squared(x):
    return Square.apply(x.sin() @ x).cos()


def checkpointed(block, x):
    return checkpoint(block, x, use_reentrant=False).sum()


def random(*shape, needs_gradient=True):
    return torch.randn(*shape, requires_grad=needs_gradient)


def watched(function, *arguments, dynamic=None):
    """The partitions of a call's graphs, what the same call keeps compiled, and in eager mode."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.utils import detect_fake_mode
    from torch._functorch import config as aot_config
    from torch._inductor import compile_fx
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.virtualized import V

    watch = PartitionWatch()
    partitions = []

    def take(graph, _):
        if (partition := watch.take()) is not None:
            partitions.append(partition)
        return graph

    def backend(graph, arguments):
        compile_ = aot_autograd(
            fw_compiler=take,
            decompositions=select_decomp_table(),
            bw_compiler=lambda graph, _: graph,
            partition_fn=compile_fx.partition_fn,
        )
        with V.set_fake_mode(detect_fake_mode(arguments)):
            return compile_(graph, arguments)

    torch._dynamo.reset()
    with aot_config.patch(enable_autograd_cache=False):
        try:
            compiled = torch.compile(function, backend=backend, dynamic=dynamic)
            compiled(*arguments)
            kept = kept_bytes(lambda: compiled(*arguments))
        finally:
            watch.close()
            torch._dynamo.reset()
    in_eager = kept_bytes(lambda: function(*arguments))
    assert kept is not None
    assert in_eager is not None
    return partitions, kept, in_eager


def listed(partitions):
    kept = [value for partition in partitions for value in partition.kept]
    return sum(value_bytes(value.node) or 0 for value in kept if not value.is_argument)


PROGRAMS = {
    "attention": (Block(), (random(4, 16, 32, needs_gradient=False),)),
    "custom": (squared, (random(16, 16),)),
    "checkpointed": (functools.partial(checkpointed, Block()), (random(4, 16, 32),)),
    "convolution": (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()),
        (random(2, 3, 12, 12),),
    ),
}


def test_what_is_listed_is_what_autograd_keeps():
    for name, (function, arguments) in PROGRAMS.items():
        dynamic = [None, True] if name == "attention" else [None]
        for is_dynamic in dynamic:
            (partition,), kept, _ = watched(function, *arguments, dynamic=is_dynamic)
            assert listed([partition]) == kept > 0, name
            assert partition.draws_random == (name in {"attention", "checkpointed"}), name


def test_nothing_is_kept_without_gradients():
    assert watched(lambda x: (x.sin() @ x).cos(), random(16, 16, needs_gradient=False)) == (
        [],
        0,
        0,
    )


def test_products_and_random_numbers_are_not_cheap_to_compute_again():
    (partition,), _, in_eager = watched(Block(64), random(8, 64, 64, needs_gradient=False))
    large = [kept for kept in partition.kept if (value_bytes(kept.node) or 0) > 20_000]
    computed = {(operation_of(kept.node), kept.is_cheap) for kept in large if not kept.is_argument}
    assert computed == {
        ("aten.native_layer_norm.default", True),
        ("aten.addmm.default", False),
        ("aten.bmm.default", False),
        ("aten.gelu.default", True),
        ("aten.native_dropout.default", True),
    }
    assert {operation_of(node) for node in partition.recomputed} >= {
        "aten.gelu.default",
        "aten._softmax.default",
    }
    assert in_eager > 0


def test_graph_reading_another_graphs_result_takes_an_argument():
    partitions, kept, _ = watched(broken, random(16, 16))
    assert [any(value.is_argument for value in partition.kept) for partition in partitions] == [
        True,
        True,
    ]
    # The result between the graphs is new in this call, but an argument of the second.
    assert kept - listed(partitions) in (0, 16 * 16 * 4)


class Closed(torch.Tensor):
    """Says nothing of what it is made of."""

    def __tensor_flatten__(self):
        raise KeyError("closed")


def test_unmeasurable_tensors_of_the_process_are_left_alone():
    others = nn.LazyLinear(3), torch.ones(2).as_subclass(Closed), torch.ones(2, device="meta")
    x = random(4, 4)
    assert kept_bytes(lambda: x.sin().cos()) == 16 * 4, others
