"""Reports of comparisons of results, made by hand."""

from graphdoctor.facts.accuracy import AccuracyReport, ComparedKind, Cure, StaleValue
from graphdoctor.facts.bench import Correctness, StageResult, Stages
from graphdoctor.facts.located import Located, TensorAt
from graphdoctor.facts.recording import TracingBranch
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.trials import Difference
from tests.studies.bench.reports import report as bench_report

LINE = StackEntry(file="model.py", line=12, function="forward", text="h = F.gelu(self.a(x))")
OUTPUT = Difference(kind="outputs", where="call 2, output", largest=0.31)


def agreeing(verdict="rounding", **more):
    """A program whose results agree."""
    bench = bench_report()
    given = {
        "graphdoctor_version": "0",
        "environment": bench.environment,
        "target": bench.target,
        "text": "Only rounding differs: outputs and gradients of 2 calls are eager mode's otherwise.",
        "verdict": verdict,
        "call_count": 2,
        "graphs": 3,
        "correctness": Correctness(
            is_bitwise_equal=False,
            is_eager_repeatable=True,
            note="in float64, state comes from other random numbers",
        ),
        "kinds": (
            ComparedKind(kind="outputs", verdict=verdict, count=2, variant=2.1e-7, eager=1.9e-7),
            ComparedKind(kind="gradients", verdict="same bits", count=8),
        ),
    }
    return AccuracyReport(**given | more)


def wrong(**more):
    """A program in which one operation is wrong."""
    given = {
        "text": "Different: call 2, output differs by 0.31; first at torch.nn.functional.gelu, model.py:12.",
        "kinds": (
            ComparedKind(kind="outputs", verdict="different", count=2, variant=0.12, eager=1e-7),
        ),
        "differences": (OUTPUT,),
        "first_call": 2,
        "stages": Stages(
            results=(
                StageResult(name="eager", outcome="ok"),
                StageResult(name="aot_eager", outcome="ok"),
                StageResult(name="aot_eager_decomp_partition", outcome="ok"),
                StageResult(name="inductor", outcome="wrong", reason="output differs by 0.31"),
            ),
            first="inductor",
            part="the lowering of aten.gelu.default",
        ),
        "located": Located(
            compile_id="0/1",
            call=2,
            direction="forward",
            operation="torch.nn.functional.gelu",
            location=LINE,
            inputs=("f32[4, 64]",),
            output="f32[4, 64]",
            largest=0.31,
            element=TensorAt(
                index=(3, 17), compiled=0.512, eager=0.202, exact=0.20199, spacings=2.08e7
            ),
            is_alone=False,
            together_with=("torch.nn.functional.linear",),
            node_count=5,
            compile_count=4,
            code="cpp_fused_gelu_0 = …",
        ),
        "reproduction": "import torch\n\n\ndef program(x):\n    return (torch.nn.functional.gelu(x),)\n",
        "branches": (
            TracingBranch(
                location=LINE.replace(line=20),
                asks="torch.compiler.is_compiling",
                text="if torch.compiler.is_compiling():",
                eager=False,
                compiled=True,
            ),
        ),
        "is_branch_explained": False,
        "cures": (
            Cure(
                name="the lowering of aten.gelu.default",
                kind="part",
                lines=("torch._inductor.lowering.make_fallback(torch.ops.aten.gelu.default)",),
                is_right=True,
            ),
            Cure(
                name="dynamic shapes", kind="argument", arguments={"dynamic": False}, is_right=True
            ),
            Cure(name="torch 2.14.1", kind="torch", is_right=True),
            Cure(
                name="torch 2.15.0",
                kind="torch",
                is_right=False,
                reason="call 2, output differs by 0.31",
            ),
        ),
    }
    return agreeing("different", **given | more)


def stale(**more):
    """A program whose graph is reused though a value changed that no guard checks."""
    value = StaleValue(
        expression="self.scale",
        before="2.0",
        after="3.0",
        call=3,
        compile_id="0/0",
        location=LINE,
        difference=OUTPUT,
    )
    return agreeing("different", differences=(OUTPUT,), stale=value, **more)
