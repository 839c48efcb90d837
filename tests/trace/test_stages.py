"""Graphs stage by stage, and generated code: from made-up records, from real logs, and from the
probe."""

import json
from dataclasses import replace

from graphdoctor.facts.picture import FusedKernel
from graphdoctor.facts.recording import Environment, Graph, GraphNode
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.stages import Stages, kernels_of
from tests.factories import recording

PRINTED = (
    "class G(torch.nn.Module):\n    def forward(self, x):\n        a = x + 1\n        return (a,)\n"
)
NODES = (
    GraphNode(name="x", opcode="placeholder", target="L_x_", args="", kwargs="", inputs=()),
    GraphNode(
        name="mm",
        opcode="call_function",
        target="torch.ops.aten.mm.default",
        args="x",
        kwargs="",
        inputs=("x",),
        module="L['self'].blocks.0.seq.1",
    ),
    GraphNode(
        name="output", opcode="output", target="output", args="(mm,)", kwargs="", inputs=("mm",)
    ),
)


def record(kind, compile_id, aot_id="", payload=None):
    frame, count = map(int, compile_id.split("/"))
    text = PRINTED if payload is None and kind != "graphdoctor_graph" else payload or "{}"
    text = f"# AOT ID: ['{aot_id}']\n" if aot_id else text
    value = {"filename": "/cache/code.py"} if kind == "inductor_output_code" else {}
    metadata = {kind: value, "frame_id": frame, "frame_compile_id": count}
    return Record(kind, value, metadata, text)


def taken(*made, extra=frozenset()):
    """Records taken in, of kind, compile id, and for generated code its AOT id; those at the places
    in ``extra`` belong to repetitions."""
    intake = Intake(Environment())
    stages = Stages()
    for place, values in enumerate(made):
        record_ = replace(record(*values.split()), is_extra=place in extra)
        if not record_.is_extra:
            intake.add(record_)
        stages.add(record_)
    return stages


def graph(index, compile_id, nodes=NODES, code=None):
    return Graph(compile_id=compile_id, index=index, op_count=1, nodes=nodes, code=code)


def merged(*graphs):
    return recording().replace(graphs=graphs)


def places(stages, recorded):
    return [
        f"{stage.compile_id} {stage.stage} {stage.graph_index} {stage.of}"
        for stage in stages.graphs(recorded, 0)
    ]


def test_graphs_are_in_log_order_with_their_parents():
    stages = taken(
        "dynamo_output_graph 0/0",
        "aot_joint_graph 0/0",
        "aot_forward_graph 0/0",
        "aot_backward_graph 0/0",
        "inductor_post_grad_graph 0/0",
        "inductor_output_code 0/0 0_forward",
        "graphdoctor_graph 0/0",
        "dynamo_output_graph 1/0",
        "aot_inference_graph 1/0",
        "graphdoctor_graph 1/0",
        # The backward graph is lowered when it runs for the first time.
        "inductor_post_grad_graph 0/0",
        "inductor_output_code 0/0 0_backward",
    )
    recorded = merged(graph(0, "0/0"), graph(1, "1/0"))

    assert places(stages, recorded) == [
        "0/0 dynamo 0 None",
        "0/0 joint 0 None",
        "0/0 forward 0 None",
        "0/0 backward 0 None",
        "0/0 post_grad 0 forward",
        "1/0 dynamo 1 None",
        "1/0 inference 1 None",
        "0/0 post_grad 0 backward",
    ]
    assert [
        (code.compile_id, code.stage, code.graph_index, code.file)
        for code in stages.generated(recorded, 0)
    ] == [("0/0", "forward", 0, "/cache/code.py"), ("0/0", "backward", 0, "/cache/code.py")]


DYNAMO = "dynamo_output_graph 0/0"
OURS = "graphdoctor_graph 0/0"


def test_restarted_attempt_and_repeated_backend_make_other_graphs():
    again = taken(*[DYNAMO, "aot_inference_graph 0/0", OURS] * 2, OURS)
    recorded = merged(*(graph(number, "0/0") for number in range(3)))

    assert [graph.graph_index for graph in again.graphs(recorded, 0)] == [0, 0, 1, 1, 2]


