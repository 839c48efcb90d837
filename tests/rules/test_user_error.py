"""GD901 in a log without records of calls."""

from __future__ import annotations

import pytest

from graphdoctor.diagnosis.sites import view_of
from graphdoctor.model.recording import BreakReason, CaptureGap, FailedCompile
from graphdoctor.rules.gd901_user_error import UserError
from tests.factories import compiled, entry, frame, recording

FOREIGN = CaptureGap(code="GD904", kind="foreign_log", message="This log was not recorded by graphdoctor.")


def found(kind: str = "TorchRuntimeError", *, gaps: tuple[CaptureGap, ...] = (FOREIGN,), line: int | None = 5):
    chain = (BreakReason(gb_type="RuntimeError when making fake tensor call"),)
    stack = () if line is None else (entry(line),)
    failure = FailedCompile(type=kind, message="words", chain=chain, stack=stack)
    failed = compiled("0/0").model_copy(update={"outcome": "failed", "failure": failure})
    log = recording(compiles=(failed,), frames=(frame(0),)).model_copy(update={"gaps": gaps, "calls": ()})
    return UserError().findings(view_of(log))


def test_an_error_while_tracing_is_told_in_a_log_of_others():
    (match,) = found()

    assert match.entry.line == 5
    assert match.message == "torch.compile raised TorchRuntimeError here: RuntimeError when making fake tensor call"
    assert match.compile_ids == ("0/0",)


@pytest.mark.parametrize(
    "arguments", [{"kind": "Unsupported"}, {"kind": "BackendCompilerFailed"}, {"gaps": ()}, {"line": None}]
)
def test_what_others_tell_is_told_once(arguments):
    assert found(**arguments) == ()
