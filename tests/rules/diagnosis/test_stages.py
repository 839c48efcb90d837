"""What became of each graph from stage to stage, from hand-built pictures, and of a real
program."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from graphdoctor.facts.picture import (
    FusedKernel,
    GeneratedCode,
    Picture,
    SourceText,
    StageGraph,
    StageNode,
)
from graphdoctor.rules.diagnosed import StagesAsked, chosen_stages
from graphdoctor.rules.diagnosis.stages import graph_stages
from tests import factories
from tests.probe.test_wire import recorded_in
from tests.sections import texts_beside

ROOT = Path("/project")
CODE = "# AOT ID: ['0_inference']\n"


def node(name, target, line=1, *inputs):
    file = None if line is None else factories.FILE
    return StageNode(
        name=name, opcode="call_function", target=target, inputs=inputs, file=file, line=line
    )


def argument(name):
    return StageNode(name=name, opcode="placeholder", target=name, value="f32[2]")


def graph(stage, *nodes, of=None, index=0):
    return StageGraph(compile_id="0/0", stage=stage, graph_index=index, of=of, nodes=nodes)


def code(**values):
    return GeneratedCode(
        **{"compile_id": "0/0", "stage": "inference", "graph_index": 0, "code": CODE, **values}
    )


def made(*graphs, generated=()):
    files = (SourceText(file=factories.FILE, text="  y = norm(x)\nz = y + 1\n"),)
    (found,) = graph_stages(
        factories.recording(), Picture(files=files, graphs=graphs, generated=generated), ROOT
    )
    return found


def said(found):
    for each in found.stages:
        yield f"{each.stage}{f' of {each.of}' if each.of else ''}: {each.operations} operations"
        if each.compared_with:
            yield f"    of {each.compared_with}: {each.kept} kept"
        for one in each.changes:
            places = [f"{place.file}:{place.line}" for place in one.places]
            yield f"    {one.count} times {one.before} -> {one.after} at {places}"
        facts = {
            "of the backward": each.of_backward,
            "saved": each.saved
            and [(value.name, value.value, value.is_input) for value in each.saved],
            "recomputed": each.recomputed,
            "kernels": each.kernels
            and [
                (one.nodes, one.operations, [place.line for place in one.places])
                for one in each.kernels
            ],
            "names of kernels": each.kernel_names,
            "unfused": each.unfused,
            "file": each.file,
            "files of nodes": sorted({one.file for one in each.nodes if one.file}),
        }
        yield from (f"    {name}: {value}" for name, value in facts.items() if value)
    yield f"lines: {[(line.file, line.line, line.text) for line in found.lines]}"


def trained():
    """A joint graph whose backward computes ``erf`` again; the joint graph's copy of it is
    merged."""
    ahead = (argument("w"), node("mm", "aten.mm"), node("erf", "aten.erf"), node("out", "aten.out"))
    back = (argument("w"), argument("mm"), node("erf", "aten.erf"), node("grad", "aten.grad"))
    return made(
        graph(
            "dynamo",
            node("linear", "torch.linear"),
            node("erf_", "torch.erf"),
            node("o", "torch.out"),
        ),
        graph("joint", *ahead, node("erf_1", "aten.erf"), node("grad", "aten.grad")),
        graph("forward", *ahead),
        graph("backward", *back),
        graph("post_grad", *back, of="backward"),
        generated=(
            code(stage="backward"),
            code(stage="forward", lowered_from={"linear": ("mm",), "erf_": ("erf",)}),
        ),
    )


FUSED = (
    FusedKernel(name="cpp_0", nodes=("b", "a")),
    FusedKernel(name="extern_kernels.mm", nodes=("mm", "?")),
)
CASES = {
    "torch's mapping says what came of two operations on one line": made(
        graph("dynamo", node("norm", "torch.nn.functional.layer_norm"), node("act", "torch._C._nn.gelu")),
        graph("inference", node("var", "aten.var_mean.x"), node("mul", "aten.mul.Tensor"), node("erf", "aten.erf")),
        generated=(code(lowered_from={"norm": ("var", "mul"), "act": ("erf",)}),),
    ),
    "without a mapping, operations of a line belong together": made(
        graph("dynamo", node("a", "torch.a"), node("b", "torch.b"), node("c", "torch.c", 2)),
        graph("inference", node("x", "aten.x"), node("y", "aten.y.default"), node("c", "aten.c.default", 2)),
    ),
    "a link to another line is what a later pass left": made(
        graph("dynamo", node("view", "view"), node("drop", "torch.dropout", 2)),
        graph("inference", node("view_1", "aten.view.default"), node("clone", "aten.clone.default", 2)),
        generated=(code(lowered_from={"view": ("view_1",), "drop": ("view_1",)}),),
    ),
    "an operation without a link is the one of its name in its line": made(
        graph("dynamo", node("n", "torch.nonzero"), node("s", "aten.sym_size.int"), node("g", "operator.ge")),
        graph("inference", node("n1", "aten.nonzero.default"), node("s1", "aten.sym_size.int"), node("g1", "aten.x")),
        generated=(code(lowered_from={"n": ("n1", "s1")}),),
    ),
    "a line that runs again changes again": made(
        graph("dynamo", node("n", "torch.norm"), node("n_1", "torch.norm")),
        graph("inference", *(node(f"{name}_{n}", f"aten.{name}.default") for n in (0, 1) for name in ("var", "mul"))),
    ),
    "operations can be gone and new": made(
        graph("inference", node("a", "aten.a"), node("view", "aten.view.default"), node("b", "aten.b", None)),
        graph("post_grad", node("view", "aten.reshape.default"), node("b", "aten.b", None),
              node("n", "mylib.n.default", None), of="inference"),
    ),
    "a joint graph, what the forward keeps, and what the backward computes again": trained(),
    "each kernel has its operations in the order of the graph, and its lines": made(
        graph("post_grad", node("a", "aten.a.default"), node("b", "aten.b.default", 2), node("mm", "aten.mm.default"),
              node("v", "aten.view.default"), node("g", "operator.getitem"), of="inference"),
        generated=(code(fused=FUSED, file="/cache/code.py", kernels=("cpp_0", "extern_kernels.mm")),),
    ),
    "kernels that torch noted nothing of are unknown": made(
        graph("post_grad", node("a", "aten.a"), of="inference"), generated=(code(kernels=("cpp_0",)),)
    ),
    # DDP's optimizer cuts a graph of Dynamo's; the parts are in the order of the log.
    "parts of one graph are not compared with all of it": made(
        graph("dynamo", node("a", "torch.a"), node("b", "torch.b")),
        graph("inference", node("a", "aten.a")),
        graph("inference", node("b", "aten.b")),
    ),
    "lines have their source": made(
        graph("dynamo", node("a", "torch.a"), node("b", "torch.b", 2), node("c", "torch.c", 9))
    ),
}  # fmt: skip


def test_what_became_of_each_graph(snapshot):
    assert (
        "\n".join(line for name, found in CASES.items() for line in (f"# {name}", *said(found)))
        == snapshot
    )


def test_some_stages_of_some_graphs():
    found = trained()
    other = found.replace(compile_id="1/0")
    (kept,) = chosen_stages((found, other), StagesAsked(("joint", "fusion"), ("0/0",)))
    assert [report.stage for report in kept.stages] == ["joint", "fusion", "fusion"]


(PROGRAM,) = texts_beside(__file__)


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
    decomposed = {
        tuple(change["before"]): change["after"] for change in stages["joint", None]["changes"]
    }
    assert decomposed["layer_norm",][0] == "var_mean"
    assert decomposed["layer_norm",].count("mul") == 2
    assert [line["text"] for line in graph["lines"]] == [
        "y = self.norm(x)",
        "return torch.relu(self.up(y))",
    ]
    for of in ("forward", "backward"):
        fusion = stages["fusion", of]
        names = {kernel["name"] for kernel in fusion["kernels"]}
        # What the code itself runs, without what we read of it.
        calls = re.findall(
            r"^\s+(?:\w+ = )?((?:cpp_fused\w+|extern_kernels\.\w+))\(", fusion["code"], re.MULTILINE
        )
        assert sorted(calls) == sorted(kernel["name"] for kernel in fusion["kernels"]), of
        assert names == set(fusion["kernel_names"])
        assert all(kernel["nodes"] for kernel in fusion["kernels"])
        assert {place["file"] for kernel in fusion["kernels"] for place in kernel["places"]} == {
            "model.py"
        }
    report = json.loads((tmp_path / "2.json").read_text())
    assert report["recording"]["target"]["compile_arguments"]["backend"] == "inductor"
