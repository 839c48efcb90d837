"""Which modules repeat, and what happens when each of them is compiled by itself."""

import copy
import functools

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from graphdoctor.probe.record.errors import RequestError
from graphdoctor.probe.target.options import compile_regions, described_blocks, repeated_blocks
from tests.each import for_each


class Block(nn.Module):
    """A layer."""

    def __init__(self, width=4, *, has_shortcut=False, index=0):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.shortcut = nn.Linear(width, width) if has_shortcut else None
        self.index = index

    def forward(self, x):
        return x + self.second(self.first(x).relu())


class OtherBlock(Block):
    """A layer of another class."""


class Stack(nn.Module):
    """Layers in a list."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Pair(nn.Module):
    """Two modules."""

    def __init__(self, left, right):
        super().__init__()
        self.left = left
        self.right = right

    def forward(self, x):
        return self.left(x) + self.right(x)


class Leaf(nn.Module):
    """A layer with parameters of its own and no submodules."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.weight


class Activation(nn.Module):
    """A layer without parameters."""

    def forward(self, x):
        return x.relu()


def paths_of(module):
    return {
        of.__name__: [block.path for block in blocks]
        for of, blocks in repeated_blocks(module).items()
    }


def blocks(count, kind=Block):
    return (kind() for _ in range(count))


def with_leaf(module):
    module.norm = Leaf()
    return module


LAYER = nn.TransformerEncoderLayer(4, 2, batch_first=True)
FOUND = {
    "layers in a list, and not what is in them": Stack(blocks(3)),
    "two are too few": Stack(blocks(2)),
    "torch's own layers without submodules": nn.Sequential(*(nn.Linear(4, 4) for _ in range(5))),
    "nothing to learn": nn.Sequential(*blocks(5, Activation)),
    "other sizes": Stack([Block(4), Block(8), Block(16), Block(32)]),
    "two of each": nn.Sequential(Block(), OtherBlock(), Block(), OtherBlock()),
    "a pair of models": Pair(Stack(blocks(3)), Stack(blocks(3))),
    "the outermost": nn.Sequential(*(nn.Sequential(*blocks(4)) for _ in range(3))),
    "a class that repeats only within blocks": with_leaf(
        Stack(nn.Sequential(Leaf(), nn.Linear(4, 4)) for _ in range(3))
    ),
    "the program's own without submodules": nn.Sequential(*blocks(3, Leaf)),
    "two classes": Pair(Stack(blocks(3)), Stack(blocks(4, OtherBlock))),
    "the first of a stage has more, and one is wider": nn.Sequential(
        *(Block(has_shortcut=index == 0) for index in range(4)), Block(8)
    ),
    "torch's own with submodules": nn.TransformerEncoder(LAYER, 3),
    "one module in several places": nn.Sequential(*[Block()] * 3),
    "lazy layers": nn.Sequential(*(nn.Sequential(nn.LazyLinear(4), nn.ReLU()) for _ in range(3))),
    "in a wrapper of the whole": nn.Sequential(Stack(blocks(3))),
}


def test_the_outermost_modules_that_repeat_are_blocks(snapshot):
    assert "\n".join(f"{case}: {paths_of(module)}" for case, module in FOUND.items()) == snapshot


