"""GD901: an error of the program."""

from __future__ import annotations

import re

from graphdoctor.facts.recording import Call, CallError, Compile, FailedCompile, TargetInfo
from graphdoctor.facts.stack import TRACEBACK_LINE, StackEntry, innermost
from graphdoctor.rules.toolkit import (
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    keep_out,
)

_RAISED = "TorchRuntimeError"
_BROKEN_PIPE = "BrokenPipeError"
_GOT = re.compile(r"\bgot (?P<type>\w+)\((?P<quote>['\"])(?P<words>.*)(?P=quote)\)$", re.DOTALL)
_COMPARE = code_fix("Call it without torch.compile; if that raises too, fix the program")


class UserError(RecordingRule, severity="error"):
    """A call that failed with an error of the program.

    ## What it finds
    A call that raised an exception that doesn't come from torch.compile. While tracing, torch
    raises `TorchRuntimeError` where eager mode raises the operation's own exception. In a log that
    graphdoctor didn't record, that exception is all that is known of such a call.

    ## Why it costs
    Later calls were not made, so the report is partial.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.reshape(7, 7)

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        return x.reshape(8, 4)
    ```

    ## Fix safety
    There is no fix to apply: fix the program, then run `graphdoctor explain` again. If the call
    works without torch.compile, only tracing fails: keep that line out of the compiled function.

    ## Source
    `torch/_dynamo/exc.py`, 2.13 (`TorchRuntimeError`). graphdoctor repeats the call without
    torch.compile to find out whether it fails there too.
    """

    guide = "torch/_dynamo/exc.py, 2.13"

    def findings(self, view: RecordingView) -> Matches:
        recording = view.recording
        if recording.is_foreign and not recording.calls:
            for found in recording.compiles:
                if (
                    found.outcome == "failed"
                    and found.failure is not None
                    and found.failure.type == _RAISED
                ):
                    yield from _matches_of_compile(found, found.failure)
            return
        failed = next(
            (item for item in reversed(recording.compiles) if item.outcome == "failed"), None
        )
        for call in recording.calls:
            # Without an end of the run, its pipe broke because the command that read it was killed.
            is_over = recording.exit.reason not in (None, "lost", "running")
            is_killed = not is_over and call.error is not None and call.error.type == _BROKEN_PIPE
            if call.error is not None and not call.error.from_compiler and not is_killed:
                yield _match(call, call.error, failed, recording.target)


def _matches_of_compile(compile_: Compile, failure: FailedCompile) -> Matches:
    """What was raised while tracing, if that is known to be at a line of the program."""
    if (entry := innermost(failure.stack)) is not None:
        yield RuleMatch(
            entry=entry,
            message=f"torch.compile raised {_RAISED} here: {failure.chain[0].gb_type}",
            of=(compile_,),
            reasons=failure.chain,
            user_stack=failure.stack,
            fixes=(_COMPARE,),
        )


def _match(call: Call, error: CallError, failed: Compile | None, target: TargetInfo) -> RuleMatch:
    failure = failed.failure if failed is not None else None
    stack = failure.stack if failure is not None else ()
    first = next((line for line in error.message.splitlines() if line.strip()), "")
    kind = error.type.rpartition(".")[2]
    chain = failure.chain if failure is not None and kind == _RAISED else ()
    # What was raised stands at the end of torch's explanation.
    if chain and (found := _GOT.search(chain[0].explanation or "")):
        first = f"{found['type']}: {found['words'].rstrip('.')}"
    # The innermost line of the code being traced, or of the program's traceback.
    entry = innermost(stack) or _raising_line(error)
    return RuleMatch(
        entry=entry,
        message=f"call {call.index} raised {kind}: {first}{_in_eager(error)}",
        count=1,
        of=(failed,) if failed else (),
        torch_reason=None if chain else error.message,
        reasons=chain,
        user_stack=stack,
        fixes=(keep_out(entry) if error.eager == "ok" else code_fix(_advice(error, target)),),
    )


def _advice(error: CallError, target: TargetInfo) -> str:
    names = {"dtype": "dtype", "batch": "batch size"}
    changed = [text for name, text in names.items() if target.call_options.get(name) is not None]
    if changed and error.eager not in (None, "ok"):
        return f"Make the call with its own {' and '.join(changed)}; if that raises too, fix the program"
    return "Fix the program, then run graphdoctor again"


def _in_eager(error: CallError) -> str:
    if error.eager is None:
        return ""
    if error.eager == "ok":
        return "; without torch.compile, the call works"
    message = (error.eager_message or "").strip().partition("\n")[0]
    return f"; without torch.compile, it raises {error.eager}" + (
        f": {message}" if message else " too"
    )


def _raising_line(error: CallError) -> StackEntry:
    lines = TRACEBACK_LINE.findall(error.traceback)
    own = [line for line in lines if "/site-packages/" not in line[0].replace("\\", "/")] or lines
    file, number, function, text = own[-1] if own else ("<unknown>", 0, "<unknown>", "")
    return StackEntry(
        file=file, line=int(number), function=function, text=text.strip() or None, origin="user"
    )
