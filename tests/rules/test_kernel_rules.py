"""What the rules on what is below Dynamo make of hand-built facts, and of their own pages'
programs."""

from __future__ import annotations

import importlib
import json
import re
from typing import Any, get_args

import pytest

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
from graphdoctor.facts.recording import Graph, GraphNode
from graphdoctor.facts.spec import RunSpec
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.child import Setup, record
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.program import RunChange
from tests import factories
from tests.conftest import probe_python
from tests.rules.said import findings, said
from tests.rules.test_documentation import BELOW_DYNAMO, first_block
from tests.studies.profile import facts


def share(**values):
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


def codes(recording):
    return [finding.code for finding in findings(recording, "GD4", "GD5")]


def recorded(kernels=None, **values):
    return factories.recording().replace(kernels=kernels, **values)


def skip(kind, **values):
    return CudaGraphSkip(kind=kind, reason=f"skipping cudagraphs due to {kind}", **values)


def with_graphs(*, kernels=None, **values):
    return recorded(kernels, cuda_graphs=CudaGraphs(**{"captured": 1, **values}))


def recorded_as(**values):
    """A function that torch records."""
    known = {
        "compile_id": "0/0",
        "phase": "forward",
        "name": "f",
        "sizes": 1,
        "recordings": 1,
        "rerecordings": 0,
    }
    return CudaGraphFunction(**{**known, "copied": (), **values})


def graph_input(name, size=8, source=""):
    return CudaGraphInput(
        placeholder=name, bytes=size, source=f"L['{name}']" if source == "" else source
    )


def node(target, line, *inputs, opcode="call_function", value=None):
    return GraphNode(
        name="n", opcode=opcode, target=target, args="", kwargs="", inputs=inputs, value=value, file=factories.FILE,
        line=line,
    )  # fmt: skip


def writing(target):
    """A graph that torch skips because it writes to its input by such an operation."""
    argument = GraphNode(name="l_x_", opcode="placeholder", target="L_x_", args="", kwargs="")
    graph = factories.graph().replace(
        nodes=(argument, node(target, 12, "l_x_", opcode="call_method"))
    )
    facts = with_graphs(skipped=(skip("mutation"),), functions=(recorded_as(mutated=("L['x']",)),))
    return facts.replace(graphs=(graph,))


def bypass(kind, **values):
    return CacheBypass(
        **{
            "compile_id": "0/0",
            "kind": kind,
            "reason": "torch's words",
            "is_code_kept": True,
            **values,
        }
    )


def compiled_for(seconds, *bypasses):
    known = tuple(factories.compiled(f"0/{n}").replace(backend_s=seconds) for n in (0, 1))
    return factories.recording(compiles=known).replace(cache_bypasses=bypasses)


def product(target="torch._C._nn.linear", value="f32[8, 8] cuda:0", line=11):
    return node(target, line, value=value)


def on_cuda(*nodes, **precision):
    known = {
        "matmul_tf32": False,
        "convolution_tf32": True,
        "capabilities": ((9, 0), (7, 5)),
    } | precision
    graph = Graph(compile_id="0/0", index=0, op_count=1, nodes=nodes)
    return recorded(float32_precision=Float32Precision(**known), graphs=(graph,))


def kept(megabytes, layers=1, **more):
    """What layers keep, each as much."""
    given: dict[str, Any] = {
        "operation": "aten.gelu.default",
        "tensor": "f32[8, 9]",
        "is_argument": False,
    }
    size, place = megabytes * 1024**2, factories.entry(7)
    names = [f"gelu_{number}" for number in range(layers)]
    saved = [
        KeptTensor(
            **{"name": name, "bytes": size, "is_cheap": True, "stack": (place,)} | given | more
        )
        for name in names
    ]
    return Partition(saved=tuple(saved), recomputed={}, draws_random=False)


def keeping(partition, *, backward=True, **memory):
    """A profiled call with a graph that keeps something, of 100 MiB in all."""
    known = {
        "peak_of": "process",
        "before_bytes": 0,
        "peak_bytes": 2**30,
        "saved_bytes": 100 * 2**20,
    }
    made = recorded(
        profiled=facts.profiled((), facts.graph((), partition=partition)),
        memory=MeasuredMemory(**known | {"eager_saved_bytes": None} | memory),
    )
    return made.replace(target=made.target.replace(call_options={"backward": backward}))


