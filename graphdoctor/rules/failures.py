"""Rules about calls and compiles that fail: GD501, GD502, GD901."""

from __future__ import annotations

import re
from pathlib import Path

from graphdoctor.facts.recording import Call, CallError, Compile, FailedCompile, TargetInfo
from graphdoctor.facts.stack import TRACEBACK_LINE, StackEntry, innermost
from graphdoctor.rules.toolkit import (
    BreakRule,
    BreakSite,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    call_fix,
    code_fix,
    keep_out,
    without_middle,
)

_OF_TORCH = re.compile(
    r"\A\s*backend='[^\n]*' raised:\n|^Set TORCHDYNAMO_VERBOSE=1 [^\n]*", re.MULTILINE
)
"""What torch puts around the exception (``torch/_dynamo/exc.py``, 2.13)."""
_MOST_CHARACTERS = 200
_STAGES = (None, "eager", "inductor", "cudagraphs", "aot_eager", "aot_eager_decomp_partition")
"""Torch's own backends; None for one without a name."""
_OWN = (
    call_fix(
        "Try --backend eager: if that works, the backend itself fails on this graph", is_safe=True
    ),
)
_FAILED = frozenset({"BackendCompilerFailed", "SkipFrame"})
"""``SkipFrame``: the backend asked torch to run the frame eagerly."""


class BackendException(BreakRule, RecordingRule, code="GD501", severity="error"):
    """A backend that raised an exception while it compiled a graph.

    ## What it finds
    A graph that Dynamo captured and the backend couldn't compile. Most exceptions end the call. A
    few make torch skip the function instead.

    ## Why it costs
    The graph is not compiled: the call fails, or the function runs eagerly.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--backend", "relu_compile_error_TESTING_ONLY"]

    def forward(x):
        return torch.relu(x.sin())

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    ARGUMENTS = ["--backend", "eager"]
    ```
    Find the stage that fails: try `--backend eager` (only Dynamo), then `aot_eager` (Dynamo and
    AOTAutograd), then `inductor`. The first that raises has the bug. Report it with the graph.

    ## Fix safety
    There is no fix to apply.

    ## Source
    `torch/_dynamo/output_graph.py`, 2.13 (`call_user_compiler`); PyTorch troubleshooting guide.
    """

    torch_ids = ("GB0219",)
    gb_type = "Backend compiler exception$"
    remedies = (
        call_fix(
            "Find the stage that fails: try --backend eager, then aot_eager, then inductor",
            "PyTorch troubleshooting guide",
            is_safe=True,
        ),
    )

    def message(self, site: BreakSite) -> str:
        raised = _headline(site.cause.explanation)
        return f"the backend couldn't compile the graph: {raised or 'it raised an exception'}"

    def findings(self, view: RecordingView) -> Matches:
        failed = {graph.compile_id: graph for graph in view.recording.graphs if graph.backend_error}
        for compile_ in view.recording.compiles:
            if compile_.failure is None or compile_.failure.type not in _FAILED:
                continue
            graph, frame = failed.get(compile_.compile_id), view.frames.get(compile_.frame_id)
            error = graph.backend_error if graph else compile_.failure.message
            backend = f"`{graph.backend}` " if graph and graph.backend else ""
            raised = _headline(error)
            yield RuleMatch(
                entry=frame.entry if frame is not None else compile_.stack[-1],
                message=f"the backend {backend}raised on graph {compile_.compile_id}{f': {raised}' if raised else ''}",
                of=(compile_,),
                torch_reason=compile_.failure.message,
                user_stack=compile_.stack,
                fixes=self.remedies if graph is None or graph.backend in _STAGES else _OWN,
            )


def _headline(error: str | None) -> str:
    """The type and the first line of the text of the exception, which can stand below its type."""
    text = _OF_TORCH.sub("", error or "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    whole = next(
        (number for number, line in enumerate(lines, start=1) if not line.endswith(":")), len(lines)
    )
    return without_middle(" ".join(lines[:whole]).rstrip(":"), _MOST_CHARACTERS)


