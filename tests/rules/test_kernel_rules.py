"""What the rules on what is below Dynamo make of hand-built facts, and of their own pages' programs."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.kernels import (
    CacheBypass,
    CacheBypassKind,
    CudaGraphFunction,
    CudaGraphInput,
    CudaGraphs,
    CudaGraphSkip,
    Float32Precision,
    KernelShare,
    KernelTime,
)
from graphdoctor.facts.profiled import KeptTensor, MeasuredMemory, Partition
from graphdoctor.facts.recording import Graph, GraphNode, Recording
from graphdoctor.facts.spec import RunSpec
from graphdoctor.rules.catalog import ALL_RULES, RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.child import Setup, record
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.program import RunChange
from tests import factories
from tests.conftest import RunCli
from tests.each import for_each
from tests.profiles import facts
from tests.rules.test_documentation import BELOW_DYNAMO, first_block


def share(**values: object) -> KernelShare:
    """A call of 100 µs that computes for 60, half of it in libraries."""
    known: dict[str, object] = {
        "call_us": 100.0,
        "unprofiled_us": 90.0,
        "library_us": 30.0,
        "generated_us": 30.0,
        "copy_us": 0.0,
        "launches": 4,
        "region_runs": 1,
        "region_us": 30.0,
        "outside_us": 10.0,
    }
    return KernelShare(**known | values)


def codes(recording: Recording) -> list[str]:
    return [finding.code for finding in found(recording)]


def found(recording: Recording) -> list[Finding]:
    findings = diagnose(recording, RULES, root=Path("/project"), version="0").findings
    return [finding for finding in findings if finding.code in BELOW_DYNAMO]


def recorded(kernels: KernelShare | None = None, **values: object) -> Recording:
    return factories.recording().model_copy(update={"kernels": kernels, **values})


def test_a_balanced_call_has_no_finding() -> None:
    assert codes(recorded(share(), eager_kernels=share(region_runs=0))) == []
    assert codes(recorded()) == []


def test_what_the_profiler_cannot_see_is_no_finding() -> None:
    unknown = share(library_us=None, generated_us=None, copy_us=None, launches=None, device="cuda", region_us=90.0)
    assert codes(recorded(unknown, eager_kernels=share())) == []


def test_running_the_code_outweighs_its_kernels() -> None:
    tiny = share(library_us=5.0, generated_us=10.0, region_us=70.0, outside_us=17.5, launches=3)
    (finding,) = found(recorded(tiny))
    assert finding.code == "GD402"
    assert finding.message == (
        "running 1 compiled function with 3 kernels takes 67% of a steady call; the kernels themselves take 17%"
    )
    assert finding.cost is not None
    assert (finding.cost.call_us, finding.cost.call_from) == (60.0, "profile")
    assert codes(recorded(share(library_us=5.0, generated_us=10.0, region_us=70.0, outside_us=70.0))) == []
    assert codes(recorded(share(library_us=5.0, generated_us=10.0, region_us=40.0))) == []


@for_each(
    "device, graphs, snippets",
    [
        ("cpu", None, [None]),
        ("cuda", None, ['mode="reduce-overhead"', None]),
        ("cuda", CudaGraphs(captured=1), [None]),
    ],
)
def test_cuda_graphs_are_suggested_where_they_are_not_used(device, graphs, snippets) -> None:
    tiny = share(device=device, library_us=5.0, generated_us=10.0, region_us=70.0)
    (finding,) = found(recorded(tiny, cuda_graphs=graphs))
    assert [fix.snippet for fix in finding.fixes] == snippets


def test_library_calls_leave_little_to_gain() -> None:
    largest = (KernelTime(name="aten::addmm", kind="library", us=80.0, count=4),)
    (finding,) = found(recorded(share(library_us=94.0, generated_us=3.0, region_us=3.0, largest=largest)))
    assert (finding.code, finding.severity, finding.cost) == ("GD503", "info", None)
    assert finding.message == (
        "library calls take 94% of a steady call, mostly `aten::addmm`; torch.compile can't fuse them, and without all "
        "the rest the call would be only 1.06× faster"
    )


def test_library_calls_of_eager_mode_are_no_finding() -> None:
    eager = recorded(share(library_us=94.0, generated_us=0.0, region_us=0.0, region_runs=0))
    assert codes(eager) == []


def skip(kind: str, **values: object) -> CudaGraphSkip:
    return CudaGraphSkip(kind=kind, reason=f"skipping cudagraphs due to {kind}", **values)


def test_a_skipped_cuda_graph_has_torchs_reason_and_its_line() -> None:
    graphs = CudaGraphs(captured=0, skipped=(skip("mutation", file=factories.FILE, line=7, compile_id="0/0"),) * 2)
    (finding,) = found(recorded(cuda_graphs=graphs))
    assert (finding.code, finding.severity, finding.count) == ("GD504", "warning", 2)
    assert finding.message == "torch doesn't record a CUDA graph: it writes to an input"
    assert finding.torch_reason == "skipping cudagraphs due to mutation"
    assert (finding.location.file, finding.location.line, finding.compile_ids) == ("model.py", 7, ("0/0",))
    assert len(finding.fixes) == 2


@for_each(
    "target, line", [("add_", 12), ("operator.setitem", 12), ("sin", 10), ("operator.invert", 10), ("__init__", 10)]
)
def test_a_written_input_has_its_name_and_its_line(target: str, line: int) -> None:
    graph = factories.graph()
    nodes = (
        GraphNode(name="l_x_", opcode="placeholder", target="L_x_", args="", kwargs=""),
        GraphNode(
            name="n", opcode="call_method", target=target, args="", kwargs="", inputs=("l_x_",), file=factories.FILE,
            line=12,
        ),
    )  # fmt: skip
    graphs = CudaGraphs(captured=0, skipped=(skip("mutation"),), functions=(recorded_as(mutated=("L['x']",)),))
    known = {"graphs": (graph.model_copy(update={"nodes": nodes}),)}
    (finding,) = found(recorded(cuda_graphs=graphs, **known))
    assert finding.message == "torch doesn't record a CUDA graph: it writes to `x`"
    assert finding.location.line == (line if line == 12 else factories.frame().line)


def test_cuda_graphs_without_cuda_are_only_worth_knowing() -> None:
    (finding,) = found(recorded(cuda_graphs=CudaGraphs(captured=0, skipped=(skip("no_device"),))))
    assert (finding.severity, finding.message) == ("info", "CUDA graphs were asked for, but there is no CUDA device")
    assert finding.fixes[0].snippet == 'mode="default"'


def test_each_reason_is_one_finding() -> None:
    skipped = (skip("other"), skip("mutation"), skip("cpu_device"), skip("mutation"))
    assert codes(recorded(cuda_graphs=CudaGraphs(captured=2, skipped=skipped))) == ["GD504"] * 3


def test_an_operation_that_splits_a_cuda_graph() -> None:
    graphs = CudaGraphs(captured=2, left_out=(skip("cpu_device", file=factories.FILE, line=7), skip("other")))
    first, second = found(recorded(cuda_graphs=graphs))
    assert (first.code, first.severity, first.location.line) == ("GD504", "warning", 7)
    assert first.message == "torch splits a CUDA graph: an operation runs on the CPU, or copies from or to it"
    assert second.message == "torch splits a CUDA graph: see torch's reason"


def test_copies_into_cuda_graphs() -> None:
    copying = share(device="cuda", copy_us=12.8, graph_input_copy_us=12.8, graph_launches=1)
    (finding,) = found(recorded(copying, cuda_graphs=CudaGraphs(captured=1)))
    assert (finding.code, finding.cost and finding.cost.call_us) == ("GD505", 12.8)
    assert finding.message == "copying inputs into the memory of CUDA graphs takes 13% of a steady call"
    assert codes(recorded(share(device="cuda", copy_us=9.0, graph_input_copy_us=9.0, graph_launches=1))) == []
    assert codes(recorded(share(copy_us=40.0))) == []


def recorded_as(**values: object) -> CudaGraphFunction:
    """A function that torch records."""
    known = {"compile_id": "0/0", "phase": "forward", "name": "f", "sizes": 1, "recordings": 1, "rerecordings": 0}
    return CudaGraphFunction(**{**known, "copied": (), **values})


def graph_input(name: str, size: int = 8, source: str | None = "") -> CudaGraphInput:
    return CudaGraphInput(placeholder=name, bytes=size, source=f"L['{name}']" if source == "" else source)


def test_copies_into_cuda_graphs_are_of_inputs_with_names() -> None:
    copying = share(device="cuda", copy_us=12.8, graph_input_copy_us=12.8, graph_launches=1)
    function = recorded_as(copied=(graph_input("y"), graph_input("x", 64)))
    (finding,) = found(recorded(copying, cuda_graphs=CudaGraphs(captured=1, functions=(function,))))
    assert finding.message == "copying `x` and `y` into the memory of CUDA graphs takes 13% of a steady call"
    unnamed = recorded_as(copied=(graph_input("y"), graph_input("tangents_1", source=None)))
    (finding,) = found(recorded(copying, cuda_graphs=CudaGraphs(captured=1, functions=(unnamed,))))
    assert finding.message.startswith("copying inputs into")


def test_a_cuda_graph_for_each_of_many_sizes() -> None:
    graphs = CudaGraphs(captured=9, functions=(recorded_as(sizes=8), recorded_as(sizes=20, recordings=0)))
    (finding,) = found(recorded(cuda_graphs=graphs))
    assert (finding.code, finding.severity, finding.count) == ("GD511", "warning", 20)
    assert finding.message == "torch records a CUDA graph for each of 20 sizes"
    assert finding.fixes[-1].snippet == "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True"


def test_a_cuda_graph_that_is_recorded_again() -> None:
    moved = recorded_as(recordings=3, rerecordings=2, moved=(graph_input("weight"),))
    held = recorded_as(recordings=2, rerecordings=1, phase="backward")
    unnamed = recorded_as(recordings=2, rerecordings=1, name="g", moved=(graph_input("primals_1", source=None),))
    graphs = CudaGraphs(captured=2, functions=(moved, held, unnamed))
    messages = [finding.message.partition(": ")[2] for finding in found(recorded(cuda_graphs=graphs))]
    assert messages == [
        "2 times, because `weight` moved to new addresses",
        "1 time, because tensors that an earlier call returned were still in use",
        "1 time, because static inputs moved to new addresses",
    ]
    assert codes(recorded(cuda_graphs=CudaGraphs(captured=1, functions=(recorded_as(),)))) == []


def test_kernels_that_are_slower_than_those_they_replaced() -> None:
    largest = (KernelTime(name="triton_red_fused__softmax_0", kind="generated", us=200.0, count=1),)
    now = share(call_us=600.0, library_us=300.0, generated_us=270.0, copy_us=8.0, region_us=20.0, largest=largest)
    before = share(call_us=520.0, library_us=508.0, generated_us=0.0, region_runs=0, region_us=0.0)
    (finding,) = found(recorded(now, eager_kernels=before))
    assert finding.code == "GD506"
    assert finding.message == (
        "the kernels take 1.14× as long as those of eager mode: Inductor's own take 1.35× as long as those that they "
        "replaced; the longest is `triton_red_fused__softmax_0`"
    )
    assert finding.cost is not None
    assert finding.cost.call_us == pytest.approx(70.0)
    assert codes(recorded(now, eager_kernels=share(call_us=600.0, library_us=550.0, region_runs=0))) == []


def bypass(kind: str, **values: object) -> CacheBypass:
    return CacheBypass(**{"compile_id": "0/0", "kind": kind, "reason": "torch's words", "is_code_kept": True, **values})


def test_a_graph_that_the_caches_leave_out_has_torchs_reason_and_its_line() -> None:
    node = GraphNode(
        name="f",
        opcode="call_function",
        target="model.net.f",
        args="x",
        kwargs="",
        inputs=("x",),
        file=factories.FILE,
        line=11,
    )
    graph = Graph(compile_id="0/0", index=0, op_count=1, nodes=(node,))
    (finding,) = found(recorded(cache_bypasses=(bypass("function", subject="net.f"),), graphs=(graph,)))
    assert (finding.code, finding.severity, finding.torch_reason) == ("GD403", "info", "torch's words")
    assert finding.message == (
        "each start traces 1 graph with AOTAutograd again: torch's cache keeps no graph with `net.f`, which torch "
        "can't see into"
    )
    assert (finding.location.line, finding.compile_ids) == (11, ("0/0",))


def test_graphs_left_out_for_one_reason_are_one_finding_with_their_time() -> None:
    left_out = tuple(
        bypass("higher_order_operator", subject="cond", is_code_kept=False, compile_id=f"0/{n}") for n in (0, 1)
    )
    known = tuple(factories.compiled(f"0/{n}").model_copy(update={"backend_s": 1.5}) for n in (0, 1))
    facts = factories.recording(compiles=known).model_copy(update={"cache_bypasses": (*left_out, bypass("freezing"))})
    first, second = found(facts)
    assert first.message == "each start compiles 2 graphs again (3.0 s): torch's cache keeps no graph with `cond`"
    assert second.message.endswith("torch's cache keeps no graph with frozen parameters")
    unknown = factories.recording().model_copy(update={"cache_bypasses": left_out})
    assert found(unknown)[0].message.startswith("each start compiles 2 graphs again: ")


@for_each("kind", get_args(CacheBypassKind))
def test_each_reason_for_a_bypass_has_words(kind: str) -> None:
    (finding,) = found(recorded(cache_bypasses=(bypass(kind, is_code_kept=False),)))
    assert "{" not in finding.message
    assert "``" not in finding.message
    (named,) = found(recorded(cache_bypasses=(bypass(kind, subject="m.f"),)))
    assert finding.fingerprint != named.fingerprint


def test_a_custom_autograd_function_has_a_setting() -> None:
    (finding,) = found(recorded(cache_bypasses=(bypass("autograd_function"),)))
    assert finding.fixes[0].snippet is not None
    assert finding.fixes[0].snippet.endswith(".autograd_cache_allow_custom_autograd_functions = True")


def product(target: str = "torch._C._nn.linear", value: str = "f32[8, 8] cuda:0", line: int = 11) -> GraphNode:
    return GraphNode(
        name="n", opcode="call_function", target=target, args="", kwargs="", value=value, file=factories.FILE, line=line
    )


def on_cuda(*nodes: GraphNode, **precision: object) -> Recording:
    known = {"matmul_tf32": False, "convolution_tf32": True, "capabilities": ((9, 0), (7, 5))} | precision
    graph = Graph(compile_id="0/0", index=0, op_count=1, nodes=nodes)
    return recorded(float32_precision=Float32Precision(**known), graphs=(graph,))


def test_float32_products_could_use_tensor_cores() -> None:
    products = (product(line=12), product("operator.matmul"), product("bmm"), product("torch.relu"))
    (finding,) = found(on_cuda(*products))
    assert (finding.code, finding.severity, finding.count) == ("GD510", "info", 3)
    assert finding.message == ("3 matrix products in float32 could run on tensor cores, but TensorFloat32 is off")
    assert (finding.location.line, finding.compile_ids) == (11, ("0/0",))
    assert [(place.line, place.note) for place in finding.related] == [(12, "1 matrix product")]
    assert finding.fixes[0].snippet == 'torch.set_float32_matmul_precision("high")'
    assert not finding.fixes[0].is_safe


@for_each(
    "value",
    ["f16[8, 8] cuda:0", "bf16[8, 8] cuda:0", "f32[8, 8]", "f64[8, 8] cuda:0", "f32[8, 8] cuda:1", "f32[8] xpu:0"],
)
def test_products_that_tensor_float_does_not_concern(value: str) -> None:
    assert codes(on_cuda(product(value=value))) == []


def test_products_in_a_file_that_nothing_is_known_of_are_at_the_compiled_function() -> None:
    elsewhere = product().model_copy(update={"file": "/site-packages/lib/net.py"})
    (finding,) = found(on_cuda(elsewhere, elsewhere))
    assert (finding.count, finding.location.file, finding.location.line) == (2, "model.py", factories.frame().line)


def test_tensor_float_that_is_on_or_unknown_is_no_finding() -> None:
    assert codes(on_cuda(product(), matmul_tf32=True)) == []
    assert codes(on_cuda(product("torch.conv2d"))) == []
    assert codes(on_cuda(product()).model_copy(update={"float32_precision": None})) == []


def test_convolutions_have_a_setting_of_their_own() -> None:
    facts = on_cuda(product("torch.conv2d"), product("torch.conv_transpose1d"), convolution_tf32=False)
    (finding,) = found(facts)
    assert finding.message.startswith("2 convolutions in float32 could run on tensor cores")
    assert finding.fixes[0].snippet == "torch.backends.cudnn.allow_tf32 = True"


_CALLS = """

