"""Hand-built answers of the gate, for tests of what is written of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphdoctor.facts.check import (
    BaselineEntry,
    BaselineRun,
    Budget,
    CheckReport,
    Ignored,
    TargetCheck,
    UnusedIgnore,
    WorseFinding,
)
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.gate.baseline import entries_of
from tests.factories import (
    LOOP,
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

ROOT = Path("/project")
PACKAGE_FILE = "/venv/lib/python3.11/site-packages/transformers/models/gpt2/modeling_gpt2.py"
DIFF = """\
--- a/model.py
+++ b/model.py
@@ -10,4 +10,5 @@
     def forward(self, x):
         y = self.fc(x)
-        print("kept")
+        if not torch.compiler.is_compiling():
+            print("kept")
         return y
"""
FIX = Fix(
    title="Skip `print` while compiling",
    kind="code",
    snippet="if not torch.compiler.is_compiling():",
    is_safe=True,
    verdict="verified",
    diff=DIFF,
)


RUN = BaselineRun(calls=1, graphs=3, graph_ops=8, eager_ops=2)


def diagnosis() -> Diagnosis:
    """A print, one in a loop, one in a package that the user's line calls, and a size that
    recompiles."""
    kept = record(
        entry(5, "y = net(x)", function="main", qualname="main"),
        entry(12, 'print("kept")', columns=(9, 22)),
    )
    loop = record(
        entry(25, 'print("loop")'), compile_id="1/0", effect="frame_skipped", chain=(PRINT, LOOP)
    )
    inside = entry(
        300,
        "print(mask)",
        file=PACKAGE_FILE,
        function="_mask",
        qualname="GPT2Model._mask",
        origin="third_party",
        package="transformers",
        columns=(9, 20),
    )
    package = record(entry(31, "h = self.gpt2(x)", columns=(13, 25)), inside, compile_id="2/0")
    facts = recording(
        breaks=(kept, loop, package),
        compiles=(compiled(), compiled("1/0"), compiled("2/0"), recompiled("0/1", change())),
        frames=(frame(), frame(1, function="embed", line=20), frame(2, function="encode", line=30)),
        graphs=(graph(), graph("1/0", index=1)),
    )
    return diagnosed(facts, version="0.1.0")


def finding(**changes: Any) -> Finding:
    """The print of ``model.py:12``, its first fix verified, with what a test changes."""
    (found,) = (
        found
        for found in diagnosis().findings
        if found.location.line == 12 and found.code == "GD101"
    )
    return found.replace(**({"fixes": (FIX, *found.fixes[1:])} | changes))


def placed(file: str, **changes: Any) -> Finding:
    """A finding of a file."""
    values: dict[str, Any] = {"line": 3, "function": "f"} | changes
    return finding(location=StackEntry(file=file, **values), user_stack=(), fixes=())


def target(name: str = "train", **changes: Any) -> TargetCheck:
    """One target; ``passed`` unless told otherwise."""
    values: dict[str, Any] = {"target": "model.py:Net", "state": "passed", "diagnosis": diagnosis()}
    return TargetCheck(name=name, **(values | changes))


def report(*targets: TargetCheck, **changes: Any) -> CheckReport:
    """A report of targets."""
    return CheckReport(
        **({"graphdoctor_version": "0.1.0", "targets": targets or (target(),)} | changes)
    )


def failed_report() -> CheckReport:
    """All that a report can hold: a target that failed, one that passed, one that crashed, one that
    was skipped."""
    found = {(each.code, each.location.line): each for each in diagnosis().findings}
    package = found["GD101", 300]
    size = found["GD202", 12]
    train = target(
        state="failed",
        new=(found["GD101", 25], finding(), package, size.replace(severity="info")),
        known=(found["GD111", 25],),
        grown=(found["GD111", 25],),
        baseline_run=RUN,
        fixed=(
            BaselineEntry(
                fingerprint="0123456789abcdef",
                code="GD103",
                file="model.py",
                function="Net.forward",
                text="n = x.item()",
                message="`.item()` reads a number out of the graph",
            ),
        ),
        ignored=(
            Ignored(
                finding=finding(fingerprint="1" * 16), by="comment", reason="needed for | the log"
            ),
        ),
        budgets=(
            Budget(name="max-breaks", limit=1, value=3, is_kept=False),
            Budget(name="max-recompiles", limit=1, value=1, is_kept=True),
            Budget(name="min-coverage", limit=0.95, value=None, is_kept=False),
        ),
        baseline_torch="2.11.0",
        is_other_torch=True,
    )
    serve = target("serve", known=(finding(),), baseline_torch="2.13.0", baseline_run=RUN)
    export = target(
        "export",
        state="crashed",
        diagnosis=None,
        error="RuntimeError: mat1 and mat2 do not fit, so nothing is known.",
    )
    return report(
        train,
        serve,
        export,
        skipped=("bench",),
        unused_ignores=(
            UnusedIgnore(file="model.py", line=40, codes=("GD102",)),
            UnusedIgnore(file="pyproject.toml"),
        ),
        baseline="graphdoctor-baseline.json",
        notes=("The baseline has entries of two versions of torch.",),
    )


def worse_report() -> CheckReport:
    """A target that is worse than its baseline without a new finding, and one whose baseline has
    findings alone."""
    (skipped,) = (found for found in diagnosis().findings if found.code == "GD111")
    (before,) = entries_of([skipped])
    before = before.replace(break_effects=("resumed",), skipped_frames=())
    train = target(
        state="failed",
        error="Nothing was compiled: no graph reached the backend; the baseline has 3 graphs.",
        known=(skipped,),
        worse=(WorseFinding(finding=skipped, before=before),),
        newly_eager=("main",),
        has_lost_coverage=True,
        baseline_torch="2.13.0",
        baseline_run=RUN,
    )
    return report(
        train, target("serve", baseline_torch="2.13.0"), baseline="graphdoctor-baseline.json"
    )


def _refuted(verdict: str) -> Fix:
    return FIX.replace(verdict=verdict, title="no")


def _at(**changes: Any) -> Finding:
    return finding(
        location=StackEntry(
            **{"file": "m.py", "line": 4, "column": 9, "function": "f", "indent": 4} | changes
        )
    )


_TORCH = entry(2, file="/venv/torch/nn/module.py", origin="torch", package="torch")
_RELATED = StackEntry(file="train.py", line=7, function="main", note="called here in call 2")
_PATHS = (
    "src/a b.py", "src\\nets\\net.py", "nets\\größe, a.py", "模型/größe#1?.py", "C:\\my nets\\net.py", "a:b.py",
    "\\\\server\\nets\\net.py", "/elsewhere/net.py", "/project/net.py", "<frozen os>",
)  # fmt: skip
FORMS: dict[str, Finding] = {
    "an error": finding(severity="error"),
    "a note": finding(severity="info"),
    "an expression within a line": _at(end_column=15, text="é = f(x)"),
    "an expression that goes on below": _at(text="y = f("),
    "a line without columns": placed("m.py", text="f(x)"),
    "a line without its text": placed("m.py"),
    **{f"the file {file}": placed(file) for file in _PATHS},
    **{
        f"the package's file {file}": placed(file, package=package, origin="third_party")
        for file, package in (
            (".venv/lib/site-packages/timm/layers/x.py", "timm"), ("/opt/site-packages/timm/layers/x.py", "timm"),
            ("/opt/site-packages/six.py", "six"),
        )
    },
    "a package that the user's line calls": next(found for found in diagnosis().findings if found.location.package),
    "torch's own lines of a flow": finding(user_stack=(entry(1), _TORCH)),
    "a related place, twice": finding(related=(_RELATED, _RELATED)),
    "what looks like a link": finding(message="`x[0](y)` and [a]"),
    **{f"a fix that has {verdict}": finding(fixes=(_refuted(verdict),)) for verdict in ("no effect", "failed")},
    "another fix than the one that changes results": finding(
        fixes=(_refuted("changes results"), Fix(title="yes", kind="code"))
    ),
}  # fmt: skip
"""Findings of which a reader of annotations is told different things."""
