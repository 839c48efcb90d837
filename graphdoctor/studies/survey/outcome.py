"""How a piece of a survey came out: from its diagnosis, its bench and how its processes ended.

Each status is decided by fields that say what happened, never by the words of a message.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphdoctor.rules.gate.check import empty_text, missing_records, refused_call, trouble_of
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
_FRAME = re.compile(
    r'^ *File "[^"\n]*[/\\]torch[/\\](_inductor|_functorch|_dynamo)[/\\]', re.MULTILINE
)
_CHAINED = "\nThe above exception was the direct cause of the following exception:\n"
_BACKEND_FAILED = "torch._dynamo.exc.BackendCompilerFailed"
_MAX_TRACEBACK = 8_000
_MAX_WORDS = 500


@dataclass(frozen=True)
class PieceOutcome:
    """How a piece came out. ``stage``: what failed; None where nothing did."""

    status: SurveyStatus
    stage: SurveyStage | None = None
    error: str | None = None
    error_type: str | None = None
    traceback: str | None = None


OK = PieceOutcome("ok")


def outcome_of(diagnosis: Diagnosis) -> PieceOutcome:
    """What a recorded run says of its piece."""
    refusal = refused_call(diagnosis)
    if refusal is not None and refusal.error is not None:
        return _failed(refusal.error, diagnosis, is_compiled=True)
    failed = next(
        (call.error for call in diagnosis.recording.calls if call.error is not None), None
    )
    if failed is not None:
        return _failed(failed, diagnosis, is_compiled=failed.eager == "ok")
    if diagnosis.recording.exit.reason != "finished":
        return ended_early(diagnosis.recording.exit)
    if missing_records(diagnosis) is None and (trouble := trouble_of(diagnosis)) is not None:
        return PieceOutcome("crashed", "call", trouble)
    if (empty := empty_text(diagnosis, None) or uncompiled_text(diagnosis.summary)) is not None:
        return PieceOutcome("not_compiled", "dynamo", empty)
    return OK


def ended_early(exit_: ProbeExit, *, stage: SurveyStage = "call") -> PieceOutcome:
    """What a process says of its piece that ended early, at this stage if it was past loading."""
    kind = exit_.phase_kind
    where: SurveyStage = "load" if kind in _LOADING else "eager" if kind == _EAGER else stage
    message, trace = exit_.message or "Its process ended early.", cut(exit_.traceback)
    if exit_.stopped_for == "timeout" or exit_.reason == "timeout":
        return PieceOutcome("timeout", where, message)
    if exit_.stopped_for == "memory" or exit_.error_type in _OUT_OF_MEMORY:
        return PieceOutcome("out_of_memory", where, message, exit_.error_type, trace)
    if exit_.reason == "killed" or (exit_.reason == "exited" and where != "load"):
        return PieceOutcome("crashed", where, message, None, trace)
    if exit_.hint_code in _NO_INPUTS:
        return PieceOutcome("no_inputs", "load", message)
    if exit_.hint_code not in _OTHER_HINTS:
        return PieceOutcome("skipped", "load", message)
    status: SurveyStatus = "load_failed" if where == "load" else "crashed"
    return PieceOutcome(status, where, message, exit_.error_type, trace)


def outcome_of_bench(report: BenchReport) -> PieceOutcome:
    """What a bench says of its piece, which ran when it was recorded."""
    eager, own, *_ = report.variants
    if eager.status == "failed":
        return _of_variant(eager, "eager", "eager_failed")
    if own.status == "skipped":
        return PieceOutcome("skipped", "bench", own.reason)
    if own.status == "wrong":
        return PieceOutcome("wrong", _part(own), own.reason)
    # What never stops compiling runs, and can't be timed.
    return OK if own.exit is None else _of_variant(own, _part(own) or "bench", "compile_failed")


def _of_variant(variant: Variant, stage: SurveyStage, failed: SurveyStatus) -> PieceOutcome:
    exit_ = variant.exit
    if exit_ is None:
        return PieceOutcome(failed, stage, variant.reason)
    found = ended_early(exit_, stage=stage)
    if found.status in ("timeout", "out_of_memory") or exit_.reason in ("killed", "exited"):
        return replace(found, stage=stage)
    return PieceOutcome(
        failed, stage, exit_.message or variant.reason, exit_.error_type, cut(exit_.traceback)
    )


def _part(variant: Variant) -> SurveyStage | None:
    """The part of the compiler where a variant goes wrong, if following it down found that."""
    parts: dict[str, SurveyStage] = {"inductor": "inductor", "eager": "dynamo"}
    first = None if variant.stages is None else variant.stages.first
    if first is None:
        return None
    return "aot" if first.startswith("aot_eager") else parts.get(first, "backend")


def _failed(error: CallError, diagnosis: Diagnosis, *, is_compiled: bool) -> PieceOutcome:
    words, trace = _words(error), cut(error.traceback)
    if error.type in _OUT_OF_MEMORY:
        return PieceOutcome(
            "out_of_memory", "call" if is_compiled else "eager", words, error.type, trace
        )
    if is_compiled:
        backend = diagnosis.recording.target.compile_arguments.get("backend")
        stage = compiler_stage(error.type, error.traceback, backend=backend)
        return PieceOutcome("compile_failed", stage, words, error.type, trace)
    if error.eager and error.eager_message:
        words = first_line(f"{error.eager}: {error.eager_message}")[:_MAX_WORDS]
    return PieceOutcome("eager_failed", "eager", words, error.eager or error.type, trace)


def compiler_stage(error_type: str, traceback: str, *, backend: object) -> SurveyStage:
    """The part of the compiler that raised an exception.

    The exception's own module tells, or the innermost frame in one of the folders of torch's parts
    (``_dynamo``, ``_functorch``, ``_inductor``; 2.11 to 2.15), in the traceback of the first of
    chained exceptions.
    """
    folder = next(iter(_FRAME.findall(traceback.partition(_CHAINED)[0])[-1:]), "")
    if error_type == _BACKEND_FAILED:
        return (
            "aot" if folder == "_functorch" else "inductor" if backend == "inductor" else "backend"
        )
    for part in ("_inductor", "_dynamo"):
        if error_type.startswith(f"torch.{part}."):
            return _PARTS[part]
    return _PARTS.get(folder, "call")


def cut(traceback: str | None) -> str | None:
    """A traceback short enough for a table: its beginning and its end."""
    return None if traceback is None else without_middle(traceback, _MAX_TRACEBACK)


def _words(error: CallError) -> str:
    name = error.type.rpartition(".")[2]
    return first_line(f"{name}: {error.message}" if error.message else name)[:_MAX_WORDS]