ADDMM = KernelTime(name="aten::addmm", kind="library", us=80.0, count=4)
FUSED = KernelTime(
    name="aten::_scaled_dot_product_efficient_attention", kind="library", us=90.0, count=1
)
CLONES = KernelTime(name="triton_poi_fused_clone_1", kind="generated", us=24.4, count=5)
GEMM = KernelTime(name="sgemm", kind="library", us=30.0, count=1, operations=("aten::mm",))
SOFTMAX = KernelTime(name="triton_red_fused__softmax_0", kind="generated", us=200.0, count=1)


TINY = {"library_us": 5.0, "generated_us": 10.0, "region_us": 70.0}
SLOW = share(
    call_us=600.0,
    library_us=300.0,
    generated_us=270.0,
    copy_us=8.0,
    region_us=20.0,
    largest=(SOFTMAX,),
)
FAST = share(call_us=520.0, library_us=508.0, generated_us=0.0, region_runs=0, region_us=0.0)
COPYING = share(device="cuda", copy_us=12.8, graph_input_copy_us=12.8, graph_launches=1)
COND = tuple(
    bypass("higher_order_operator", subject="cond", is_code_kept=False, compile_id=f"0/{n}")
    for n in (0, 1)
)
CALLS_F = Graph(compile_id="0/0", index=0, op_count=1, nodes=(node("model.net.f", 11, "x"),))
ELSEWHERE = product().replace(file="/site-packages/lib/net.py")

BYPASSES = get_args(CacheBypassKind)

FOUND = {
    "running the code outweighs its kernels": recorded(share(**TINY, outside_us=17.5, launches=3)),
    "the same on a GPU": recorded(share(device="cuda", **TINY)),
    "with CUDA graphs": with_graphs(kernels=share(device="cuda", **TINY)),
    "library calls": recorded(
        share(library_us=94.0, generated_us=3.0, region_us=3.0, largest=(ADDMM,))
    ),
    "library calls on a GPU": recorded(
        share(device="cuda", library_us=94.0, generated_us=3.0, region_us=3.0)
    ),
    "a skipped CUDA graph with its line": with_graphs(
        skipped=(skip("mutation", file=factories.FILE, line=7, compile_id="0/0"),) * 2
    ),
    **{
        f"an input that {target} writes to": writing(target)
        for target in ("add_", "operator.setitem")
    },
    **{
        f"no write by {target}": writing(target)
        for target in ("sin", "operator.invert", "__init__")
    },
    "no CUDA device": with_graphs(skipped=(skip("no_device"),)),
    "no CUDA device for max-autotune": with_graphs(skipped=(skip("no_device"),)).replace(
        target=factories.recording().target.replace(compile_arguments={"mode": "max-autotune"})
    ),
    "each reason by itself": with_graphs(
        skipped=tuple(map(skip, ("other", "mutation", "cpu_device", "mutation")))
    ),
    "operations that split a CUDA graph": with_graphs(
        left_out=(skip("cpu_device", file=factories.FILE, line=7), skip("other"))
    ),
    "copies into CUDA graphs": with_graphs(kernels=COPYING),
    "copies of inputs with names": with_graphs(
        kernels=COPYING, functions=(recorded_as(copied=(graph_input("y"), graph_input("x", 64))),)
    ),
    "copies of an input without one": with_graphs(
        kernels=COPYING,
        functions=(recorded_as(copied=(graph_input("y"), graph_input("tangents_1", source=None))),),
    ),
    "a CUDA graph for each of many sizes": with_graphs(
        functions=(recorded_as(sizes=8), recorded_as(sizes=20, recordings=0))
    ),
    "CUDA graphs that are recorded again": with_graphs(
        functions=(
            recorded_as(recordings=3, rerecordings=2, moved=(graph_input("weight"),)),
            recorded_as(recordings=2, rerecordings=1, phase="backward"),
            recorded_as(
                recordings=2,
                rerecordings=1,
                name="g",
                moved=(graph_input("primals_1", source=None),),
            ),
        )
    ),
    "kernels that are slower than those they replaced": recorded(SLOW, eager_kernels=FAST),
    "the same kernels on a GPU": recorded(
        SLOW.replace(device="cuda"), eager_kernels=FAST.replace(device="cuda")
    ),
    "kernels that only one side has": recorded(
        SLOW.replace(largest=(SOFTMAX, ADDMM, CLONES)),
        eager_kernels=FAST.replace(largest=(ADDMM, FUSED, GEMM)),
    ),
    "a graph that the caches leave out, with its line": recorded(
        cache_bypasses=(bypass("function", subject="net.f"),), graphs=(CALLS_F,)
    ),
    "a function within another one": recorded(
        cache_bypasses=(
            bypass("function", subject="net.f", reason="target <function made.<locals>.f at 0x7f>"),
        )
    ),
    "autocast in the compiled function": recorded(
        cache_bypasses=(bypass("function", subject="torch.amp.autocast_mode._enter_autocast"),)
    ),
    "a function under nonstrict_trace": recorded(
        cache_bypasses=(
            bypass(
                "function",
                subject="torch._dynamo.variables.torch.flat_apply_capture",
                reason="target <function _call_nonstrict_traceable_function.<locals>.flat_apply_capture at 0x7f>",
            ),
        )
    ),
    "graphs that are left out for one reason, and one for another": compiled_for(
        1.5, *COND, bypass("freezing")
    ),
    "graphs of which no time is known": compiled_for(None, *COND),
    **{
        f"left out: {kind}": recorded(cache_bypasses=(bypass(kind, is_code_kept=False),))
        for kind in BYPASSES
    },
    "float32 products": on_cuda(
        product(line=12), product("operator.matmul"), product("bmm"), product("torch.relu")
    ),
    "products in a file that nothing is known of": on_cuda(ELSEWHERE, ELSEWHERE),
    "convolutions": on_cuda(
        product("torch.conv2d"), product("torch.conv_transpose1d"), convolution_tf32=False
    ),
    "large cheap tensors that are kept": keeping(kept(20, layers=3)),
    "kept where random numbers are drawn": keeping(kept(60).replace(draws_random=True)),
    "kept beside a peak that matters": keeping(
        kept(60), peak_of="allocator", peak_bytes=500 * 2**20
    ),
}