_REPORT = call_fix(
    "Report it to PyTorch with what graphdoctor bundle writes",
    "PyTorch troubleshooting guide",
    is_safe=True,
)
_ON_DATA = code_fix("Tell torch first what holds of the number, with `torch._check`")
_OTHERS = frozenset(
    {
        *(
            "Unsupported",
            "UserError",
            "TorchRuntimeError",
            "BackendCompilerFailed",
            "InvalidBackend",
            "SkipFrame",
        ),
        *(
            "RecompileError",
            "RecompileLimitExceeded",
            "FailOnRecompileLimitHit",
            "ResetRequired",
            "unknown",
        ),
        *("KeyboardInterrupt", "SystemExit", "GeneratorExit"),
    }
)
"""What torch raises for a reason of its own, and what ends a program."""
_NOT_THE_PROGRAM_S = re.compile(
    r"^<|[/\\]\w+-packages[/\\]torch[/\\]|[/\\]python3\.\d+[/\\](?!\w+-packages)"
)
"""Files of torch, of Python and of none."""


class CompilerError(RecordingRule, code="GD502", severity="error"):
    """A line that Dynamo itself failed on.

    ## What it finds
    A compile that ended with an exception inside Dynamo, such as `AttributeError`, while Dynamo
    traced a line of the program. torch raises it as `InternalTorchDynamoError`. An exception of the
    program, of an operation or of the backend is another finding, and so is a graph break where
    torch allows none.

    ## Why it costs
    The call fails, although the same call can work without torch.compile.

    ## Example
    ```python
    import torch

    class Proxy:
        scale = 2.0

        @property
        def __class__(self):
            raise AttributeError("not connected")

    PROXIES = {"remote": Proxy()}

    def forward(x):
        return torch.relu(x) * PROXIES["remote"].scale

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    Read the value outside the compiled function, and pass it in.
    ```python
    SCALE = PROXIES["remote"].scale

    def forward(x):
        return torch.relu(x) * SCALE
    ```

    ## Fix safety
    There is no fix to apply. The line is where Dynamo was, not necessarily what is wrong.

    ## Source
    `torch/_dynamo/convert_frame.py`, 2.13 (`_compile`: every exception that isn't one of torch's
    own kinds becomes an `InternalTorchDynamoError`).
    """

    def findings(self, view: RecordingView) -> Matches:
        broken = {
            record.compile_id for record in view.recording.breaks if record.effect == "raised"
        }
        for compile_ in view.recording.compiles:
            failure = compile_.failure
            if compile_.outcome != "failed" or failure is None:
                continue
            # Torch reports the exception before it wraps it, so this can be of any class.
            if compile_.compile_id in broken or failure.type in _OTHERS:
                continue
            first = next(
                (line.strip() for line in failure.message.splitlines() if line.strip()), ""
            )
            # The innermost line of the program that Dynamo traced, else the definition of the
            # frame.
            frame = view.frames.get(compile_.frame_id)
            calls = (one.error for one in view.recording.calls if one.index == compile_.call_index)
            # Dynamo asks the program's values for their length, class, … while it traces and writes
            # guards.
            raised = next(
                (_raised_in(error.traceback) for error in calls if error is not None), None
            )
            name, place = raised or ("", "")
            on_data = failure.type == "GuardOnDataDependentSymNode"
            own = (
                [code_fix(f"Have `{name}` raise nothing: torch calls it while it compiles")]
                if raised
                else []
            )
            entry = innermost(failure.stack) or (
                frame.entry if frame is not None else compile_.stack[-1]
            )
            kept_out = [keep_out(entry)] if failure.stack else []
            yield RuleMatch(
                entry=entry,
                message=f"torch.compile itself failed here with {failure.type}: {first}".rstrip(
                    ": "
                )
                + (f"; `{name}` raised it ({place})" if raised else ""),
                of=(compile_,),
                torch_reason=failure.message or None,
                user_stack=failure.stack,
                fixes=(_ON_DATA, *kept_out) if on_data else (*own, *kept_out, _REPORT),
            )


def _raised_in(traceback: str) -> tuple[str, str] | None:
    """The function that raised an exception, and its line; None if it is torch's or Python's."""
    entries = TRACEBACK_LINE.findall(traceback)
    file, line, name, _ = entries[-1] if entries else ("<unknown>", "", "", "")
    return None if _NOT_THE_PROGRAM_S.search(file) else (name, f"{Path(file).name}:{line}")


_RAISED = "TorchRuntimeError"
_BROKEN_PIPE = "BrokenPipeError"
_GOT = re.compile(r"\bgot (?P<type>\w+)\((?P<quote>['\"])(?P<words>.*)(?P=quote)\)$", re.DOTALL)
_COMPARE = code_fix("Call it without torch.compile; if that raises too, fix the program")


class UserError(RecordingRule, code="GD901", severity="error"):
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
