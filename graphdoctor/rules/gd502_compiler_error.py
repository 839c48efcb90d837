"""GD502: an error inside Dynamo."""

from __future__ import annotations

import builtins

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.facts.recording import Compile
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.rules.diagnosis.frames import frame_entry
from graphdoctor.rules.diagnosis.rule import RecordingRule, RecordingView, RuleMatch

_INTERNAL = "InternalTorchDynamoError"


class CompilerError(RecordingRule, code="GD502", name="compiler-error", severity="error"):
    """A line that Dynamo itself failed on.

    ## What it finds
    A compile that ended with an exception of Python's own inside Dynamo, such as `AttributeError`, while Dynamo traced
    a line of the program. torch raises it as `InternalTorchDynamoError`. An exception of the program, of an operation
    or of the backend is another finding.

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
    import torch

    class Proxy:
        scale = 2.0

        @property
        def __class__(self):
            raise AttributeError("not connected")

    PROXIES = {"remote": Proxy()}
    SCALE = PROXIES["remote"].scale

    def forward(x):
        return torch.relu(x) * SCALE

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Fix safety
    There is no fix to apply. The line is where Dynamo was, not necessarily what is wrong.

    ## Source
    `torch/_dynamo/convert_frame.py`, 2.13 (`_compile`: every exception that isn't one of torch's own kinds becomes an
    `InternalTorchDynamoError`).
    """

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        return tuple(
            _match(compile_, view)
            for compile_ in view.recording.compiles
            if compile_.outcome == "failed" and compile_.failure is not None and _is_internal(compile_.failure.type)
        )


def _is_internal(kind: str) -> bool:
    """Torch reports the exception before it wraps it; what the program raises reaches it as a kind of torch's."""
    found = getattr(builtins, kind, None)
    return kind == _INTERNAL or (isinstance(found, type) and issubclass(found, Exception))


def _match(compile_: Compile, view: RecordingView) -> RuleMatch:
    failure = compile_.failure
    message = failure.message if failure is not None else ""
    kind = failure.type if failure is not None else _INTERNAL
    first = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return RuleMatch(
        entry=_entry(compile_, view),
        message=f"torch.compile itself failed here with {kind}: {first}".rstrip(": "),
        count=1,
        compile_ids=(compile_.compile_id,),
        torch_reason=message or None,
        user_stack=failure.stack if failure is not None else (),
        fixes=(
            Fix(
                title="Keep the line out of the compiled function, in a function under torch.compiler.disable",
                kind="code",
                source="torch/_dynamo/convert_frame.py, 2.13",
            ),
            Fix(
                title="Report it to PyTorch with what graphdoctor bundle writes",
                kind="call",
                is_safe=True,
                source="PyTorch troubleshooting guide",
            ),
        ),
    )


def _entry(compile_: Compile, view: RecordingView) -> StackEntry:
    """The innermost line of the program that Dynamo traced, else the definition of the frame."""
    stack = compile_.failure.stack if compile_.failure is not None else ()
    for entry in reversed(stack):
        if entry.origin in PROGRAM_ORIGINS:
            return entry
    for frame in view.recording.frames:
        if frame.frame_id == compile_.frame_id:
            return frame_entry(frame)
    return compile_.stack[-1]