def example_inputs():
    return inputs()

"""


def kept(megabytes: int, layers: int = 1, **more: Any) -> Partition:
    """What layers keep, each as much."""
    given: dict[str, Any] = {"operation": "aten.gelu.default", "tensor": "f32[8, 9]", "is_argument": False}
    size, place = megabytes * 1024**2, factories.entry(7)
    names = [f"gelu_{number}" for number in range(layers)]
    saved = [
        KeptTensor(**{"name": name, "bytes": size, "is_cheap": True, "stack": (place,)} | given | more)
        for name in names
    ]
    return Partition(saved=tuple(saved), recomputed={}, draws_random=False)


def keeping(partition: Partition, *, backward: bool = True, **memory: Any) -> Recording:
    """A profiled call with a graph that keeps something, of 100 MiB in all."""
    known = {"peak_of": "process", "before_bytes": 0, "peak_bytes": 2**30, "saved_bytes": 100 * 2**20}
    made = recorded(
        profiled=facts.profiled((), facts.graph((), partition=partition)),
        memory=MeasuredMemory(**known | {"eager_saved_bytes": None} | memory),
    )
    return made.model_copy(update={"target": made.target.model_copy(update={"call_options": {"backward": backward}})})


def test_a_large_cheap_tensor_that_is_kept() -> None:
    (finding,) = found(keeping(kept(20, layers=3)))
    assert (finding.code, finding.severity, finding.count, finding.location.line) == ("GD512", "info", 3, 7)
    assert finding.message == (
        "the result of `gelu`, 3 × f32[8, 9], is kept for the backward pass: 60 MiB, 60% of what is kept; it is cheap "
        "to compute again"
    )
    assert finding.fixes[0].snippet == "torch._functorch.config.activation_memory_budget = 0.1"


def test_a_budget_is_not_suggested_where_random_numbers_are_drawn() -> None:
    (finding,) = found(keeping(kept(60).model_copy(update={"draws_random": True})))
    assert [fix.setting for fix in finding.fixes] == [None]


def test_what_is_small_or_costly_or_no_longer_needed_is_no_finding() -> None:
    assert codes(keeping(kept(31))) == []
    assert codes(keeping(kept(60, is_cheap=False))) == []
    assert codes(keeping(kept(60, is_cheap=None, is_argument=True))) == []
    assert codes(keeping(kept(60), saved_bytes=400 * 2**20)) == []
    assert codes(keeping(kept(60), saved_bytes=None)) == []
    assert codes(keeping(kept(60), backward=False)) == []
    assert codes(keeping(kept(60), peak_of="allocator")) == []
    assert codes(keeping(kept(60), peak_of="allocator", peak_bytes=500 * 2**20)) == ["GD512"]


def measured(code: str, folder: Path, *, eager: bool = False, is_profile: bool = False) -> Recording:
    """A page's program with its kernels; in a profile with its memory, too. What needs gradients gets them."""
    folder.mkdir(parents=True)
    # A thread that waits for another one is at the mercy of what else the machine does.
    (folder / "snippet.py").write_text(f"{code}{_CALLS}torch.set_num_threads(1)\n")
    asked = re.search(r"^ARGUMENTS = (\[.*\])$", code, re.MULTILINE)
    options = json.loads(asked[1]) if asked else []
    given = {name.removeprefix("--"): value for name, value in zip(options[::2], options[1::2], strict=True)}
    spec = RunSpec(
        target=f"{folder / 'snippet.py'}:forward",
        **{"backend": "inductor", "backward": "requires_grad" in code, **given},
    )
    measures = Measured(kernels=True)
    if is_profile:
        (folder / "caches").mkdir()
        measures = Measured(kernels=True, memory=True, profile=str(folder / "caches"))
    plan = {**RunChange().plan(), "is_eager": True, "references": {}, "outputs": str(folder / "outputs.pt")}
    request = Request(spec, Request.of(spec).target, measured=measures, trial=plan if eager else None)
    (folder / "recording").mkdir()
    ended = record(request, folder / "recording", Setup(timeout_s=300))
    assert ended.reason == "finished", ended.message
    return read_recording(folder / "recording")


