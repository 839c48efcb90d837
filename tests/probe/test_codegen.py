"""What the probe writes down of the kernels that Inductor generates, against Inductor's and torch's
own counts."""

import json
import logging
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.events import json_text
from graphdoctor.probe.record.graphs import CodegenRecorder
from graphdoctor.probe.torch_private.torch_codegen import CodegenWatch

pytestmark = pytest.mark.slow


class Network(torch.nn.Module):
    """Convolutions in both directions, products with and without a bias, attention, a cast, a
    reduction."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3)
        self.up = torch.nn.ConvTranspose2d(8, 4, 3)
        self.qkv = torch.nn.Linear(64, 192)
        self.heads = torch.nn.Linear(64, 192)

    def products(self, x, image):
        """All but attention."""
        q, k, v = self.qkv(x).chunk(3, -1)
        mixed = torch.baddbmm(v, torch.bmm(q, k.transpose(1, 2)).softmax(-1), v)
        return self.up(self.stem(image).relu()).double().sum() + mixed.sum()

    def forward(self, x, image):
        heads = self.heads(x).view(2, 32, 12, 16).transpose(1, 2)
        attended = torch.nn.functional.scaled_dot_product_attention(*heads.chunk(3, 1))
        return self.products(x, image) + attended.sum()


def inputs():
    return torch.randn(2, 32, 64), torch.randn(2, 3, 20, 20)


@contextmanager
def described():
    """The graphs for which code is generated meanwhile."""
    from torch._functorch import config as autograd
    from torch._inductor import config

    recorder = CodegenRecorder(lambda _: None)
    graphs = []
    # Code is generated each time, and kernels that were compiled from it before are found.
    with config.patch(fx_graph_cache=False), autograd.patch(enable_autograd_cache=False):
        before = config.trace.provenance_tracking_level
        watch = CodegenWatch(
            lambda graph: graphs.append(json.loads(json_text(recorder.described(graph))))
        )
        try:
            yield graphs
        finally:
            watch.close()
            config.trace.provenance_tracking_level = before
            torch._dynamo.reset()


def test_bytes_and_operations_are_those_that_torch_counts():
    from torch._inductor import compile_fx, metrics
    from torch.utils.flop_counter import FlopCounterMode

    network = Network()
    arguments = inputs()
    with FlopCounterMode(display=False) as counter:
        network.products(*arguments).backward()
    log = compile_fx.inductor_metrics_log
    level = log.level
    log.setLevel(logging.INFO)
    metrics.reset()
    try:
        with described() as graphs:
            torch.compile(network)(*arguments).backward()
        counted_bytes = metrics.num_bytes_accessed
    finally:
        log.setLevel(level)
    kernels = [kernel for graph in graphs for kernel in graph["kernels"]]
    assert [graph["phase"] for graph in graphs] == ["forward", "backward"]
    assert sum(kernel["bytes"] or 0 for kernel in kernels) == counted_bytes
    # Attention makes two products of queries, keys and values, and its backward five, which torch's
    # counter misses on a CPU; before it is a linear layer, which has a product in the forward pass
    # and one for the gradient of its weight.
    of_attention = 7 * 2 * (2 * 4) * 32 * 32 * 16
    of_linear = 2 * 2 * (2 * 32) * 64 * 192
    assert (
        sum(kernel["flops"] or 0 for kernel in kernels)
        == counter.get_total_flops() + of_attention + of_linear
    )
    assert {kernel["dtype"] for kernel in kernels if kernel["flops"]} == {"float32"}
    casts = [
        operation
        for graph in graphs
        for operation in graph["operations"]
        if "convert_element_type" in operation["target"]
    ]
    assert next((operation["input_dtypes"], operation["dtype"]) for operation in casts) == (
        ["float32"],
        "float64",
    )
    # What a library computes is one operation, whatever was computed on the way to it.
    assert {len(kernel["operations"]) for kernel in kernels if kernel["kind"] == "library"} == {1}


def test_arithmetic_is_counted_by_elements():
    def functions(x, y):
        return torch.tanh(x).exp().sum(-1), torch.erf(y) * 2

    for is_dynamic in (False, True):
        with described() as graphs:
            torch.compile(functions, dynamic=is_dynamic)(torch.randn(30, 70), torch.randn(500))
        counted = [kernel["elementwise"] for graph in graphs for kernel in graph["kernels"]]
        totals = {name: count for counts in counted for name, count in counts.items()}
        assert totals == {"tanh": 2100, "exp": 2100, "reduction": 2100, "erf": 500, "mul": 500}


def test_arithmetic_in_float64_and_reads_by_rows_are_unknown():
    table = torch.nn.Embedding(50_000, 16)
    with described() as graphs, torch.no_grad():
        torch.compile(lambda x: torch.sin(x.double()))(torch.randn(300))
        torch.compile(lambda rows: table(rows) * 2)(torch.tensor([1, 2, 3]))
    wide, by_rows = [kernel for graph in graphs for kernel in graph["kernels"]]
    assert (wide["elementwise"], by_rows["bytes"]) == (None, None)


def test_what_is_read_of_arguments_is_known():
    layer = torch.nn.Linear(64, 32)
    with described() as graphs, torch.no_grad():
        torch.compile(lambda x: layer(x).sin())(torch.ones(16, 64))
    product, function = [kernel for graph in graphs for kernel in graph["kernels"]]
    assert product["argument_bytes"] == 4 * (16 * 64 + 64 * 32 + 32)
    assert product["bytes"] == product["argument_bytes"] + 4 * 16 * 32
    assert (function["bytes"], function["argument_bytes"]) == (2 * 4 * 16 * 32, 0)


# What looking on leaves to the program, whatever it meets.

HOOK = "set_kernel_post_grad_provenance_tracing"


@pytest.fixture
def codegen(monkeypatch):
    """Generates code with one call of a library that is other than torch's own nodes."""
    from torch._inductor import config, debug
    from torch._inductor.graph import GraphLowering

    monkeypatch.setattr(debug, HOOK, lambda *_: 7)

    def generate(_lowering):
        return "code", getattr(debug, HOOK)(object(), "extern_kernels.mm", True)

    monkeypatch.setattr(GraphLowering, "codegen", generate)
    with config.patch({"trace.provenance_tracking_level": 0}):
        yield GraphLowering


def test_unexpected_nodes_and_graphs_are_survived(codegen):
    kernels = []
    for nodes in (SimpleNamespace(nodes=[]), None):
        lowering = SimpleNamespace(
            graph_id=3, is_backward=False, module=SimpleNamespace(graph=nodes)
        )
        watch = CodegenWatch(kernels.append)
        try:
            assert codegen.codegen(lowering) == ("code", 7)
        finally:
            watch.close()
        assert watch.graphs == 1
        assert (watch.failure or "").startswith("AttributeError: ")
    # The node keeps its place; of a graph without nodes nothing is handed on.
    (graph,) = kernels
    assert [(kernel.name, kernel.kind, kernel.bytes) for kernel, _ in graph.kernels] == [
        ("extern_kernels.mm", "other", None)
    ]
