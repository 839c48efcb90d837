"""Hand-built facts, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.fixes import Outcome, Reason
from graphdoctor.facts.guards import ChangeKind, GuardChange, RecompileCause
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import (
    BreakEffect,
    BreakReason,
    BreakRecord,
    Call,
    Compile,
    CompileOutcome,
    Enclosing,
    Environment,
    Frame,
    Graph,
    GraphInput,
    GraphNode,
    Recording,
    SourceContext,
    TargetInfo,
)
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.stack import Origin, StackEntry
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trace.causes import cause_of_reasons
from graphdoctor.trials.program import RunChange
from graphdoctor.views.reasons import reasons_text, why_text

ROOT = Path("/project")
FILE = "/project/model.py"
PRINT = BreakReason(
    gb_type="Failed to trace builtin operator",
    torch_id="GB0059",
    explanation="Dynamo does not know how to trace builtin operator `print` with argument types ['str'].",
    hints=("Avoid calling builtin `print`.",),
    context="builtin print [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False",
)
FULL_COVERAGE = Coverage(graph_ops=4, eager_ops=0)
LOOP = BreakReason(
    gb_type="graph break in loop", torch_id="GB7000", explanation="torch cannot resume in a loop."
)


def entry(
    line: int,
    text: str = 'print("x")',
    *,
    file: str = FILE,
    function: str = "forward",
    qualname: str | None = "Net.forward",
    origin: Origin = "user",
    package: str | None = None,
    columns: tuple[int, int] | None = None,
    indent: int = 8,
) -> StackEntry:
    """One stack entry; ``columns`` are 1-based, the end exclusive."""
    return StackEntry(
        file=file,
        line=line,
        function=function,
        qualname=qualname,
        text=text,
        indent=indent,
        column=columns[0] if columns else None,
        end_column=columns[1] if columns else None,
        origin=origin,
        package=package,
    )


def record(
    *stack: StackEntry,
    compile_id: str = "0/0",
    effect: BreakEffect = "resumed",
    chain: tuple[BreakReason, ...] = (PRINT,),
) -> BreakRecord:
    """One graph-break record with an exact stack."""
    return BreakRecord(
        compile_id=compile_id,
        attempt=0,
        call_index=1,
        effect=effect,
        chain=chain,
        stack=stack,
        is_stack_exact=True,
        words=chain[0].gb_type,
    )


def compiled(
    compile_id: str = "0/0",
    *,
    outcome: CompileOutcome = "compiled",
    reasons: tuple[str, ...] = (),
    call: int = 1,
    stack: tuple[StackEntry, ...] = (),
) -> Compile:
    """One compile; a reason makes it a recompile."""
    return Compile(
        compile_id=compile_id,
        frame_id=int(compile_id.split("/", maxsplit=1)[0]),
        call_index=call,
        outcome=outcome,
        is_recompile=bool(reasons),
        recompile_reasons=reasons,
        op_count=2,
        guard_count=9,
        duration_s=0.25,
        stack=stack,
        cause=cause_of_reasons(reasons, lambda *_place: None) if reasons else None,
    )


def frame(
    frame_id: int = 0, *, function: str = "forward", line: int = 10, resumes_at: int | None = None
) -> Frame:
    """One frame of ``FILE``."""
    name = function if resumes_at is None else f"torch_dynamo_resume_in_{function}_at_{resumes_at}"
    return Frame(
        frame_id=frame_id,
        function=function,
        qualname=f"Net.{function}",
        file=FILE,
        line=line,
        text=f"def {function}(self, x):",
        origin="user",
        resumes_at=resumes_at,
        code_name=name,
    )


def graph(compile_id: str = "0/0", *, index: int = 0, error: str | None = None) -> Graph:
    """One graph of two operations on one argument and one parameter."""
    return Graph(
        compile_id=compile_id,
        index=index,
        op_count=2,
        tensor_op_count=2,
        inputs=(
            GraphInput(
                name="l_x_",
                source="L['x']",
                kind="tensor",
                dtype="f32",
                shape=("s0", 8),
                is_parameter=False,
            ),
            GraphInput(
                name="l_w_",
                source="L['self']._modules['fc']._parameters['weight']",
                kind="tensor",
                dtype="f32",
                shape=(8, 8),
                is_parameter=True,
            ),
        ),
        nodes=(
            GraphNode(name="l_x_", opcode="placeholder", target="L_x_", args="", kwargs=""),
            GraphNode(
                name="sin",
                opcode="call_method",
                target="sin",
                args="l_x_",
                kwargs="",
                value="f32[s0, 8]",
                file=FILE,
                line=11,
            ),
        ),
        code="class GraphModule(torch.nn.Module): ...",
        backend="eager",
        backend_error=error,
    )


def context(line: int, statement: str, *enclosing: Enclosing) -> SourceContext:
    """What surrounds a line of ``Net.forward``."""
    return SourceContext(
        file=FILE,
        line=line,
        qualname="Net.forward",
        function_line=10,
        statement=statement,
        statement_line=line,
        enclosing=enclosing,
    )


def recording(
    *,
    breaks: tuple[BreakRecord, ...] = (),
    compiles: tuple[Compile, ...] = (compiled(),),
    frames: tuple[Frame, ...] = (frame(),),
    graphs: tuple[Graph, ...] = (graph(),),
    sources: tuple[SourceContext, ...] = (),
    calls: tuple[Call, ...] = (Call(index=1, inputs="f32[4, 8]", outcome="ok", duration_s=0.5),),
    coverage: Coverage | None = FULL_COVERAGE,
    ended: ProbeExit | None = None,
    target: str = "model.py",
) -> Recording:
    """A whole run of ``model.py``."""
    end = ended or ProbeExit(status=0, reason="finished")
    return Recording(
        environment=Environment(python="3.11.7", torch="2.13.0"),
        target=TargetInfo(
            text=target,
            name="Net",
            kind="module class",
            class_name="Net",
            parameters=("x",),
            compile_arguments={"backend": "eager"},
        ),
        exit=end,
        is_partial=end.reason != "finished",
        calls=calls,
        frames=frames,
        compiles=compiles,
        graphs=tuple(_captured(graph, frames, compiles) for graph in graphs),
        breaks=breaks,
        sources=sources,
        coverage=coverage,
        gaps=(),
    )


def _captured(found: Graph, frames: tuple[Frame, ...], compiles: tuple[Compile, ...]) -> Graph:
    ids = {compile_.compile_id: compile_.frame_id for compile_ in compiles}
    ran = next((frame for frame in frames if frame.frame_id == ids.get(found.compile_id)), None)
    if ran is None:
        return found
    return found.replace(function=ran.described, resumes_at=ran.resumes_at)


def diagnosed(
    facts: Recording | None = None,
    *,
    root: Path = ROOT,
    version: str = "0",
    selection: Selection | None = None,
    **values: object,
) -> Diagnosis:
    """What the rules find in a recording, by default in a plain one of a whole run, with some of
    its facts replaced."""
    known = (facts or recording()).replace(**values)
    return diagnose(known, RULES, root=root, version=version, selection=selection)


def with_facts(diagnosis: Diagnosis, **facts: object) -> Diagnosis:
    """A diagnosis with other facts in its recording."""
    return diagnosis.replace(recording=diagnosis.recording.replace(**facts))


def change(
    kind: ChangeKind = "size",
    expression: str = "x.shape[0]",
    old: str | None = "4",
    new: str | None = "8",
    *,
    source: str | None = "L['x']",
    line: int | None = 12,
) -> GuardChange:
    """One changed value, guarded on because of a line of ``FILE``."""
    return GuardChange(
        kind=kind,
        source=source,
        expression=expression,
        old=old,
        previous=old,
        new=new,
        guard_location=None if line is None else entry(line, "y = self.fc(x)"),
    )


def recompiled(
    compile_id: str,
    *changes: GuardChange,
    call: int | None = 2,
    outcome: CompileOutcome = "compiled",
    stack: tuple[StackEntry, ...] = (),
) -> Compile:
    """One recompile with its cause, compared while running."""
    cause = RecompileCause(nearest="0/0", changes=changes, is_exact=True)
    plain = compiled(compile_id, outcome=outcome, reasons=("0/0: x",), stack=stack)
    return plain.replace(cause=cause, call_index=call)


def said_of(change: RunChange) -> dict[str, object]:
    """What a change says, without what it leaves as it is."""
    return {
        name: value for name, value in vars(change).items() if value != getattr(RunChange(), name)
    }


def message(text: str) -> tuple[Reason, ...]:
    """A reason in somebody's own words."""
    return (Reason(kind="message", values=(text,)),)


def why(fix: Mapping[str, Any] | Outcome) -> str | None:
    """Why a fix has its verdict, in words."""
    if isinstance(fix, Outcome):
        return why_text(fix)
    given = {name: fix[name] for name in ("verdict", "reasons", "untried_cause")}
    return why_text(read_fact(Outcome, given))


def in_words(reasons: Iterable[Any]) -> list[str | None]:
    """Each reason in words."""
    return [
        reasons_text([one if isinstance(one, Reason) else read_fact(Reason, one)])
        for one in reasons
    ]