def is_run(example: str) -> None:
    """Skip what can't run on this machine."""
    torch = pytest.importorskip("torch")
    if "cuda" in example and not torch.cuda.is_available():
        pytest.skip("its example needs CUDA")


@pytest.mark.nightly
@pytest.mark.parametrize("rule", sorted(BELOW_DYNAMO - {"GD403", "GD506"}))
def test_the_page_is_true(rule: str, tmp_path: Path) -> None:
    example, instead = (first_block(ALL_RULES[rule], section) for section in ("Example", "Use instead"))
    is_run(example)
    is_profile = rule in ("GD508", "GD509", "GD512")
    assert rule in codes(measured(example, tmp_path / "example", is_profile=is_profile))
    assert rule not in codes(measured(instead, tmp_path / "instead", is_profile=is_profile))


@pytest.mark.slow
def test_explain_sees_for_free_what_torch_says_below_dynamo(tmp_path: Path, run_cli: RunCli) -> None:
    example, instead = (first_block(ALL_RULES["GD403"], section) for section in ("Example", "Use instead"))

    def explained(code: str, *options: str) -> dict[str, dict[str, Any]]:
        (tmp_path / "model.py").write_text(f"{code}{_CALLS}")
        process = run_cli("explain", "model.py:forward", "--backend", "inductor", *options, "--format", "json")
        assert process.returncode == 0, process.stderr
        return {finding["code"]: finding for finding in json.loads(process.stdout)["findings"]}

    assert explained(instead) == {}
    findings = explained(example, "--mode", "reduce-overhead")
    assert set(findings) == {"GD403", "GD504"}
    assert findings["GD403"]["location"]["line"] == 1 + example.splitlines().index("    return smooth(x) + 1")
    if not importlib.import_module("torch").cuda.is_available():
        assert findings["GD504"]["message"] == "CUDA graphs were asked for, but there is no CUDA device"


