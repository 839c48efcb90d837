"""Outcomes of pieces of a survey, from diagnosis, bench and the ends of processes.

Each status is decided by fields that say what happened, never by the words of a message.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphdoctor.rules.gate.check import (
    compile_switch,
    empty_text,
    missing_records,
    refused_call,
    trouble_of,
)
from graphdoctor.views.words import uncompiled_text
from graphdoctor.wording import first_line, without_middle

if TYPE_CHECKING:
    from graphdoctor.facts.bench import BenchReport, Variant
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.recording import CallError
    from graphdoctor.facts.run import HintCode, PhaseKind, ProbeExit
    from graphdoctor.facts.survey import SurveyStage, SurveyStatus

_OUT_OF_MEMORY = frozenset({"MemoryError", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"})
_LOADING: Collection[PhaseKind | None] = frozenset(
    {
        None,
        "importing torch",
        "importing the target",
        "making the target",
        "keeping the state of the target",
        "making the inputs of call {index}",
    }
)
_EAGER: PhaseKind = "trying call {index} without torch.compile"
_NO_INPUTS: Collection[HintCode | None] = frozenset({"no_inputs", "unusable_input"})
_OTHER_HINTS: Collection[HintCode | None] = frozenset({None, "changed_call", "unusable_python"})
"""The others that aren't about time say that what was asked for can't be had here."""
_PARTS: dict[str, SurveyStage] = {"_inductor": "inductor", "_functorch": "aot", "_dynamo": "dynamo"}
_STAGES: dict[str, SurveyStage] = {"inductor": "inductor", "eager": "dynamo"}
"""Parts by the backends that end with them."""
_FRAME = re.compile(
    r'^ *File "[^"\n]*[/\\]torch[/\\](_inductor|_functorch|_dynamo)[/\\]', re.MULTILINE
)
_CHAINED = "\nThe above exception was the direct cause of the following exception:\n"
_BACKEND_FAILED = "torch._dynamo.exc.BackendCompilerFailed"
_MAX_TRACEBACK = 8_000
_MAX_WORDS = 500


@dataclass(frozen=True)
class PieceOutcome:
    """The outcome of a piece; the fields of ``SurveyRow`` of the same names."""

    status: SurveyStatus
    stage: SurveyStage | None = None
    error: str | None = None
    error_type: str | None = None
    traceback: str | None = None


OK = PieceOutcome("ok")


def of_run(diagnosis: Diagnosis) -> PieceOutcome:
    """Return the outcome of a recorded run."""
    recording, summary = diagnosis.recording, diagnosis.summary
    refusal = refused_call(diagnosis)
    failed = next((call.error for call in recording.calls if call.error is not None), None)
    if refusal is not None and refusal.error is not None:
        return _failed(refusal.error, diagnosis, is_compiled=True)
    if failed is not None:
        return _failed(failed, diagnosis, is_compiled=failed.eager == "ok")
    if recording.exit.reason != "finished":
        return of_early_end(recording.exit)
    if missing_records(diagnosis) is None and (trouble := trouble_of(diagnosis)) is not None:
        return PieceOutcome("crashed", "call", trouble)
    has_nothing = not summary.graphs and not diagnosis.findings
    if compile_switch(diagnosis) is not None or has_nothing or summary.is_uncompiled:
        error = empty_text(diagnosis, None) or uncompiled_text(summary)
        return PieceOutcome("not_compiled", "dynamo", error)
    return OK


def of_early_end(ended: ProbeExit, *, stage: SurveyStage = "call") -> PieceOutcome:
    """Return the outcome of a process that ended early, at this stage if it was past loading."""
    kind = ended.phase_kind
    where = "load" if kind in _LOADING else "eager" if kind == _EAGER else stage
    message = ended.message or "Its process ended early."
    outcome = PieceOutcome("crashed", where, message, ended.error_type, cut(ended.traceback))
    if ended.stopped_for == "timeout" or ended.reason == "timeout":
        return PieceOutcome("timeout", where, message)
    if ended.stopped_for == "memory" or ended.error_type in _OUT_OF_MEMORY:
        return replace(outcome, status="out_of_memory")
    if ended.reason == "killed" or (ended.reason == "exited" and where != "load"):
        return replace(outcome, error_type=None)
    if ended.hint_code in _NO_INPUTS:
        return PieceOutcome("no_inputs", "load", message)
    if ended.hint_code not in _OTHER_HINTS:
        return PieceOutcome("skipped", "load", message)
    return replace(outcome, status="load_failed") if where == "load" else outcome


def of_bench(report: BenchReport) -> PieceOutcome:
    """Return the outcome of a bench of a piece that ran when it was recorded."""
    eager, compiled, *_ = report.variants
    if eager.status == "failed":
        return _of_variant(eager, "eager", "eager_failed")
    if compiled.status == "skipped":
        return PieceOutcome("skipped", "bench", compiled.reason)
    # The part of the compiler where it goes wrong; None if bench didn't find it.
    first = None if compiled.stages is None else compiled.stages.first
    stage = None
    if first is not None:
        stage = _STAGES.get(first, "aot" if first.startswith("aot_eager") else "backend")
    if compiled.status == "wrong":
        return PieceOutcome("wrong", stage, compiled.reason)
    # What never stops compiling runs, and can't be timed.
    if compiled.exit is None:
        return OK
    return _of_variant(compiled, stage or "bench", "compile_failed")


def _of_variant(variant: Variant, stage: SurveyStage, failed: SurveyStatus) -> PieceOutcome:
    ended = variant.exit
    if ended is None:
        return PieceOutcome(failed, stage, variant.reason)
    outcome = replace(of_early_end(ended, stage=stage), stage=stage)
    if outcome.status in ("timeout", "out_of_memory") or ended.reason in ("killed", "exited"):
        return outcome
    error = ended.message or variant.reason
    return PieceOutcome(failed, stage, error, ended.error_type, cut(ended.traceback))


def _failed(error: CallError, diagnosis: Diagnosis, *, is_compiled: bool) -> PieceOutcome:
    name = error.type.rpartition(".")[2]
    words = first_line(f"{name}: {error.message}" if error.message else name)[:_MAX_WORDS]
    trace = cut(error.traceback)
    if error.type in _OUT_OF_MEMORY:
        stage: SurveyStage = "call" if is_compiled else "eager"
        return PieceOutcome("out_of_memory", stage, words, error.type, trace)
    if is_compiled:
        backend = diagnosis.recording.target.compile_arguments.get("backend")
        stage = compiler_stage(error.type, error.traceback, backend=backend)
        return PieceOutcome("compile_failed", stage, words, error.type, trace)
    if error.eager and error.eager_message:
        words = first_line(f"{error.eager}: {error.eager_message}")[:_MAX_WORDS]
    return PieceOutcome("eager_failed", "eager", words, error.eager or error.type, trace)


def compiler_stage(error_type: str, traceback: str, *, backend: object) -> SurveyStage:
    """Return the part of the compiler that raised an exception.

    The exception's own module names it, or the innermost frame in one of the folders of torch's
    parts (``_dynamo``, ``_functorch``, ``_inductor``; 2.11 to 2.15), in the traceback of the first
    of chained exceptions.
    """
    folder = next(iter(_FRAME.findall(traceback.partition(_CHAINED)[0])[-1:]), "")
    if error_type == _BACKEND_FAILED:
        if folder == "_functorch":
            return "aot"
        return "inductor" if backend == "inductor" else "backend"
    for part in ("_inductor", "_dynamo"):
        if error_type.startswith(f"torch.{part}."):
            return _PARTS[part]
    return _PARTS.get(folder, "call")


def cut(traceback: str | None) -> str | None:
    """Return a traceback short enough for a table: its beginning and its end."""
    return None if traceback is None else without_middle(traceback, _MAX_TRACEBACK)
