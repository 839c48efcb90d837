"""What became of each graph from stage to stage, from hand-built pictures, and of a real program."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from graphdoctor.facts.picture import FusedKernel, GeneratedCode, Picture, SourceText, StageGraph, StageNode
from graphdoctor.facts.stages import GraphStages, StageChange, StageReport
from graphdoctor.rules.diagnosis.stages import graph_stages, selected
from tests import factories
from tests.probe.test_wire import recorded_in

ROOT = Path("/project")
CODE = "# AOT ID: ['0_inference']\n"


def node(name: str, target: str, line: int | None = 1, *inputs: str) -> StageNode:
    file = None if line is None else factories.FILE
    return StageNode(name=name, opcode="call_function", target=target, inputs=inputs, file=file, line=line)


def argument(name: str) -> StageNode:
    return StageNode(name=name, opcode="placeholder", target=name, value="f32[2]")


def graph(stage: str, *nodes: StageNode, of: str | None = None, index: int = 0) -> StageGraph:
    return StageGraph(compile_id="0/0", stage=stage, graph_index=index, of=of, nodes=nodes)


def code(**values: object) -> GeneratedCode:
    return GeneratedCode(**{"compile_id": "0/0", "stage": "inference", "graph_index": 0, "code": CODE, **values})


def made(*graphs: StageGraph, generated: tuple[GeneratedCode, ...] = ()) -> GraphStages:
    files = (SourceText(file=factories.FILE, text="  y = norm(x)\nz = y + 1\n"),)
    (found,) = graph_stages(factories.recording(), Picture(files=files, graphs=graphs, generated=generated), ROOT)
    return found


def report(found: GraphStages, stage: str, of: str | None = None) -> StageReport:
    (wanted,) = (each for each in found.stages if (each.stage, each.of) == (stage, of))
    return wanted


def changes(found: StageReport) -> list[tuple[tuple[str, ...], tuple[str, ...], int]]:
    return [(change.before, change.after, change.count) for change in found.changes]


def test_torchs_mapping_says_what_came_of_two_operations_on_one_line():
    found = made(
        graph("dynamo", node("norm", "torch.nn.functional.layer_norm"), node("act", "torch._C._nn.gelu")),
        graph(
            "inference",
            node("var", "aten.var_mean.correction"),
            node("mul", "aten.mul.Tensor"),
            node("erf", "aten.erf"),
        ),
        generated=(code(lowered_from={"norm": ("var", "mul"), "act": ("erf",)}),),
    )
    inference = report(found, "inference")
    assert (inference.compared_with, inference.kept, inference.operations) == ("dynamo", 0, 3)
    assert changes(inference) == [(("layer_norm",), ("var_mean", "mul"), 1), (("gelu",), ("erf",), 1)]
    assert [(place.file, place.line) for place in inference.changes[0].places] == [("model.py", 1)]


def test_without_a_mapping_operations_of_a_line_belong_together():
    found = made(
        graph("dynamo", node("a", "torch.a"), node("b", "torch.b"), node("c", "torch.c", 2)),
        graph("inference", node("x", "aten.x"), node("y", "aten.y.default"), node("c", "aten.c.default", 2)),
    )
    assert changes(report(found, "inference")) == [(("a", "b"), ("x", "y"), 1)]
    assert report(found, "inference").kept == 1


def test_a_link_to_another_line_is_what_a_later_pass_left():
    found = made(
        graph("dynamo", node("view", "view"), node("drop", "torch.dropout", 2)),
        graph("inference", node("view_1", "aten.view.default"), node("clone", "aten.clone.default", 2)),
        generated=(code(lowered_from={"view": ("view_1",), "drop": ("view_1",)}),),
    )
    assert changes(report(found, "inference")) == [(("dropout",), ("clone",), 1)]


def test_an_operation_without_a_link_is_the_one_of_its_name_in_its_line():
    found = made(
        graph("dynamo", node("n", "torch.nonzero"), node("s", "aten.sym_size.int"), node("g", "operator.ge")),
        graph("inference", node("n1", "aten.nonzero.default"), node("s1", "aten.sym_size.int"), node("g1", "aten.x")),
        generated=(code(lowered_from={"n": ("n1", "s1")}),),
    )
    inference = report(found, "inference")
    assert (changes(inference), inference.kept) == ([(("ge",), ("x",), 1)], 2)


def test_a_line_that_runs_again_changes_again():
    found = made(
        graph("dynamo", node("n", "torch.norm"), node("n_1", "torch.norm")),
        graph("inference", *(node(f"{name}_{n}", f"aten.{name}.default") for n in (0, 1) for name in ("var", "mul"))),
    )
    assert changes(report(found, "inference")) == [(("norm",), ("var", "mul"), 2)]


def test_operations_can_be_gone_and_new():
    found = made(
        graph("inference", node("a", "aten.a"), node("view", "aten.view.default"), node("b", "aten.b", None)),
        graph(
            "post_grad",
            node("view", "aten.reshape.default"),
            node("b", "aten.b", None),
            node("n", "mylib.n.default", None),
            of="inference",
        ),
    )
    after = report(found, "post-grad", "inference")
    assert (after.compared_with, after.kept) == ("inference", 1)
    assert changes(after) == [(("a",), (), 1), (("view",), ("reshape",), 1), ((), ("mylib.n",), 1)]


def trained() -> GraphStages:
    """A joint graph whose backward computes ``erf`` again; the joint graph's copy of it is merged."""
    ahead = (argument("w"), node("mm", "aten.mm"), node("erf", "aten.erf"), node("out", "aten.out"))
    back = (argument("w"), argument("mm"), node("erf", "aten.erf"), node("grad", "aten.grad"))
    return made(
        graph("dynamo", node("linear", "torch.linear"), node("erf_", "torch.erf"), node("o", "torch.out")),
        graph("joint", *ahead, node("erf_1", "aten.erf"), node("grad", "aten.grad")),
        graph("forward", *ahead),
        graph("backward", *back),
        graph("post_grad", *back, of="backward"),
        generated=(code(stage="backward"), code(stage="forward", lowered_from={"linear": ("mm",), "erf_": ("erf",)})),
    )


