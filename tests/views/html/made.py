"""Reports that no run made: what a real one holds rarely, in extremes, or never on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphdoctor.facts.diagnosis import Diagnosis, Result
from graphdoctor.facts.evidence import LogEvidence
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.guards import GuardNode, Guards, GuardSet
from graphdoctor.facts.picture import (
    GeneratedCode,
    Lane,
    Phase,
    Picture,
    Segment,
    SourceText,
    Stage,
    StageGraph,
    StageNode,
)
from graphdoctor.facts.recording import Call, CallError, Compile, Environment, GraphInput, Recording
from graphdoctor.views.formats import DIAGNOSIS
from tests.factories import (
    FILE,
    PRINT,
    change,
    compiled,
    diagnosed,
    entry,
    frame,
    graph,
    recompiled,
    record,
    recording,
)
from tests.studies.bundle.filled import filled
from tests.views.outputs import in_file, page_of

ROOT = Path("/project")
TEXT = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.scale = 2

    def forward(self, x):
        x = self.fc(x).sin()
        print("x")
        return x * self.scale
"""
KERNEL = """\
cpp_fused_sin_0 = async_compile.cpp_pybinding(['const float*', 'float*'], '''
extern "C" void kernel(const float* in_ptr0, float* out_ptr0) {}
''')
def call(args):
    extern_kernels.addmm(arg2_1, arg0_1, out=buf0)
"""
EDIT = """\
--- a/model.py
+++ b/model.py
@@ -10,4 +10,4 @@ class Net(torch.nn.Module):
     def forward(self, x):
         x = self.fc(x).sin()
-        print("x")
+        pass
         return x * self.scale
"""


def written(folder: Path, facts: Recording | Diagnosis, shown: Picture, **options: Any) -> Path:
    """The page of a recording or of what is said of it, in a file."""
    diagnosis = diagnosed(facts) if isinstance(facts, Recording) else facts
    return in_file(folder, render_page(diagnosis, shown, root=ROOT, **options))


def render_page(
    diagnosis: Diagnosis, picture: Picture | None, *, root: Path, has_source: bool = True
) -> str:
    return page_of(DIAGNOSIS, Result(diagnosis, picture), root=root, has_source=has_source)


def node(name: str, *inputs: str, target: str = "aten.sin.default", **facts: Any) -> StageNode:
    """One node; a placeholder when it takes nothing and is named so."""
    opcode = (
        "output"
        if name == "output"
        else "placeholder"
        if name.startswith("arg")
        else "call_function"
    )
    return StageNode(name=name, opcode=opcode, target=target, inputs=inputs, **facts)


def chain(count: int, *, per_block: int | None = None) -> tuple[StageNode, ...]:
    """A graph in which each node takes the one before.

    Args:
        count: Nodes, the argument and the output included.
        per_block: So many neighbours are of one module; None for nodes of which no module is known.
    """
    nodes = [node("arg0")]
    for number in range(1, count - 1):
        module = None if per_block is None else f"self.blocks[{number // per_block}]"
        before = nodes[-1].name
        nodes.append(node(f"op{number}", before, target="torch.sin", value="f32[8]", module=module))
    return (*nodes, node("output", nodes[-1].name))


def stage_graph(nodes: tuple[StageNode, ...], stage: Stage = "dynamo", **facts: Any) -> StageGraph:
    return StageGraph(compile_id="0/0", stage=stage, graph_index=0, nodes=nodes, **facts)


def lowered() -> tuple[Recording, Picture]:
    """One graph at every stage down to Inductor's code, in the order of a log: one half of it, then
    the other."""
    small = (
        node("arg0", value="f32[8]"),
        node("sin", "arg0", value="f32[8]"),
        node("output", "sin"),
    )
    captured = (
        StageNode(name="l_x_", opcode="placeholder", target="L_x_", value="f32[4, 8]"),
        StageNode(
            name="sin",
            opcode="call_method",
            target="sin",
            inputs=("l_x_",),
            value="f32[4, 8]",
            file=FILE,
            line=11,
        ),
        StageNode(name="output", opcode="output", target="", inputs=("sin",)),
    )
    code = GeneratedCode(
        compile_id="0/0",
        stage="forward",
        graph_index=0,
        kernels=("cpp_fused_sin_0", "extern_kernels.addmm"),
        code=KERNEL,
    )
    shown = Picture(
        files=(SourceText(file=FILE, text=TEXT),),
        graphs=(
            stage_graph(captured, code="class GraphModule: ..."),
            stage_graph(small, "joint", code="the joint code"),
            stage_graph(small, "forward", code="the forward code"),
            stage_graph(small, "post_grad", of="forward", code="the lowered forward code"),
            stage_graph(small, "backward", code="the backward code"),
            stage_graph(small, "post_grad", of="backward", code="the lowered backward code"),
        ),
        generated=(code,),
    )
    return recording(breaks=(record(entry(12)),)), shown


def with_edits() -> tuple[Diagnosis, Picture]:
    """A finding whose fix is an edit of a line, verified."""
    facts, shown = lowered()
    diagnosis = diagnosed(facts)
    (finding,) = diagnosis.findings
    edit = Fix(title="Take `print` out", kind="code", diff=EDIT, verdict="verified")
    return diagnosis.replace(findings=(finding.replace(fixes=(edit,)),)), shown


def large(nodes: tuple[StageNode, ...]) -> tuple[Recording, Picture]:
    """One graph of these nodes."""
    return recording(), Picture(
        files=(SourceText(file=FILE, text=TEXT),), graphs=(stage_graph(nodes),)
    )


