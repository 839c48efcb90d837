"""What the reader makes of records and events about what is below Dynamo."""

from graphdoctor.facts.base import values_of
from graphdoctor.facts.evidence import CacheAnswer
from graphdoctor.facts.recording import Graph, GraphInput
from graphdoctor.trace.events import Events
from graphdoctor.trace.inductor import bypass_kind, cache_use, cuda_graphs, skip_kind
from tests.each import for_each

FX = "fx_graph_cache"
AOT = "aotautograd_cache"


def answer(compile_id, cache, state, reason=None):
    return CacheAnswer(compile_id=compile_id, cache=cache, state=state, reason=reason)


@for_each(
    "records, expected",
    [
        ([], None),
        ([("0/0", AOT, "miss"), ("0/0", FX, "miss")], (0, 1, 0, ())),
        ([("0/0", FX, "hit"), ("0/0", AOT, "hit")], (1, 0, 0, ())),
        ([("0/0", AOT, "miss"), ("0/0", FX, "hit")], (1, 0, 0, ())),
        ([("0/0", AOT, "miss"), ("0/0", FX, "hit"), ("0/0", FX, "miss")], (0, 1, 0, ())),
        (
            [("0/0", FX, "hit"), ("0/0", AOT, "hit"), ("0/0", FX, "hit"), ("0/0", AOT, "hit")],
            (2, 0, 0, ()),
        ),
        (
            [("0/0", AOT, "miss"), ("0/0", FX, "miss"), ("0/0", AOT, "miss"), ("0/0", FX, "miss")],
            (0, 2, 0, ()),
        ),
        (
            [("0/0", AOT, "bypass", "a hook"), ("0/0", FX, "bypass", "a lambda")],
            (0, 0, 1, ("a hook", "a lambda")),
        ),
        ([("0/0", AOT, "bypass", "a hook"), ("0/0", FX, "hit")], (1, 0, 0, ())),
        (
            [("0/0", AOT, "bypass", "a hook"), ("1/0", AOT, "bypass", "a hook")],
            (0, 0, 2, ("a hook",)),
        ),
    ],
)
def test_each_graph_counts_once(records, expected):
    use = cache_use([answer(*record) for record in records])
    names = ("hits", "misses", "bypasses", "bypass_reasons")
    assert (use and tuple(values_of(use, *names).values())) == expected


REASONS = {
    'skipping cudagraphs due to mutated inputs (2 instances). Found from : \n   File "/p/m.py", line 5': "mutation",
    "skipping cudagraphs due to input storage mutation (1 instances)": "mutation",
    "skipping cudagraphs due to skipping cudagraphs due to cpu device (arg0_1)": "cpu_device",
    "skipping cudagraphs due to multiple devices: device(type='cuda', index=0), …": "several_devices",
    "skipping cudagraphs due to disabling cudagraphs due to incompatible op aten.nonzero.default": "incompatible_op",
    "skipping cudagraphs due to control flow operator: torch.cond.": "incompatible_op",
    "skipping cudagraphs due to graph with symbolic shapes inputs and config.triton.…=True. ": "dynamic_shapes",
    "skipping cudagraphs due to ['non-Tensor inputs']": "non_tensor_input",
    "skipping cudagraph due to function 3 exceeding max re-recording limit (=128) on …": "rerecording",
    "disabling cudagraphs due to override_cudagraphs annotation": "disabled",
    "skipping cudagraphs due to bisector": "other",
    "reason=cross-device ops, ir=DeviceCopy": "cpu_device",
    "reason=Switch ops, ir=Switch": "incompatible_op",
    "reason=cpu ops, ir=ComputedBuffer, fx=aten.add.Tensor(arg0_1, 1)": "cpu_device",
    "reason=unbacked binding ops, ir=FallbackKernel, fx=aten.nonzero.default(arg0_1)": "incompatible_op",
}
"""``torch/_inductor``, 2.11 to 2.15."""


@for_each("reason", REASONS)
def test_torchs_reasons_have_a_kind(reason):
    assert skip_kind(reason) == REASONS[reason]


def read(*, has_device, reason):
    skipped = [{"reason": reason, "compile_id": "0/0"}]
    event = {"event": "cuda_graphs", "has_device": has_device, "captured": 0, "skipped": skipped}
    graphs = cuda_graphs(Events([event]), ())
    assert graphs is not None
    return graphs.skipped[0]


def test_silently_skipped_graph_has_no_cuda_device():
    silent = read(has_device=False, reason=None)
    assert (silent.kind, silent.reason) == ("no_device", "there is no CUDA device")
    assert read(has_device=True, reason=None).kind == "cpu_graph"