NOT_FOUND = [
    recorded(),
    # A graph that no backend compiled.
    factories.recording(compiles=(factories.compiled(outcome="failed"),)).replace(cache_bypasses=(COND[0],)),
    recorded(share(), eager_kernels=share(region_runs=0)),
    recorded(
        share(library_us=None, generated_us=None, copy_us=None, launches=None, device="cuda", region_us=90.0),
        eager_kernels=share(),
    ),
    recorded(share(**TINY, outside_us=70.0)),
    recorded(share(**TINY | {"region_us": 40.0})),
    # Library calls of eager mode.
    recorded(share(library_us=94.0, generated_us=0.0, region_us=0.0, region_runs=0)),
    recorded(share(device="cuda", copy_us=9.0, graph_input_copy_us=9.0, graph_launches=1)),
    recorded(share(copy_us=40.0)),
    with_graphs(functions=(recorded_as(),)),
    recorded(SLOW, eager_kernels=share(call_us=600.0, library_us=550.0, region_runs=0)),
    *(
        on_cuda(product(value=value))
        for value in ("f16[8, 8] cuda:0", "bf16[8, 8] cuda:0", "f32[8, 8]", "f64[8, 8] cuda:0", "f32[8, 8] cuda:1",
                      "f32[8] xpu:0")
    ),
    on_cuda(product(), matmul_tf32=True),
    on_cuda(product("torch.conv2d")),
    on_cuda(product()).replace(float32_precision=None),
    keeping(kept(31)),
    keeping(kept(60, is_cheap=False)),
    keeping(kept(60, is_cheap=None, is_argument=True)),
    keeping(kept(60), saved_bytes=400 * 2**20),
    keeping(kept(60), saved_bytes=None),
    keeping(kept(60), backward=False),
    keeping(kept(60), peak_of="allocator"),
]  # fmt: skip


def test_what_is_found_in_hand_built_facts(snapshot):
    assert said(FOUND, "GD4", "GD5") == snapshot


def test_what_is_no_finding():
    assert [codes(facts) for facts in NOT_FOUND] == [[]] * len(NOT_FOUND)


def test_host_bound_call_gets_no_faster_product_advice():
    busy = share(device="cuda", library_us=80.0, generated_us=10.0)
    assert "GD510" in codes(on_cuda(product()).replace(kernels=busy))
    assert "GD510" not in codes(on_cuda(product()).replace(kernels=share(device="cuda", **TINY)))


_CALLS = """

def example_inputs():
    return inputs()

"""


