"""Rules about calls, compiles and exports that fail, and what a recording lacks: GD501, GD502,
GD513, GD600, GD601, GD900 to GD907.
"""

from __future__ import annotations

import re
from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.fixes import Fix, SnippetPlace
from graphdoctor.facts.recording import Call, CallError, Compile, TargetInfo
from graphdoctor.facts.stack import TRACEBACK_LINE, StackEntry, innermost
from graphdoctor.rules.toolkit import (
    CUDA_GRAPHS,
    BreakRule,
    BreakSite,
    Findings,
    Fixes,
    GapPage,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    keep_out,
    without_middle,
)

_AROUND = re.compile(
    r"\A\s*backend='[^\n]*' raised:\n|^Set TORCHDYNAMO_VERBOSE=1 [^\n]*", re.MULTILINE
)
"""Text that torch puts around the exception of a backend (``torch/_dynamo/exc.py``, 2.13)."""
_MOST_CHARACTERS = 200
_STAGES = (None, "eager", "inductor", "cudagraphs", "aot_eager", "aot_eager_decomp_partition")
"""Torch's own backends; None for one without a name."""
_REPORT = call_fix(
    "Report it to PyTorch with what graphdoctor bundle writes",
    "PyTorch troubleshooting guide",
    is_safe=True,
)
_FORBIDDEN = re.compile(r"Attempt to trace forbidden callable <function (\w+)")
"""``torch/_dynamo/variables/functions.py``, 2.13."""
_CONSTRAINT = re.compile(
    r"Constraints violated \(.*?(?:You marked|because) (\S+) (?:was inferred to be|as dynamic but"
    r" your code specialized it to be) a constant \((\S+)\)",
    re.DOTALL,
)
"""``torch/fx/experimental/symbolic_shapes.py``, 2.13: a dim that is marked as dynamic."""
_RECOMPILED = re.compile(
    r"Detected recompile when torch\.compile stance is 'fail_on_recompile'\. filename: '(.+)',"
    r" function name: '(.+)', line number: (\d+)"
)
"""``torch/_dynamo/eval_frame.py``, 2.13."""
_OTHERS = re.compile(
    "Unsupported|UserError|TorchRuntimeError|BackendCompilerFailed|InvalidBackend|SkipFrame|RecompileError"
    "|RecompileLimitExceeded|FailOnRecompileLimitHit|ResetRequired|unknown|KeyboardInterrupt|SystemExit|GeneratorExit"
)
"""Exceptions that torch raises for reasons of its own, and those that end a program."""
_NOT_THE_PROGRAM_S = re.compile(
    r"^<|[/\\]\w+-packages[/\\]torch[/\\]|[/\\]python3\.\d+[/\\](?!\w+-packages)"
)
"""Files of torch, of Python and of none."""
_OVERWRITTEN = re.compile(
    r"Error: accessing (gradient )?tensor output of CUDAGraphs that has been overwritten by a"
    r" subsequent run\. Stack trace:\s*(.*?)\. (?:To prevent|This can happen)",
    re.DOTALL,
)
"""``torch/_inductor/cudagraph_trees.py``, 2.11 to 2.15: ``format_dealloc_msg``."""
_RAISED = "TorchRuntimeError"
_BROKEN_PIPE = "BrokenPipeError"
_GOT = re.compile(r"\bgot (?P<type>\w+)\((?P<quote>['\"])(?P<words>.*)(?P=quote)\)$", re.DOTALL)


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
    `torch/_dynamo/output_graph.py`, 2.11 to 2.15 (`call_user_compiler`); PyTorch troubleshooting
    guide.
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

    def findings(self, view: RecordingView) -> Findings:
        failed = {graph.compile_id: graph for graph in view.recording.graphs if graph.backend_error}
        for compile_ in view.recording.compiles:
            failure = compile_.failure
            # ``SkipFrame``: the backend asked torch to run the frame eagerly.
            if failure is None or failure.type not in ("BackendCompilerFailed", "SkipFrame"):
                continue
            graph = failed.get(compile_.compile_id)
            backend = graph and graph.backend
            raised = _headline(graph.backend_error if graph else failure.message)
            own = "Try --backend eager: if that works, the backend itself fails on this graph"
            yield self.finding(
                view,
                _definition(compile_, view),
                f"the backend {f'`{backend}` ' if backend else ''}raised on graph"
                f" {compile_.compile_id}{f': {raised}' if raised else ''}",
                [compile_],
                torch_reason=failure.message,
                user_stack=compile_.stack,
                fixes=self.remedies if backend in _STAGES else [call_fix(own, is_safe=True)],
            )