class Counting:
    """A backend that counts graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, _inputs):
        self.graphs += 1
        return graph.forward


@pytest.mark.slow
# without it, the input of the first layer alone requires no gradient, which torch compiles anew for
@torch.no_grad()
@pytest.mark.parametrize(
    ("module", "graphs"),
    [
        (Stack(Block(index=index) for index in range(12)), 1),
        (Stack([*(Block() for _ in range(3)), *(OtherBlock() for _ in range(3))]), 2),
        (nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(9))), 1),
        (
            nn.TransformerEncoder(
                nn.TransformerEncoderLayer(4, 2, batch_first=True), 3, enable_nested_tensor=False
            ),
            1,
        ),
        (nn.Sequential(*[Block()] * 3), 1),
        (nn.parallel.DataParallel(Stack(Block() for _ in range(3))), 1),
    ],
    ids=[
        "one class",
        "two classes",
        "torch's containers",
        "torch's layers",
        "one module",
        "wrapped",
    ],
)
def test_instances_share_what_is_compiled_and_compute_the_same(module, graphs):
    torch._dynamo.reset()
    backend = Counting()
    x = torch.randn(2, 3, 4)
    module.eval()
    expected = module(x)
    state = copy.deepcopy(module.state_dict())
    regions = compile_regions(module, backend=backend)
    assert torch.equal(module(x), expected)
    assert backend.graphs == graphs
    assert module.state_dict().keys() == state.keys()
    before = backend.graphs
    with regions.off():
        torch._dynamo.reset()
        assert torch.equal(module(x), expected)
        assert backend.graphs == before
    assert torch.equal(module(x), expected)
    assert backend.graphs == 2 * before


@pytest.mark.slow
def test_hooks_and_blocks_that_return_nothing_work_as_before():
    class Noting(nn.Module):
        def __init__(self, notes):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.notes = notes

        def forward(self, x):
            self.notes.append(self.linear(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.notes = []
            self.parts = nn.ModuleList(Noting(self.notes) for _ in range(3))
            self.seen = 0
            self.parts[1].register_forward_hook(self.see)

        def see(self, *_):
            self.seen += 1

        def forward(self, x):
            self.notes.clear()
            for part in self.parts:
                part(x)
            return list(self.notes)

    torch._dynamo.reset()
    module = Net()
    x = torch.randn(2, 4)
    backend = Counting()
    expected = module(x)
    compile_regions(module, backend=backend)
    assert all(
        torch.equal(output, other) for output, other in zip(module(x), expected, strict=True)
    )
    assert module.seen == 2
    assert backend.graphs


def test_nothing_is_compiled_where_nothing_repeats():
    module = Stack([Block()])
    with pytest.raises(RequestError, match="'target': 'Stack', 'is_module': True"):
        compile_regions(module)
    assert module.layers[0]._compiled_call_impl is None
    with pytest.raises(RequestError, match="'is_module': False"):
        compile_regions(lambda x: x)


class Property(nn.Module):
    """A layer whose ``forward`` is a property, which nobody may read but to call it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.is_callable = False

    @property
    def forward(self):
        assert self.is_callable
        return lambda x: self.linear(x).relu()


class Unfinished(nn.Module):
    """A layer without ``forward``."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)


def patched():
    """A layer whose ``forward`` a hook of a package has replaced."""
    block = Block()
    block.forward = functools.partial(block.forward)
    return block


@for_each(
    "module, kinds, compiled_as, container",
    [
        (nn.Sequential(*(Block(has_shortcut=index == 0) for index in range(4))), 2, "module", ""),
        (nn.TransformerEncoder(LAYER, 3), 1, "forward", "layers"),
        # Only a list of all blocks alone is a container.
        (nn.Sequential(*blocks(3), nn.Linear(4, 4)), 1, "module", None),
        (nn.ModuleDict({name: Block() for name in "abc"}), 1, "module", None),
        (Pair(Stack(blocks(3)), Stack(blocks(3))), 1, "module", None),
        # A forward that is no plain function is not read.
        (nn.Sequential(*blocks(3, Property)), 1, "module", ""),
        (nn.Sequential(*blocks(3, Unfinished)), 1, "forward", ""),
        (nn.Sequential(patched(), patched(), patched()), 1, "module", ""),
    ],
)
def test_blocks_are_described_for_whoever_reads_the_recording(
    module, kinds, compiled_as, container
):
    (described,) = described_blocks(repeated_blocks(module))
    assert (described.kinds, described.compiled_as) == (kinds, compiled_as)
    assert described.container == container


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("make", [Property, patched])
def test_a_forward_that_is_no_plain_function_runs_as_before(make):
    torch._dynamo.reset()
    module = nn.Sequential(*(make() for _ in range(3)))
    x = torch.randn(2, 4)
    backend = Counting()
    for block in module:
        block.is_callable = True
    expected = module(x)
    compile_regions(module, backend=backend)
    assert torch.equal(module(x), expected)
    assert backend.graphs >= 1
