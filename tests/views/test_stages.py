"""What people read of a graph's stages."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.picture import (
    GraphStages,
    LinePlace,
    SavedValue,
    SourceLine,
    StageChange,
    StageKernel,
    StageNode,
    StageReport,
)
from graphdoctor.facts.recording import Graph, GraphInput
from graphdoctor.views.parts import View
from graphdoctor.views.stages import stage_parts
from tests.factories import diagnosed, recording
from tests.views.outputs import on_terminal

NORM = LinePlace(file="model.py", line=11)
UP = LinePlace(file="model.py", line=12)
CODE = """from ctypes import c_void_p

cpp_fused_norm_0 = async_compile.cpp_pybinding(['float*'], r'''
kernel
''')

class Runner:
    def call(self, args):
        primals_1, = args
        args.clear()
        cpp_fused_norm_0(primals_1)
        return (primals_1, )

runner = Runner()
"""


def node(name: str, text: str, value: str | None = None, line: int | None = None) -> StageNode:
    file = None if line is None else "model.py"
    return StageNode(
        name=name, opcode="call_function", target="f", value=value, file=file, line=line, text=text
    )


def argument(name: str, value: str) -> StageNode:
    return StageNode(name=name, opcode="placeholder", target=name, value=value)


def returned(*names: str) -> StageNode:
    return StageNode(name="output", opcode="output", target="", inputs=names)


def trained() -> tuple[StageReport, ...]:
    ahead = (
        argument("primals_1", "f32[64]"),
        node(
            "var_mean",
            "aten.var_mean.correction(primals_1, [1], correction = 0, keepdim = True)",
            None,
            11,
        ),
        node(
            "mul_of_a_rather_long_name",
            "aten.mul.Tensor(var_mean, 0.7071067811865476)",
            "f32[8, 64]",
            11,
        ),
        node("mm", "aten.mm.default(mul_of_a_rather_long_name, primals_1)", "f32[8, 128]", 12),
    )
    kernels = (
        StageKernel(
            name="cpp_fused_norm_0",
            nodes=("a", "b", "c"),
            operations=("var_mean", "mul", "mul"),
            places=(NORM,),
        ),
        StageKernel(name="extern_kernels.mm", nodes=("mm",), operations=("mm",), places=(UP, NORM)),
    )
    return (
        StageReport(
            stage="dynamo",
            operations=2,
            nodes=(
                argument("l_self_norm_weight_", "f32[64]"),
                node(
                    "y",
                    "torch.nn.functional.layer_norm(l_x_, (64,), l_self_norm_weight_, 1e-05)",
                    "f32[8, 64]",
                    11,
                ),
                node("linear", "torch._C._nn.linear(y)", "f32[8, 128]", 12),
                returned("linear"),
            ),
        ),
        StageReport(
            stage="joint",
            compared_with="dynamo",
            operations=45,
            of_backward=42,
            kept=0,
            changes=(
                StageChange(
                    before=("layer_norm",),
                    after=("var_mean", "mul", "mul"),
                    count=1,
                    places=(NORM,),
                ),
                StageChange(before=("dropout",), after=(), count=12, places=(NORM, UP)),
                StageChange(before=(), after=("mm",), count=1),
            ),
            nodes=(
                *ahead,
                *(node(f"grad_{number}", "aten.f(x)", "f32[2]") for number in range(42)),
                returned("mm"),
            ),
        ),
        StageReport(
            stage="forward",
            compared_with="joint",
            operations=3,
            kept=3,
            changes=(StageChange(before=("permute",), after=(), count=4, places=(NORM,)),),
            saved=(
                SavedValue(name="primals_1", value="f32[64]", is_input=True),
                SavedValue(name="mm", value="f32[8, 128]", is_input=False),
            ),
            nodes=(*ahead, returned("mm", "primals_1")),
        ),
        StageReport(
            stage="post-grad",
            of="forward",
            compared_with="forward",
            operations=3,
            kept=3,
            nodes=ahead,
        ),
        StageReport(
            stage="fusion",
            of="forward",
            compared_with="post-grad",
            operations=2,
            kernels=kernels,
            unfused=("permute", "view", "permute"),
            file="/cache/of/inductor/c12345.py",
            code=CODE,
        ),
        StageReport(
            stage="backward",
            compared_with="joint",
            operations=0,
            recomputed=("mul", "mul"),
            unread_lines=2,
        ),
        StageReport(
            stage="fusion",
            of="backward",
            operations=None,
            kernel_names=("cpp_fused_0", "aten.mm.out"),
            code="x = 1",
        ),
    )


def view_of(*graphs: GraphStages, backend: str = "inductor") -> View:
    inputs = (
        GraphInput(name="l_x_", source="L['x']", kind="tensor", dtype="float32", shape=(8, 64)),
        GraphInput(
            name="l_self_norm_weight_",
            source="L['self'].norm.weight",
            kind="tensor",
            dtype="float32",
            is_parameter=True,
        ),
    )
    target = recording().target.replace(compile_arguments={"backend": backend})
    diagnosis = diagnosed(
        target=target, graphs=(Graph(compile_id="0/0", index=0, op_count=2, inputs=inputs),)
    )
    return View(("model.py",), "stages", tuple(stage_parts(diagnosis.replace(stages=graphs))))


def rendered(
    *graphs: GraphStages, width: int = 80, backend: str = "inductor", is_verbose: bool = False
) -> str:
    view = view_of(*graphs, backend=backend)
    return (
        on_terminal(view, width=width, is_verbose=is_verbose)
        .removeprefix("model.py\n")
        .rstrip("\n")
    )


def staged(*stages: StageReport) -> GraphStages:
    lines = (
        SourceLine(
            file="model.py",
            line=11,
            text="y = self.norm(x)  # [red] " + "as long as a line can be " * 3,
        ),
        SourceLine(file="model.py", line=12, text="return self.up(y)"),
    )
    place = LinePlace(file="model.py", line=10)
    return GraphStages(
        compile_id="0/0",
        graph_index=0,
        function="Net.forward",
        place=place,
        stages=stages,
        lines=lines,
    )


def test_a_training_step(snapshot: SnapshotAssertion) -> None:
    text = rendered(staged(*trained()), width=140)
    assert max(len(line) for line in text.splitlines() if line[:2] != "  ") <= 140
    assert text == snapshot


def test_verbose_leaves_nothing_out() -> None:
    text = rendered(staged(*trained()), is_verbose=True)
    assert "-v" not in text
    assert text.count("grad_") == 42
    assert "from ctypes import c_void_p" in text
    assert text.count("post-grad, forward") == 2


def test_generated_code_can_be_copied() -> None:
    line = f"    buf0 = empty_strided_cpu({', '.join(map(str, range(60)))})  # [bold]"
    code = f"def call(args):\n{line}\n"
    assert (
        f"  {line}\n" in rendered(staged(trained()[4].replace(code=code)), is_verbose=True) + "\n"
    )


def test_missing_stages_are_named_last(snapshot: SnapshotAssertion) -> None:
    dynamo, joint, *_ = trained()
    *stages, backward, kernels = trained()
    shown = (
        rendered(staged(dynamo), width=140, backend="eager"),
        rendered(staged(dynamo, joint), width=140, backend="aot_eager"),
        rendered(staged(*stages, backward), width=140),
        rendered(),
    )
    assert [text.splitlines()[-1] for text in shown] == snapshot
    assert "--backward" not in rendered(staged(*stages, backward, kernels)) + rendered(
        staged(*stages)
    )
