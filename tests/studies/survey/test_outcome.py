"""How pieces of a survey come out."""

from __future__ import annotations

from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.recording import Call, CaptureGap
from graphdoctor.facts.run import ProbeExit
from graphdoctor.studies.survey.outcome import (
    PieceOutcome,
    compiler_stage,
    of_bench,
    of_early_end,
    of_run,
)
from tests.each import for_each
from tests.factories import with_facts
from tests.rules.gate.diagnoses import with_prints
from tests.studies.bench.reports import eager, ended, report


def _ended(**more):
    return of_early_end(ProbeExit(status=1, message="It ended.", **{"reason": "error", **more}))


@for_each(
    "exit_, status, stage",
    [
        ({"reason": "timeout", "phase_kind": "call {index}"}, "timeout", "call"),
        ({"reason": "timeout", "phase_kind": "importing the target"}, "timeout", "load"),
        ({"reason": "timeout"}, "timeout", "load"),
        (
            {"reason": "killed", "stopped_for": "memory", "phase_kind": "call {index}"},
            "out_of_memory",
            "call",
        ),
        ({"reason": "killed", "phase_kind": "call {index}"}, "crashed", "call"),
        (
            {"reason": "killed", "phase_kind": "trying call {index} without torch.compile"},
            "crashed",
            "eager",
        ),
        ({"reason": "exited", "phase_kind": "importing the target"}, "load_failed", "load"),
        ({"reason": "exited", "phase_kind": "call {index}"}, "crashed", "call"),
        ({"error_type": "MemoryError", "phase_kind": "making the target"}, "out_of_memory", "load"),
        (
            {"error_type": "torch.OutOfMemoryError", "phase_kind": "measuring coverage"},
            "out_of_memory",
            "call",
        ),
        (
            {"error_type": "ImportError", "phase_kind": "importing the target"},
            "load_failed",
            "load",
        ),
        (
            {"error_type": "ValueError", "phase_kind": "making the inputs of call {index}"},
            "load_failed",
            "load",
        ),
        ({"hint_code": "no_inputs"}, "no_inputs", "load"),
        ({"hint_code": "unusable_input"}, "no_inputs", "load"),
        ({"hint_code": "unusable_device"}, "skipped", "load"),
        ({"hint_code": "no_torch"}, "skipped", "load"),
        ({"hint_code": "no_blocks"}, "skipped", "load"),
        ({"hint_code": "unusable_python"}, "load_failed", "load"),
        ({"hint_code": "refused_compile_arguments"}, "skipped", "load"),
        ({"hint_code": "unknown_argument"}, "skipped", "load"),
        ({"hint_code": "unusable_dtype"}, "skipped", "load"),
        ({"hint_code": "no_batch"}, "skipped", "load"),
    ],
)
def test_process_end_decides_the_outcome_of_a_piece(exit_, status, stage):
    found = _ended(**exit_)
    assert (found.status, found.stage) == (status, stage)


def _frames(*folders: str) -> str:
    return "Traceback (most recent call last):\n" + "".join(
        f'  File "/site/torch/{folder}/x.py", line 1, in f\n    g()\n' for folder in folders
    )


@for_each(
    "type, trace, backend, stage",
    [
        ("torch._inductor.exc.InductorError", "", "inductor", "inductor"),
        ("torch._dynamo.exc.Unsupported", _frames("_dynamo"), "eager", "dynamo"),
        (
            "torch._dynamo.exc.BackendCompilerFailed",
            _frames("_dynamo", "_inductor"),
            "inductor",
            "inductor",
        ),
        (
            "torch._dynamo.exc.BackendCompilerFailed",
            _frames("_inductor", "_functorch"),
            "inductor",
            "aot",
        ),
        ("torch._dynamo.exc.BackendCompilerFailed", _frames("_dynamo"), "mine", "backend"),
        (
            "torch._dynamo.exc.BackendCompilerFailed",
            _frames("_dynamo", "_functorch"),
            "aot_eager",
            "aot",
        ),
        ("RuntimeError", _frames("_dynamo", "_functorch"), "inductor", "aot"),
        ("RuntimeError", _frames("nn"), "inductor", "call"),
    ],
)
def test_the_part_of_the_compiler_is_where_it_was_raised(type, trace, backend, stage):
    assert compiler_stage(type, trace, backend=backend) == stage


def test_run_with_records_omitted_by_torch_is_no_crash():
    whole = with_prints(
        (3, "a"), exit=ProbeExit(status=0, reason="finished"), calls=(Call(index=1, outcome="ok"),)
    )
    assert of_run(whole).status == "ok"
    gap = CaptureGap(code="GD902", kind="unrecorded_compile", message="One is missing.")
    assert of_run(with_facts(whole, gaps=(gap,))).status == "ok"
    assert (
        of_run(with_facts(whole, calls=(Call(index=1, outcome="unfinished"),))).status == "crashed"
    )


def test_calls_of_which_nothing_was_compiled_are_no_pass():
    whole = with_prints(
        (3, "a"), exit=ProbeExit(status=0, reason="finished"), calls=(Call(index=1, outcome="ok"),)
    )
    nothing = Coverage(graph_ops=0, eager_ops=3, extra_calls=1, extra_compiles=0)
    found = of_run(
        whole.replace(summary=whole.summary.replace(coverage=0.0, coverage_detail=nothing))
    )
    said = "Not compiled: 0 of 3 tensor operations ran in a compiled graph."
    assert (found.status, found.stage, found.error) == ("not_compiled", "dynamo", said)


def test_failing_bench_variant_has_its_error():
    raised = {"status": 1, "reason": "error", "error_type": "ValueError", "traceback": "Traceback"}
    for more, words in (
        ({"message": "It is refused.", "hint_code": "no_inputs"}, "It is refused."),
        ({}, "status 1"),
    ):
        own = ended("default", "failed", "status 1", exit=ProbeExit(**raised, **more))
        found = of_bench(report(eager(), own))
        assert found == PieceOutcome("compile_failed", "bench", words, "ValueError", "Traceback")
