"""GD502: an error inside Dynamo."""

from __future__ import annotations

import re
from pathlib import Path

from graphdoctor.facts.stack import TRACEBACK_LINE, innermost
from graphdoctor.rules.toolkit import (
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    call_fix,
    code_fix,
    keep_out,
)

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


class CompilerError(RecordingRule, severity="error"):
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