def test_what_our_own_repetitions_make_is_left_out():
    records = (DYNAMO, "aot_forward_graph 0/0", "inductor_output_code 0/0 0_forward")
    stages = taken(*records, "dynamo_output_graph 1/0", extra=frozenset({0, 1, 2}))

    assert places(stages, merged(graph(0, "1/0"))) == ["1/0 dynamo 0 None"]
    assert not list(stages.generated(merged(graph(0, "1/0")), 0))


def test_recorded_nodes_spell_modules_as_guards_do():
    (stage,) = taken("dynamo_output_graph 0/0").graphs(merged(graph(0, "0/0")), 0)

    assert [(node.name, node.target, node.inputs, node.module) for node in stage.nodes] == [
        ("x", "L_x_", (), None),
        ("mm", "aten.mm.default", ("x",), "self.blocks[0].seq[1]"),
        ("output", "", ("mm",), None),
    ]


def test_kernels_are_those_defined_then_the_library_functions_called():
    code = """\
# AOT ID: ['3_inference']
aten = torch.ops.aten
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
triton_poi_fused_relu_1 = async_compile.triton('triton_poi_fused_relu_1', '''
    # extern_kernels.nothing(1)
''', device_str='cuda')
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*'], r'''
    "\\d"
''')
async_compile.wait(globals())

def call(args):
    extern_kernels.mm(arg0, reinterpret_tensor(arg1, (8, 8), (1, 8), 0), out=buf0)
    triton_poi_fused_relu_1.run(buf0, 64, stream=stream0)
    buf1 = torch.ops.aten.sort.stable(aten.view.dtype(buf0))[0]
    extern_kernels.mm(buf1, arg1, out=buf2)

def benchmark_compiled_module(times=10, repeat=10):
    arg0 = torch.ops.aten.rand(8)
"""
    assert kernels_of(code) == (
        "triton_poi_fused_relu_1",
        "cpp_fused_add_0",
        "extern_kernels.mm",
        "torch.ops.aten.sort.stable",
        "aten.view.dtype",
    )
    assert kernels_of("not python") == ()


def test_probe_lines_are_no_program_lines():
    stages = taken("dynamo_output_graph 0/0")
    line = "# File: /site-packages/graphdoctor/probe/target/calling.py:27 in forward, code: return function()"
    code = PRINTED.replace("        a = ", f"        {line}\n        a = ")
    (stage,) = stages.graphs(merged(graph(0, "0/0", None, code)), 0)
    assert [(node.name, node.file) for node in stage.nodes] == [
        ("x", None),
        ("a", None),
        ("output", None),
    ]


def provenance(kind, payload):
    return record(kind, "0/0", payload=json.dumps(payload))


def inductor_graph(kernels):
    ours = {
        "operations": [{"name": name} for name in "abc"],
        "kernels": [{"name": name, "operations": numbers} for name, numbers in kernels.items()],
    }
    return provenance("graphdoctor_inductor_graph", ours)


def test_what_was_fused_belongs_to_the_code_after_it():
    stages = taken("dynamo_output_graph 0/0", "inductor_post_grad_graph 0/0")
    stages.add(inductor_graph({"cpp_0": [0, 1], "extern_kernels.mm": [2]}))
    stages.add(record("inductor_output_code", "0/0", "0_forward"))
    torchs = {
        "preToPost": {"linear": ["mm", "add"]},
        "postToPre": {"mm": ["linear"], "add": ["linear"]},
    }
    stages.add(provenance("inductor_provenance_tracking_node_mappings", torchs))
    stages.add(inductor_graph({"cpp_1": [2]}))
    stages.add(record("inductor_output_code", "0/0", "0_backward"))
    # Of a backward, torch's record has the version alone (2.13).
    stages.add(provenance("inductor_provenance_tracking_node_mappings", {"version": 2.0}))
    forward, backward = stages.generated(merged(graph(0, "0/0")), 0)
    assert forward.fused == (
        FusedKernel(name="cpp_0", nodes=("a", "b")),
        FusedKernel(name="extern_kernels.mm", nodes=("c",)),
    )
    assert forward.lowered_from == {"linear": ("mm", "add")}
    assert (backward.fused, backward.lowered_from) == (
        (FusedKernel(name="cpp_1", nodes=("c",)),),
        {},
    )
    # Code from a cache has neither.
    cached = taken(DYNAMO, "inductor_output_code 0/0 0_inference")
    cached.add(provenance("inductor_provenance_tracking_node_mappings", None))
    (code,) = cached.generated(merged(graph(0, "0/0")), 0)
    assert (code.fused, code.lowered_from) == (None, {})
