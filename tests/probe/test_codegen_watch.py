"""What looking on while Inductor generates code leaves to the program, whatever it meets."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.torch_private.torch_codegen import CodegenWatch, GeneratedGraph

HOOK = "set_kernel_post_grad_provenance_tracing"


@pytest.fixture
def codegen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Generates code with one call of a library that is other than torch's own nodes."""
    from torch._inductor import config, debug
    from torch._inductor.graph import GraphLowering

    monkeypatch.setattr(debug, HOOK, lambda *_: 7)

    def generate(_lowering: object) -> tuple[str, int]:
        return "code", getattr(debug, HOOK)(object(), "extern_kernels.mm", True)

    monkeypatch.setattr(GraphLowering, "codegen", generate)
    with config.patch({"trace.provenance_tracking_level": 0}):
        yield GraphLowering


@pytest.mark.slow
def test_unexpected_nodes_and_graphs_are_survived(codegen: Any) -> None:
    kernels: list[GeneratedGraph] = []
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