def test_a_joint_graph_is_compared_without_what_only_its_backward_has():
    found = trained()
    assert [(each.stage, each.of) for each in found.stages] == [
        ("dynamo", None),
        ("joint", None),
        ("forward", None),
        ("fusion", "forward"),
        ("backward", None),
        ("post-grad", "backward"),
        ("fusion", "backward"),
    ]
    joint = report(found, "joint")
    assert (joint.operations, joint.of_backward, joint.kept) == (5, 1, 2)
    assert changes(joint) == [(("linear",), ("mm",), 1)]


def test_what_the_forward_keeps_and_the_backward_computes_again():
    forward, backward = report(trained(), "forward"), report(trained(), "backward")
    assert forward.saved is not None
    assert [(value.name, value.value, value.is_input) for value in forward.saved] == [
        ("w", "f32[2]", True),
        ("mm", None, False),
    ]
    assert forward.changes == (StageChange(before=("erf",), after=(), count=1, places=forward.changes[0].places),)
    assert backward.recomputed == ("erf",)
    assert (backward.compared_with, backward.kept) == ("joint", 2)


def test_each_kernel_has_its_operations_in_the_order_of_the_graph_and_its_lines():
    fused = (FusedKernel(name="cpp_0", nodes=("b", "a")), FusedKernel(name="extern_kernels.mm", nodes=("mm", "?")))
    found = made(
        graph(
            "post_grad",
            node("a", "aten.a.default"),
            node("b", "aten.b.default", 2),
            node("mm", "aten.mm.default"),
            node("v", "aten.view.default"),
            node("g", "operator.getitem"),
            of="inference",
        ),
        generated=(code(fused=fused, file="/cache/code.py", kernels=("cpp_0", "extern_kernels.mm")),),
    )
    fusion = report(found, "fusion", "inference")
    assert fusion.kernels is not None
    assert (fusion.operations, fusion.unfused, fusion.file) == (2, ("view",), "/cache/code.py")
    assert [(kernel.nodes, kernel.operations) for kernel in fusion.kernels] == [
        (("a", "b"), ("a", "b")),
        (("mm", "?"), ("mm",)),
    ]
    assert [place.line for place in fusion.kernels[0].places] == [1, 2]