def measured(code, folder, *, eager=False, is_profile=False):
    """A page's program with its kernels; in a profile with its memory, too. What needs gradients
    gets them."""
    folder.mkdir(parents=True)
    # A thread that waits for another one is at the mercy of what else the machine does.
    (folder / "snippet.py").write_text(f"{code}{_CALLS}torch.set_num_threads(1)\n")
    asked = re.search(r"^ARGUMENTS = (\[.*\])$", code, re.MULTILINE)
    options = json.loads(asked[1]) if asked else []
    given = {
        name.removeprefix("--"): value
        for name, value in zip(options[::2], options[1::2], strict=True)
    }
    spec = RunSpec(
        target=f"{folder / 'snippet.py'}:forward",
        **{"backend": "inductor", "backward": "requires_grad" in code, **given},
    )
    measures = Measured(kernels=True)
    if is_profile:
        (folder / "caches").mkdir()
        measures = Measured(kernels=True, memory=True, profile=str(folder / "caches"))
    plan = {
        **RunChange().plan(),
        "is_eager": True,
        "references": {},
        "outputs": str(folder / "outputs.pt"),
    }
    request = Request(
        spec, Request.of(spec).target, measured=measures, trial=plan if eager else None
    )
    (folder / "recording").mkdir()
    ended = record(request, folder / "recording", Setup(probe_python(), timeout_s=300))
    assert ended.reason == "finished", ended.message
    return read_recording(folder / "recording")


def is_run(example):
    """Skip what can't run on this machine."""
    torch = pytest.importorskip("torch")
    if "cuda" in example and not torch.cuda.is_available():
        pytest.skip("its example needs CUDA")


@pytest.mark.nightly
@pytest.mark.parametrize("rule", sorted(BELOW_DYNAMO - {"GD403", "GD506"}))
def test_the_page_is_true(rule, tmp_path):
    example, instead = (
        first_block(ALL_RULES[rule], section) for section in ("Example", "Use instead")
    )
    is_run(example)
    is_profile = rule in ("GD508", "GD509", "GD512")
    assert rule in codes(measured(example, tmp_path / "example", is_profile=is_profile))
    assert rule not in codes(measured(instead, tmp_path / "instead", is_profile=is_profile))


@pytest.mark.slow
def test_explain_sees_for_free_what_torch_says_below_dynamo(tmp_path, run_cli):
    example, instead = (
        first_block(ALL_RULES["GD403"], section) for section in ("Example", "Use instead")
    )

    def explained(code, *options):
        (tmp_path / "model.py").write_text(f"{code}{_CALLS}")
        process = run_cli(
            "explain", "model.py:forward", "--backend", "inductor", *options, "--format", "json"
        )
        assert process.returncode == 0, process.stderr
        return {finding["code"]: finding for finding in json.loads(process.stdout)["findings"]}

    assert explained(instead) == {}
    findings = explained(example, "--mode", "reduce-overhead")
    assert set(findings) == {"GD403", "GD504"}
    assert findings["GD403"]["location"]["line"] == 1 + example.splitlines().index(
        "    return smooth(x) + 1"
    )
    if not importlib.import_module("torch").cuda.is_available():
        assert (
            findings["GD504"]["message"]
            == "CUDA graphs were asked for, but there is no CUDA device"
        )


@pytest.mark.nightly
def test_the_page_on_slower_kernels_is_true(tmp_path):
    example, instead = (
        first_block(ALL_RULES["GD506"], section) for section in ("Example", "Use instead")
    )
    # Work of others only ever adds to a time, but to either one: the least of a few measurements is
    # what it takes.
    before = quickest(
        measured(example, tmp_path / f"eager-{number}", eager=True) for number in range(4)
    )
    now = quickest(measured(example, tmp_path / f"compiled-{number}") for number in range(4))
    assert before.kernels is not None
    assert "nothing_compiled" not in [gap.kind for gap in before.gaps]
    assert (before.kernels.region_runs, before.kernels.generated_us) == (0, 0.0)
    assert codes(now.replace(eager_kernels=before.kernels)) == ["GD506"]
    better = measured(instead, tmp_path / "instead")
    assert better.kernels is not None
    # The library's product takes a fifth of the time of Inductor's sum.
    assert better.kernels.library_us
    assert kernels_us(better) < kernels_us(now) / 2


def quickest(recordings):
    """The one whose kernels take the least time."""
    return min(recordings, key=kernels_us)


def kernels_us(recording):
    """What the kernels of a call take; it must be known."""
    assert recording.kernels is not None
    assert recording.kernels.kernels_us is not None
    return recording.kernels.kernels_us
