"""Reports of exports, made by hand."""

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.export import ExportBlocker, ExportReport, ExportWay
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.recording import CaptureGap, ExportInput
from graphdoctor.facts.stack import StackEntry
from tests.studies.bench.reports import EXACT, report

INPUTS = (
    ExportInput(name="p_lin_weight", kind="parameter", target="lin.weight", value="f32[4, 4]"),
    ExportInput(name="x", kind="user_input", value="f32[s77, 4]"),
)


def branch(line=7):
    """A branch on a tensor."""
    return Finding(
        code="GD102",
        rule="data-dependent-branch",
        severity="error",
        message="the branch depends on a tensor's value: `y.sum() > 0`",
        location=StackEntry(
            file="model.py", line=line, function="Net.forward", text="if y.sum() > 0:", column=12
        ),
        count=1,
        torch_reason="Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).",
        fixes=(Fix(title="Choose `y` with `torch.where`", kind="code"),),
        fingerprint=f"{line:016x}",
    )


def made(*, is_strict=False, **more):
    """A way that works."""
    values = {
        "status": "exported",
        "line": f"program = torch.export.export(model, (x,), strict={is_strict})",
        "seconds": 0.4,
        "op_count": 6,
        "inputs": INPUTS,
        "constraints": ("x.shape[0] <= 4",),
        "correctness": EXACT,
        "lost": ("calls",),
        "unwritten": ("stdout",),
    }
    return ExportWay(is_strict=is_strict, **values | more)


def refused(*, is_strict=True, **more):
    """A way that torch refuses."""
    blocker = ExportBlocker(
        finding=branch(),
        type="torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode",
        message="Could not guard on data-dependent expression Eq(u0, 1)",
    )
    values = {"status": "blocked", "reason": "Could not guard", "blockers": (blocker,)}
    return ExportWay(is_strict=is_strict, **values | more)


def exported(*ways, **more):
    """A report on ways."""
    bench = report()
    values = {
        "graphdoctor_version": "0",
        "environment": bench.environment,
        "target": bench.target,
        "text": "torch.export takes this program with `strict=False`.",
        "best": "non-strict",
        "ways": ways,
        "calls_made": 1,
    }
    return ExportReport(**values | more)


def blocked():
    """One way works, the other with a fix."""
    return exported(
        made(),
        refused(),
        is_wrapped=True,
        calls_other=(3,),
        breaks=(branch(12),),
        gaps=(CaptureGap(code="GD900", kind="stacks", message="something is unknown"),),
    )
