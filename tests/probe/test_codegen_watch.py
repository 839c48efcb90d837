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


def generated(codegen: Any, watch: CodegenWatch, nodes: object) -> Any:
    lowering = SimpleNamespace(graph_id=3, is_backward=False, module=SimpleNamespace(graph=nodes))
    try:
        return codegen.codegen(lowering)
    finally:
        watch.close()


@pytest.mark.slow
def test_an_unexpected_node_is_survived_and_keeps_its_place(codegen: Any) -> None:
    seen: list[GeneratedGraph] = []
    watch = CodegenWatch(seen.append)
    assert generated(codegen, watch, SimpleNamespace(nodes=[])) == ("code", 7)
    assert [(kernel.name, kernel.kind, kernel.bytes) for kernel, _ in seen[0].kernels] == [
        ("extern_kernels.mm", "other", None)
    ]
    assert watch.failure is not None
    assert watch.failure.startswith("AttributeError: ")


def test_a_graph_that_is_other_than_known_is_survived(codegen: Any) -> None:
    watch = CodegenWatch(lambda _graph: None)
    assert generated(codegen, watch, None) == ("code", 7)
    assert (watch.graphs, watch.failure is None) == (1, False)