def test_kernels_that_torch_noted_nothing_of_are_unknown():
    found = made(graph("post_grad", node("a", "aten.a"), of="inference"), generated=(code(kernels=("cpp_0",)),))
    fusion = report(found, "fusion", "inference")
    assert (fusion.operations, fusion.kernels, fusion.unfused, fusion.kernel_names) == (None, None, None, ("cpp_0",))


def test_parts_of_one_graph_are_not_compared_with_all_of_it():
    """DDP's optimizer cuts a graph of Dynamo's; the parts are in the order of the log."""
    found = made(
        graph("dynamo", node("a", "torch.a"), node("b", "torch.b")),
        graph("inference", node("a", "aten.a")),
        graph("inference", node("b", "aten.b")),
    )
    assert [(each.stage, each.compared_with) for each in found.stages] == [
        ("dynamo", None),
        ("inference", None),
        ("inference", None),
    ]


def test_lines_have_their_source_and_paths_are_relative():
    found = made(graph("dynamo", node("a", "torch.a"), node("b", "torch.b", 2), node("c", "torch.c", 9)))
    assert [(line.file, line.line, line.text) for line in found.lines] == [
        ("model.py", 1, "y = norm(x)"),
        ("model.py", 2, "z = y + 1"),
    ]
    assert {each.file for each in found.stages[0].nodes} == {"model.py"}


def test_some_stages_of_some_graphs():
    found = trained()
    (kept,) = selected([found], stages=("joint", "fusion"), compile_ids=("0/0",))
    assert [report.stage for report in kept.stages] == ["joint", "fusion", "fusion"]
    assert selected([found], compile_ids=("1/0",)) == ()


PROGRAM = """import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.up = torch.nn.Linear(64, 8)

    def forward(self, x):
        y = self.norm(x)
        return torch.relu(self.up(y))

model = Net()

def example_inputs():
    return (torch.ones(8, 64),)
"""


@pytest.mark.slow
def test_the_stages_of_a_real_program(tmp_path, run_cli):
    (tmp_path / "model.py").write_text(PROGRAM)
    # Twice, because torch logs less of what it takes from its caches.
    for number in (1, 2):
        process = run_cli("explain", "model.py", "--stages", "--backward", "-o", f"{number}.json")
        assert process.returncode == 0, process.stderr
    folder = tmp_path / ".graphdoctor"
    _, artifacts = recorded_in(folder / (folder / "last").read_text().strip())
    assert "graphdoctor_inductor_graph" in artifacts
    (graph,) = json.loads((tmp_path / "2.json").read_text())["stages"]
    assert (graph["function"], graph["place"]["line"]) == ("Net.forward", 9)
    stages = {(found["stage"], found["of"]): found for found in graph["stages"]}
    assert list(stages) == [
        ("dynamo", None),
        ("joint", None),
        ("forward", None),
        ("post-grad", "forward"),
        ("fusion", "forward"),
        ("backward", None),
        ("post-grad", "backward"),
        ("fusion", "backward"),
    ]
    assert stages["dynamo", None]["operations"] == 3
    decomposed = {tuple(change["before"]): change["after"] for change in stages["joint", None]["changes"]}
    assert decomposed["layer_norm",][0] == "var_mean"
    assert decomposed["layer_norm",].count("mul") == 2
    assert [line["text"] for line in graph["lines"]] == ["y = self.norm(x)", "return torch.relu(self.up(y))"]
    for of in ("forward", "backward"):
        fusion = stages["fusion", of]
        names = {kernel["name"] for kernel in fusion["kernels"]}
        # What the code itself runs, without what we read of it.
        calls = re.findall(r"^\s+(?:\w+ = )?((?:cpp_fused\w+|extern_kernels\.\w+))\(", fusion["code"], re.MULTILINE)
        assert sorted(calls) == sorted(kernel["name"] for kernel in fusion["kernels"]), of
        assert names == set(fusion["kernel_names"])
        assert all(kernel["nodes"] for kernel in fusion["kernels"])
        assert {place["file"] for kernel in fusion["kernels"] for place in kernel["places"]} == {"model.py"}
    report = json.loads((tmp_path / "2.json").read_text())
    assert report["recording"]["target"]["compile_arguments"]["backend"] == "inductor"