def test_the_line_that_torch_points_to_is_read():
    stack = '   File "/p/main.py", line 9, in <module>\n    f(x)\n   File "/p/m.py", line 5, in f\n    x.add_(1)'
    words = "skipping cudagraphs due to mutated inputs (1 instances)"
    skip = read(has_device=True, reason=f"{words}. Found from : \n{stack}")
    assert (skip.kind, skip.reason) == ("mutation", words)
    assert (skip.file, skip.line, skip.compile_id) == ("/p/m.py", 5, "0/0")


def test_inputs_of_cuda_graphs_have_their_names_in_the_program():
    inputs = (
        GraphInput(name="s7", source=None, kind="symbol"),
        GraphInput(name="l_x_", source="L['x']", kind="tensor", shape=("s7", 4)),
        GraphInput(name="l_y_", source="L['y']", kind="tensor", shape=(4,)),
    )
    graphs = [Graph(compile_id="0/0", index=0, op_count=1, inputs=inputs)]
    shapes = {
        "arg1_1": [9, 4],
        "arg2_1": [5],
        "arg3_1": [4],
        "primals_3": [4],
        "tangents_1": [9, 4],
    }
    copied = [{"placeholder": name, "shape": shape, "bytes": 8} for name, shape in shapes.items()]
    function = {
        "compile_id": "0/0",
        "phase": "forward",
        "name": "partition_0",
        "sizes": 1,
        "recordings": 2,
        "rerecordings": 1,
        "copied": copied,
        "moved": copied[3:4],
        "mutated": ["primals_3"],
    }
    event = {
        "event": "cuda_graphs",
        "has_device": True,
        "captured": 1,
        "skipped": [],
        "functions": [function],
    }
    graphs_ = cuda_graphs(Events([event]), graphs)
    assert graphs_ is not None
    assert graphs_.functions is not None
    named = {copied.placeholder: copied.source for copied in graphs_.functions[0].copied}
    assert named == {
        "arg1_1": "L['x']",
        "arg2_1": None,
        "arg3_1": None,
        "primals_3": "L['y']",
        "tangents_1": None,
    }
    assert [moved.source for moved in graphs_.functions[0].moved] == ["L['y']"]
    assert graphs_.functions[0].mutated == ("L['y']",)
    assert graphs_.rerecordings == 1


def target(what, module, name):
    return f"Unsupported call_function target {what}. \n Function module: {module}, \nFunction name: {name}"


BYPASSES = {
    target("autograd_function_apply", "torch.ops.higher_order", "autograd_function_apply"): (
        "autograd_function",
        None,
    ),
    target("<class 'FunctionCtx'>", "torch.autograd.function", "FunctionCtx"): (
        "autograd_function",
        None,
    ),
    target("<function f at 0x7f>", "model.net", "f"): ("function", "model.net.f"),
    target("cond", "torch.ops.higher_order", "cond"): ("higher_order_operator", "cond"),
    "Can't cache HigherOrderOperator: cond": ("higher_order_operator", "cond"),
    "Unsupported call_function target <function f at 0x7f>": ("function", "f"),
    "Unsupported call_method target x. \nMethod module: None, \nMethod name: None": (
        "method",
        None,
    ),
    "SAC context_fn does not have a cache_hash attribute. To enable caching with …": (
        "checkpoint_policy",
        None,
    ),
    "Unsupported post grad custom pass": ("custom_pass", None),
    "Unsupported _pre_fusion_custom_pass": ("custom_pass", None),
    "CustomKnapsackSolver.uuid() returned None, bypassing cache": ("memory_budget", None),
    "activation_memory_budget_solver is a raw callable without uuid() method, bypassing cache. Use "
    "CustomKnapsackSolver for cache support.": ("memory_budget", None),
    "Cannot cache a graph with freezing enabled": ("freezing", None),
    "Skipping graph with frozen constants": ("freezing", None),
    "FX graph cache is not enabled": ("disabled", None),
    "Cannot produce stable cache key for unpicklable type Handle.Inner": (
        "unpicklable",
        "Handle.Inner",
    ),
    "Unable to pickle non-standard op: mine::op": ("unpicklable", "mine::op"),
    "mkldnn tensors unpickleable": ("unpicklable", None),
    "compiler bisector enabled": ("other", None),
}
"""``torch/_functorch/_aot_autograd/autograd_cache.py`` and ``torch/_inductor/codecache.py``,
2.13."""


@for_each("reason", BYPASSES)
def test_bypass_reasons_have_kind_and_names(reason):
    assert bypass_kind(reason) == BYPASSES[reason]
