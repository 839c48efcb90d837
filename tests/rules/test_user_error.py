"""GD901 in a log without records of calls."""

from __future__ import annotations

from graphdoctor.facts.recording import BreakReason, Call, CallError, CaptureGap, FailedCompile
from graphdoctor.rules.diagnosis.sites import view_of
from graphdoctor.rules.gd901_user_error import UserError
from tests.each import for_each
from tests.factories import compiled, entry, frame, recording

FOREIGN = CaptureGap(code="GD904", kind="foreign_log", message="This log was not recorded by graphdoctor.")


def found(kind: str = "TorchRuntimeError", *, gaps: tuple[CaptureGap, ...] = (FOREIGN,), line: int | None = 5):
    chain = (BreakReason(gb_type="RuntimeError when making fake tensor call"),)
    stack = () if line is None else (entry(line),)
    failure = FailedCompile(type=kind, message="words", chain=chain, stack=stack)
    failed = compiled("0/0").model_copy(update={"outcome": "failed", "failure": failure})
    log = recording(compiles=(failed,), frames=(frame(0),)).model_copy(update={"gaps": gaps, "calls": ()})
    return tuple(UserError().findings(view_of(log)))


def test_an_error_while_tracing_is_told_in_a_log_of_others():
    (match,) = found()

    assert match.entry.line == 5
    assert match.message == "torch.compile raised TorchRuntimeError here: RuntimeError when making fake tensor call"
    assert match.compile_ids == ("0/0",)


@for_each("arguments", [{"kind": "Unsupported"}, {"kind": "BackendCompilerFailed"}, {"gaps": ()}, {"line": None}])
def test_what_others_tell_is_told_once(arguments):
    assert found(**arguments) == ()


@for_each(
    "options, eager, title",
    [
        ({"batch": 8}, "ValueError", "Make the call with its own batch size; if that raises too, fix the program"),
        (
            {"dtype": "float16", "batch": 8},
            "ValueError",
            "Make the call with its own dtype and batch size; if that raises too, fix the program",
        ),
        ({"batch": 8}, "ok", "Fix the program, then run graphdoctor again"),
        ({"dtype": None, "batch": None}, "ValueError", "Fix the program, then run graphdoctor again"),
    ],
)
def test_a_call_that_was_changed_is_to_be_made_as_it_was(options, eager, title):
    error = CallError(type="ValueError", message="words", traceback="", eager=eager)
    call = Call(index=1, outcome="error", error=error)
    target = recording().target.model_copy(update={"call_options": options})
    log = recording().model_copy(update={"calls": (call,), "target": target})
    (match,) = UserError().findings(view_of(log))
    assert match.fixes[0].title == title