def _definition(compile_: Compile, view: RecordingView) -> StackEntry:
    frame = view.frames.get(compile_.frame_id)
    return frame.entry if frame is not None else compile_.stack[-1]


def _headline(error: str | None) -> str:
    """Return the type and the first line of the text of the exception, which can stand below its
    type.
    """
    headline = ""
    for line in _AROUND.sub("", error or "").splitlines():
        headline = f"{headline} {line.strip()}".strip()
        if headline and not headline.endswith(":"):
            break
    return without_middle(headline.rstrip(":"), _MOST_CHARACTERS)


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
    `torch/_dynamo/convert_frame.py`, 2.11 to 2.15 (`_compile`: every exception that isn't one of
    torch's own kinds becomes an `InternalTorchDynamoError`).
    """

    def findings(self, view: RecordingView) -> Findings:
        broken = {
            record.compile_id for record in view.recording.breaks if record.effect == "raised"
        }
        errors = {call.index: call.error for call in view.recording.calls}
        for compile_ in view.recording.compiles:
            failure = compile_.failure
            if compile_.outcome != "failed" or failure is None or compile_.compile_id in broken:
                continue
            # Torch reports the exception before it wraps it, so this can be of any class.
            if _OTHERS.fullmatch(failure.type) or _documented_error(failure.message) is not None:
                continue
            entry = innermost(failure.stack) or _definition(compile_, view)
            fixes = [keep_out(entry)] if failure.stack else []
            says, where = f"torch.compile itself failed here with {failure.type}", ""
            # Dynamo asks the program's values for their length, class, … while it traces and writes
            # guards.
            error = errors.get(compile_.call_index or 0)
            lines = [] if error is None else TRACEBACK_LINE.findall(error.traceback)
            file, number, name, _ = lines[-1] if lines else ("<unknown>", "", "", "")
            if not _NOT_THE_PROGRAM_S.search(file):
                where = f"; `{name}` raised it ({Path(file).name}:{number})"
            if failure.type == "GuardOnDataDependentSymNode":
                says = "this line needs a number that torch doesn't know while it traces"
                title = "Tell torch first what holds of the number, with `torch._check`"
                fixes.insert(0, code_fix(title))
            else:
                fixes.append(_REPORT)
                if where:
                    title = f"Don't raise in `{name}`: torch calls it while it compiles"
                    fixes.insert(0, code_fix(title))
            first = failure.message.strip().partition("\n")[0].strip()
            yield self.finding(
                view,
                entry,
                f"{says}: {first}".rstrip(": ") + where,
                [compile_],
                torch_reason=failure.message or None,
                user_stack=failure.stack,
                fixes=fixes,
            )


class UserError(RecordingRule, code="GD901", severity="error"):
    """A call that failed with an error of the program.

    ## What it finds
    A call that raised an exception that doesn't come from torch.compile, or one that torch
    documents for a program that uses it in a way it doesn't allow: `set_stance` inside a compiled
    function, a recompile under the stance `fail_on_recompile`, a fixed size that is marked as
    dynamic. While tracing, torch raises `TorchRuntimeError` where eager mode raises the operation's
    own exception. In a log that graphdoctor didn't record, that exception is all that is known of
    such a call.

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
    `torch/_dynamo/exc.py`, 2.11 to 2.15 (`TorchRuntimeError`). graphdoctor repeats the call without
    torch.compile to find out whether it fails there too.
    """

    guide = "torch/_dynamo/exc.py, 2.11 to 2.15"
    remedies = (code_fix("Call it without torch.compile; if that raises too, fix the program"),)

    def findings(self, view: RecordingView) -> Findings:
        recording = view.recording
        failed = [compile_ for compile_ in recording.compiles if compile_.outcome == "failed"]
        if recording.is_foreign and not recording.calls:
            for compile_ in failed:
                failure = compile_.failure
                entry = innermost(failure.stack) if failure is not None else None
                if failure is not None and failure.type == _RAISED and entry is not None:
                    yield self.finding(
                        view,
                        entry,
                        f"torch.compile raised {_RAISED} here: {failure.chain[0].gb_type}",
                        [compile_],
                        reasons=failure.chain,
                        user_stack=failure.stack,
                    )
            return
        # Without an end of the run, its pipe broke because the command that read it was killed.
        is_over = recording.exit.reason not in (None, "lost", "running")
        for call in recording.calls:
            error = call.error
            if error is None or error.from_compiler or (error.type == _BROKEN_PIPE and not is_over):
                continue
            if not _OVERWRITTEN.search(error.message) and _documented_error(error.message) is None:
                yield self._of_call(view, call, error, failed[-1:])
        yield from self._documented(view, failed)

    def _documented(self, view: RecordingView, failed: list[Compile]) -> Findings:
        """Yield what torch documents as an error of the program: in compiles, in calls, and at the
        end of a script.
        """
        calls = [call.error.message for call in view.recording.calls if call.error is not None]
        texts: list[tuple[str, Compile | None]] = [
            *((compile_.failure.message, compile_) for compile_ in failed if compile_.failure),
            *((text, None) for text in (*calls, view.recording.exit.traceback or "")),
        ]
        for text, compile_ in texts:
            entry, message, fix = _documented_error(text) or (None, "", None)
            if fix is not None and entry is None and compile_ is not None and compile_.failure:
                entry = innermost(compile_.failure.stack) or _definition(compile_, view)
            if fix is not None and entry is not None:
                compiles = [] if compile_ is None else [compile_]
                yield self.finding(view, entry, message, compiles, torch_reason=text, fixes=[fix])
                return

    def _of_call(
        self, view: RecordingView, call: Call, error: CallError, failed: list[Compile]
    ) -> Finding:
        failure = failed[0].failure if failed else None
        stack = failure.stack if failure is not None else ()
        first = next((line for line in error.message.splitlines() if line.strip()), "")
        kind = error.type.rpartition(".")[2]
        chain = failure.chain if failure is not None and kind == _RAISED else ()
        # What was raised stands at the end of torch's explanation.
        if chain and (got := _GOT.search(chain[0].explanation or "")):
            first = f"{got['type']}: {got['words'].rstrip('.')}"
        # The innermost line of the code being traced, or of the program's traceback.
        entry = innermost(stack) or _raising_line(
            error.traceback, view.recording.exit.traceback or ""
        )
        is_fine = error.eager == "ok"
        is_same = (error.eager, error.eager_message) == (kind, error.message)
        # The verdict has the words of an error that eager mode raises, too.
        outcome = (
            ", as it does without torch.compile" if is_same else f": {first}{_in_eager(error)}"
        )
        return self.finding(
            view,
            entry,
            f"call {call.index} raised {kind}{outcome}",
            failed,
            count=1,
            torch_reason=None if chain else error.message,
            reasons=chain,
            user_stack=stack,
            fixes=[keep_out(entry) if is_fine else code_fix(_advice(error, view.recording.target))],
        )


def _documented_error(text: str) -> tuple[StackEntry | None, str, Fix] | None:
    """Read a documented error of torch's: the line if its text has it, what is wrong, and what to
    do.
    """
    if (error := _FORBIDDEN.search(text)) is not None:
        message = f"torch allows no `{error[1]}` inside a compiled function"
        return None, message, code_fix("Call it outside the compiled function")
    if (error := _CONSTRAINT.search(text)) is not None:
        size = expression(error[1])
        message = f"`{size}` is marked as dynamic, but the code fixes it to {error[2]}"
        title = f"Don't mark `{size}`, or write the code so that it holds for other sizes"
        stack = TRACEBACK_LINE.findall(text[error.end() :])
        return _entry(*stack[-1]) if stack else None, message, code_fix(title)
    if (error := _RECOMPILED.search(text)) is not None:
        file, function, line = error.groups()
        message = f"`{function}` needs a recompile, which the stance `fail_on_recompile` forbids"
        title = "Make a call with these values before the stance is set, or mark what varies as"
        fix = call_fix(f"{title} dynamic (torch._dynamo.mark_dynamic)")
        return _entry(file, line, function, ""), message, fix
    return None


def _advice(error: CallError, target: TargetInfo) -> str:
    is_changed = {target.call_options.get(name) for name in ("dtype", "batch")} != {None}
    if is_changed and error.eager is not None:
        return (
            "Make the call with its own dtype and batch size; if that raises too, fix the program"
        )
    return "Fix the program, then run graphdoctor again"


def _in_eager(error: CallError) -> str:
    if error.eager is None:
        return ""
    if error.eager == "ok":
        return "; without torch.compile, the call works"
    message = (error.eager_message or "").strip().partition("\n")[0]
    return (
        f"; without torch.compile, it raises {error.eager}{f': {message}' if message else ' too'}"
    )


_GENERATED = re.compile(r"^<eval_with_key>|[/\\]torchinductor_\w+[/\\]")
"""Files of code that Dynamo or Inductor generated."""


def _raising_line(traceback: str, in_eager: str = "") -> StackEntry:
    """Return the innermost line of the program: where generated code raised, that of the same error
    in eager mode.
    """
    lines = TRACEBACK_LINE.findall(traceback)
    if any(_GENERATED.search(line[0]) for line in lines):
        lines = TRACEBACK_LINE.findall(in_eager) or lines
    program = [
        line
        for line in lines
        if "/site-packages/" not in line[0].replace("\\", "/") and not _GENERATED.search(line[0])
    ]
    shown = program or lines
    return _entry(*shown[-1] if shown else ("<unknown>", "0", "<unknown>", ""))


def _entry(file: str, line: str, function: str, text: str) -> StackEntry:
    return StackEntry(file=file, line=int(line), function=function, text=text.strip() or None)


class OverwrittenResult(RecordingRule, code="GD513", severity="error"):
    """A result of a CUDA graph that is read after a later call has overwritten it.

    ## What it finds
    A program that ends with torch's error "accessing tensor output of CUDAGraphs that has been
    overwritten by a subsequent run": the line that reads the tensor, and the compiled line that
    made it.

    ## Why it costs
    The program fails. A CUDA graph writes its results to the same memory in each run. By default,
    each call of a compiled function begins a new step, and the results of the step before are gone.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--mode", "reduce-overhead", "--device", "cuda"]

    RESULTS = []

    def forward(x):
        y = x @ x
        RESULTS.append(y)
        torch._dynamo.graph_break()
        return RESULTS[0] + y

    def inputs():
        return [(torch.ones(64, 64),)] * 4
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x @ x
        torch._dynamo.graph_break()
        RESULTS.append(y.clone())
        return RESULTS[0] + y
    ```
    The copy must be made outside the graph. If several calls of compiled functions are one step, as
    in a loop over layers, call `torch.compiler.cudagraph_mark_step_begin()` once before each step:
    results then last until the next step. Before each call, it changes nothing.

    ## Fix safety
    Both are safe. A copy takes memory, and so do results that last longer.

    ## Source
    PyTorch user guide, "CUDA Graph Trees"; `torch/_inductor/cudagraph_trees.py`, 2.11 to 2.15.
    """

    guide = CUDA_GRAPHS
    remedies = (
        code_fix("Clone the result outside the compiled function, before the next call"),
        call_fix(
            "If these calls are one step, call torch.compiler.cudagraph_mark_step_begin() once"
            " before each step"
        ),
    )

    def findings(self, view: RecordingView) -> Findings:
        recording = view.recording
        errors = [call.error.traceback for call in recording.calls if call.error is not None]
        for text in (*errors, recording.exit.traceback or ""):
            if (error := _OVERWRITTEN.search(text)) is None:
                continue
            made = TRACEBACK_LINE.findall(f"  {error[2]}\n")
            what = "a gradient" if error[1] else "a result"
            yield self.finding(
                view,
                _raising_line(text[: error.start()]),
                f"this reads {what} of a CUDA graph that a later call has overwritten",
                torch_reason=error[0],
                fixes=_FOR_GRADIENTS if error[1] else self.remedies,
                related=[(_entry(*line), "made here") for line in made[-1:]],
            )
            return


_FOR_GRADIENTS = (
    code_fix("Set gradients to None before each backward, as optimizer.zero_grad() does"),
    call_fix("To accumulate gradients, allocate them before the first compiled backward"),
)


class ExportError(BreakRule, code="GD600", severity="error"):
    """torch.export raised an error.

    ## What it finds
    An error that `torch.export` raises on a line that works in eager mode, and that no other rule
    describes. The message is torch's own. Only `graphdoctor export` finds it.

    ## Why it costs
    There is no exported program. In non-strict mode, Python runs the code with tensors that have no
    values (`FakeTensor`), so whatever leaves torch, such as `tensor.numpy()`, has nothing to work
    with.

    ## Example
    ```python
    import numpy
    import torch

    def forward(x):
        return x + torch.from_numpy(numpy.sin(x.numpy()))

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        return x + torch.sin(x)
    ```
    If the other mode exports the program, use that: `strict=True` follows NumPy calls.

    ## Fix safety
    It depends on the line.

    ## Source
    PyTorch documentation, "torch.export programming model"; torch's own message.
    """

    topic = "export_error"

    def message(self, site: BreakSite) -> str:
        if not site.expression.strip() or not site.records[0].is_stack_exact:
            return "torch.export raises an error"
        return f"torch.export can't trace `{site.shown}`"

    def suggested(self, site: BreakSite) -> Fixes:
        if site.records[0].is_stack_exact:
            title = (
                "Write this line with torch's own operations, or compute it before the exported"
                " part"
            )
            yield code_fix(title, "PyTorch documentation: torch.export programming model")


class ExportType(BreakRule, code="GD601", severity="error"):
    """A class that torch.export can't take apart.

    ## What it finds
    An argument or a result of a class of the program's own, where `torch.export` needs tensors,
    numbers, strings, or tuples, lists and dicts of these. Only `graphdoctor export` finds it.

    ## Why it costs
    There is no exported program: its inputs and outputs are the tensors in the arguments and
    results, and torch doesn't look for them in an object that it doesn't know.

    ## Example
    ```python
    from dataclasses import dataclass

    import torch

    @dataclass
    class Result:
        value: torch.Tensor

    def forward(x):
        return Result(x.sin())

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    torch.export.register_dataclass(Result)
    ```
    A class that isn't a dataclass is registered with `torch.utils._pytree.register_pytree_node`, or
    its tensors are passed and returned in a tuple, a list or a dict.

    ## Fix safety
    Safe for a dataclass whose fields are all that it is made of: torch makes a new object from the
    fields.

    ## Source
    `torch/export/__init__.py`, 2.11 to 2.15 (`register_dataclass`); torch's own message.
    """

    guide = "torch/export/__init__.py, 2.11 to 2.15 (register_dataclass)"
    topic = "export_type"

    def message(self, site: BreakSite) -> str:
        names = [f"`{class_.name}`" for class_ in site.records[0].classes]
        return f"torch.export can't take {' or '.join(names) or 'an argument or a result'} apart"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        classes = site.records[0].classes
        of_numpy = [known for known in classes if known.module.partition(".")[0] == "numpy"]
        tensors = "Pass and return tensors in place of NumPy's arrays: `torch.as_tensor` makes one"
        arrays = (call_fix(tensors),) if of_numpy else ()
        if of_numpy and len(of_numpy) == len(classes):
            return arrays
        registrations = (
            _registration(known.module, known.name) for known in classes if known.is_dataclass
        )
        title = (
            "Leave it out, put its tensors into a tuple, a list or a dict, or register the class"
            " with "
        )
        register = code_fix(f"{title}`torch.utils._pytree.register_pytree_node`")
        return (*arrays, *registrations, register)


def _registration(module: str, name: str) -> Fix:
    snippet = f"from {module} import {name}\ntorch.export.register_dataclass({name})"
    place = SnippetPlace(where="first_call", function="torch.export.export")
    return call_fix(
        f"Register `{name}`, so that torch takes it apart",
        snippet=snippet,
        place=place,
        is_safe=True,
    )


class NotMeasured(GapPage, code="GD900", severity="info"):
    """Something was not recorded or not measured.

    ## What it means
    graphdoctor tried to record or measure something and couldn't, and the message says what and
    why. Examples: the last call raised when it was repeated to measure coverage; the run ended
    early; this version of torch lacks a function that the recorder needs; a script called a
    function only once, so it has no steady call.

    ## Why it matters
    The numbers that depend on it are missing: they are `null` in the JSON document and marked as
    unknown in other reports, never 0. All other numbers and findings are valid.

    ## What to do
    Nothing, if you don't need that number. Otherwise remove the cause that the message names: make
    calls that can be repeated, give the run more time with `--timeout`, or use a torch version that
    graphdoctor supports.
    """


class IncompleteLog(GapPage, code="GD902"):
    """Part of the trace log is missing or can't be read.

    ## What it means
    The process ended while torch was writing or compiling, another program changed the log, a
    compressed log or a connection ends too early, the program itself took torch's trace logger
    apart, or this torch version writes records that graphdoctor can't read yet. The records that
    could be read are in the report.

    A log without its beginning was rotated, or copied while it was written (`tail -f`). It shows:
    it begins in the middle of a record, uses file names that it doesn't define, ends compiles that
    it doesn't start, or has `0/1` without `0/0`. The log of a process that was forked after its
    parent had compiled something looks the same.

    ## Why it matters
    Every count can be too low, and findings can be missing. `graphdoctor check` therefore reports
    such a target as crashed.

    ## What to do
    If the run was killed or timed out, record it again with more time (`--timeout`) or fewer calls.
    If the log was copied, copy it again after the process has ended. If it was rotated, put the
    parts together in one file, the oldest first. If a backend, or anything else that torch runs
    while it compiles, changes the logger `torch.__trace`, leave that out. If none of this applies,
    the torch version is probably newer than this graphdoctor: upgrade graphdoctor, or report the
    problem with `graphdoctor bundle`.
    """


class PrefixedCompileIds(GapPage, code="GD903", severity="info"):
    """Compile ids have a prefix because torch used the same ones more than once.

    ## What it means
    Several processes compiled, or the program called `torch.compiler.reset()`, and each time torch
    numbered its compiles from `0/0` again. graphdoctor tells them apart with a prefix, such as
    `p2:0/0` or `reset1:0/0`. Ranks of a job are not added up: `graphdoctor report` puts them side
    by side.

    ## Why it matters
    Counts are sums over all processes, and code that is compiled again after a reset is not a
    recompile.

    ## What to do
    Nothing: this only explains the ids. To look at one process, read its own log with `graphdoctor
    report`.
    """


class ForeignLog(GapPage, code="GD904", severity="info"):
    """graphdoctor didn't record this trace log.

    ## What it means
    The log was written with `TORCH_TRACE`, without graphdoctor's recorder. It has torch's own
    records: graphs, graph breaks, guards and compile times.

    An older torch writes less: what its log lacks is named. Before 2.6, torch didn't write graph
    breaks: they are placed where it resumed, and the lines in called functions are unknown.

    ## Why it matters
    torch doesn't log calls, coverage, steady-state times or columns, so those are unknown. Its
    stacks can lack lines, and a recompile names only the first guard that failed for each cache
    entry. The qualified names of functions are missing too, so fingerprints differ from those of a
    graphdoctor recording.

    ## What to do
    To find out more, run the program with `graphdoctor run SCRIPT` or `graphdoctor explain TARGET`.
    If you can't run it, compare such a log only with other logs of the same kind.
    """


class NothingCompiled(GapPage, code="GD905"):
    """torch compiled nothing.

    ## What it means
    The script or block ran, but torch started no compile. The message says what is known: torch was
    not imported, `torch.compile` was not called, its result was not called, it was disabled, or
    everything had been compiled before.

    A trace log that graphdoctor didn't record can be one of `torch.export` or AOTInductor, which
    write to it without compiling through Dynamo. The message says what such a log has.

    ## Why it matters
    A report without findings doesn't mean that the program compiles well here: there was nothing to
    look at.

    ## What to do
    Make sure that the program calls what `torch.compile` returned, and that neither
    `TORCH_COMPILE_DISABLE` nor `torch.compiler.set_stance("force_eager")` is in effect. In a block,
    `graphdoctor.record(reset=True)` compiles everything again. `tlparse` writes what an export's
    log has to files, and `graphdoctor export TARGET` finds out whether a target can be exported.
    """


class RankUnread(GapPage, code="GD907"):
    """A rank of the job couldn't be read, so the report is of the others alone.

    ## What it means
    Each rank is read by itself, in a process or on a node of a cluster. This one failed for good:
    its log can't be read, or the process that read it ended, also when it was tried again. The
    message says which.

    ## Why it matters
    Ranks that agree may differ from the one that is missing.

    ## What to do
    Read that rank alone to see what is wrong with it: `graphdoctor report FOLDER --rank N`. If
    memory ran out, ask for fewer jobs at a time: `--jobs 1`.
    """