@pytest.mark.nightly
def test_the_page_on_slower_kernels_is_true(tmp_path: Path) -> None:
    example, instead = (first_block(ALL_RULES["GD506"], section) for section in ("Example", "Use instead"))
    # Work of others only ever adds to a time, but to either one: the least of a few measurements is what it takes.
    before = quickest(measured(example, tmp_path / f"eager-{number}", eager=True) for number in range(2))
    now = quickest(measured(example, tmp_path / f"compiled-{number}") for number in range(2))
    assert before.kernels is not None
    assert "nothing_compiled" not in [gap.kind for gap in before.gaps]
    assert (before.kernels.region_runs, before.kernels.generated_us) == (0, 0.0)
    assert codes(now.model_copy(update={"eager_kernels": before.kernels})) == ["GD506"]
    better = measured(instead, tmp_path / "instead")
    assert better.kernels is not None
    # The library's product takes a fifth of the time of Inductor's sum.
    assert better.kernels.library_us
    assert kernels_us(better) < kernels_us(now) / 2


def quickest(recordings: Iterable[Recording]) -> Recording:
    """The one whose kernels take the least time."""
    return min(recordings, key=kernels_us)


def kernels_us(recording: Recording) -> float:
    """What the kernels of a call take; it must be known."""
    assert recording.kernels is not None
    assert recording.kernels.kernels_us is not None
    return recording.kernels.kernels_us