def many_calls(count: int) -> tuple[Recording, Picture]:
    """So many calls, each a bar of its own; every other one compiled once more and kept one graph
    and one finding."""
    calls = tuple(
        Call(index=number, inputs="f32[4, 8]", outcome="ok", duration_s=0.001)
        for number in range(1, count)
    )
    recompiles = tuple(
        recompiled(f"0/{number}", change(old=str(number), new=str(number + 1)), call=number)
        for number in range(1, count)
    )
    lanes = tuple(
        Lane(
            call_index=number if number < count else None,
            duration_us=100.0 + number,
            is_profiled=True,
            segments=(
                Segment(kind="guards", start_us=1, end_us=5),
                Segment(kind="graph", start_us=10, end_us=60, compile_id="0/0", graph_index=0),
                Segment(
                    kind="eager", start_us=70, end_us=90, op_names={"aten::sin": 2}, op_count=2
                ),
            ),
        )
        for number in range(1, count + 1)
    )
    graphs = tuple(graph(f"0/{number}", index=number) for number in range(count))
    return (
        recording(
            calls=calls,
            compiles=(compiled(), *recompiles),
            graphs=graphs,
            breaks=(record(entry(12)),),
        ),
        Picture(files=(SourceText(file=FILE, text=TEXT),), lanes=lanes),
    )


# What a program may hold to break out of a page.

HOSTILE = (
    "</script><img src=x onerror=window.hacked=1>\"'><svg onload=window.hacked=1>{{7*7}}{% x %}"
)
ODD = "\x00\x01\x1b[31m\u202eesrever\u202c"
"""NUL and control characters, a right-to-left override."""
LONG = "long_" + "x" * 3000


def hostile() -> tuple[Recording, Picture]:
    """A report in which everything that comes from a program or from torch tries to be markup."""
    bad = HOSTILE + ODD
    file = f"/project/{HOSTILE}.py"
    place = entry(
        5, f"print({bad!r}) {LONG}", file=file, function=bad, qualname=bad, columns=(9, 14)
    )
    words = PRINT.replace(
        gb_type=bad, explanation=bad, hints=(bad, LONG), context=bad, torch_id=None
    )
    changed = change(expression=f"x[{bad}]", old=bad, new=LONG, source=f"L[{bad!r}]").replace(
        guard_location=place, hint=bad
    )
    again = recompiled("0/1", changed, stack=(place,))
    again = again.replace(recompile_reasons=(bad,))
    captured = graph(error=bad).replace(backend=bad, code=bad, inputs=(_input(bad), _input(LONG)))
    failed = Call(
        index=2,
        inputs=bad,
        outcome="error",
        error=CallError(type=bad, message=bad, traceback=f"{bad}\n{LONG}"),
    )
    function = frame(line=4).replace(file=file, function=bad, qualname=bad, text=bad)
    facts = recording(
        breaks=(record(place, chain=(words,), effect="frame_skipped"),),
        compiles=(compiled(), again, _odd_id(compiled())),
        frames=(function,),
        graphs=(captured,),
        calls=(Call(index=1, inputs=LONG, outcome="ok"), failed),
        target=bad,
    )
    guard = GuardNode(
        kind=bad,
        source=bad,
        expression=bad,
        expected=bad,
        path="x",
        depth=1,
        location=place,
        hint=bad,
        guard=bad,
    )
    guards = Guards(
        sets=(GuardSet(compile_id="0/0", guard_count=1, kinds={bad: 1}, nodes=(guard,)),)
    )
    facts = facts.replace(
        config={bad: LONG},
        evidence=filled(LogEvidence, bad),
        guards=guards,
        environment=Environment(python=bad, torch=bad, platform=LONG, device_name=bad),
    )
    return facts, _hostile_picture(bad, file)


def _input(name: str) -> GraphInput:
    return GraphInput(
        name=name,
        source=f"L[{name!r}]",
        kind="tensor",
        dtype=name,
        shape=(name, 8),
        is_parameter=False,
    )


def _odd_id(found: Compile) -> Compile:
    return found.replace(compile_id="p1:0/0", frame_id=7)


def _hostile_picture(bad: str, file: str) -> Picture:
    nodes = (
        StageNode(name=bad, opcode="placeholder", target=bad, value=bad, file=file, line=5),
        StageNode(
            name=LONG,
            opcode="call_function",
            target=bad,
            inputs=(bad,),
            value=LONG,
            module=bad,
            file=file,
            line=5,
        ),
        StageNode(name="output", opcode="output", target="", inputs=(LONG,)),
    )
    segments = (
        Segment(kind="graph", start_us=0, end_us=40, compile_id=bad, graph_index=0),
        Segment(kind="eager", start_us=50, end_us=90, op_names={bad: 2}, op_count=2),
    )
    return Picture(
        files=(
            SourceText(
                file=file,
                text=f"import torch\n\n\ndef f(x):\n    print('''{bad}''')  # {LONG}\n    return x\n",
            ),
        ),
        graphs=tuple(stage_graph(nodes, stage, code=bad) for stage in ("dynamo", "forward")),
        generated=(
            GeneratedCode(compile_id="0/0", graph_index=0, kernels=(bad,), file=bad, code=bad),
        ),
        phases=(
            Phase(
                name=bad,
                compile_id="0/0",
                call_index=1,
                start_us=0,
                duration_us=50,
                depth=0,
                notes={bad: bad},
            ),
        ),
        lanes=(Lane(call_index=1, duration_us=100, is_profiled=True, segments=segments),),
    )
