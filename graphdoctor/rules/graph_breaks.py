"""Rules about other graph breaks, GD100, GD113, GD116 to GD118, GD121, GD122, GD124 and GD127, and
about the functions that torch skips because of one, GD111.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.recording import Enclosing, SourceContext
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.rules.toolkit import (
    BreakRule,
    BreakSite,
    Findings,
    Fixes,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    setting,
    shortened,
)

_EMPTY_HINTS = re.compile(
    r"report an issue|file an issue|It may be possible to write Dynamo tracing rules|This graph"
    r" break is fundamental"
    r"|likely to be a Dynamo bug|caused by an earlier graph break"
    r"|Your code may result in an error when running in eager|If the HOP is activation"
    r" checkpointing",
    re.IGNORECASE,
)


class GraphBreak(BreakRule, code="GD100"):
    """A graph break without a rule of its own.

    ## What it finds
    A graph break that no other rule describes. The message and the hints are torch's own.

    ## Why it costs
    Dynamo ends the graph and starts a new one after the line. Each graph has its own guards and is
    compiled and launched separately, and no operations are fused across the break. If Dynamo can't
    resume after the line, the whole function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        y.resize_(2, 16)
        return y.cos()

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin().reshape(2, 16)
        return y.cos()
    ```

    ## Fix safety
    It depends on the break. Read torch's hints.

    ## Source
    torch's own messages. PyTorch's graph break website explains each id.
    """

    gb_type = ""

    def message(self, site: BreakSite) -> str:
        return f"`{site.shown}`: {site.gb_type}" if site.expression.strip() else site.gb_type

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        is_made = site.gb_type.startswith("Uninitialized nn.Module")
        if is_made and site.expression.startswith("super("):
            title = "Construct the module outside the compiled function"
            return (code_fix(title, "torch/nn/modules/module.py, 2.11 to 2.15"),)
        hints = (hint for hint in site.cause.hints if not _EMPTY_HINTS.search(hint))
        return tuple(
            Fix(
                title=" ".join(hint.split()),
                kind="config" if "config." in hint else "code",
                source="torch's hint",
            )
            for hint in islice(hints, 2)
        )


class RaisedException(BreakRule, code="GD113", severity="error"):
    """An exception that the compiled function raises while torch traces it, and doesn't handle.

    ## What it finds
    A `raise`, or an operation that raises, in code that torch.compile traces, without a handler in
    the function.

    ## Why it costs
    Dynamo skips the whole function so that Python can raise the exception. If the call works in
    eager mode, Dynamo doesn't support a Python operation in it and treats it as one that raises.
    Then the function always runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        if torch.compiler.is_compiling():
            raise NotImplementedError("no compiled path")
        return x.sin()

    def inputs():
        return (torch.zeros(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        return x.sin()
    ```
    Check arguments before you call the compiled function, or in the graph with `torch._check`.

    ## Fix safety
    Unsafe: the exception is raised somewhere else, or has another type.

    ## Source
    torch's own hints for GB0088; `torch/_dynamo/exc.py`, 2.11 to 2.15 (`ObservedException`).
    """

    torch_ids = ("GB0088",)
    gb_type = "Observed exception$"
    context = "attempted to jump with ConstantVariable"

    def message(self, site: BreakSite) -> str:
        raised = site.in_context(r"raised exception (.+)")
        if isinstance(site.statement_node, ast.Assert):
            return f"while tracing, the assertion `{site.shown}` fails"
        return (
            f"while tracing, `{site.shown}` raises"
            f" {f'`{shortened(raised)}`' if raised else 'an exception'}"
        )

    def suggested(self, site: BreakSite) -> Fixes:
        title = (
            "Check whether it works without torch.compile; if it does, move it out of the compiled"
            " function"
        )
        if "raise" in site.statement or isinstance(site.statement_node, ast.Assert):
            title = (
                "Check before calling the compiled function, or in the graph with `torch._check`"
            )
        yield code_fix(title, "torch's hints for GB0088")


class RecurrentModule(BreakRule, code="GD116"):
    """A call to a `torch.nn.RNN`, `GRU` or `LSTM` module.

    ## What it finds
    A call to a recurrent module in code that torch.compile traces.

    ## Why it costs
    By default, Dynamo doesn't trace recurrent modules. It ends the graph, runs the module eagerly,
    and starts a new graph.

    ## Example
    ```python
    import torch

    torch.manual_seed(0)
    rnn = torch.nn.GRU(8, 8, batch_first=True)

    def forward(x):
        return rnn(x.sin())[0].cos()

    def inputs():
        return (torch.randn(2, 4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    torch.manual_seed(0)
    rnn = torch.nn.GRU(8, 8, batch_first=True)

    CONFIG = {"torch._dynamo.config.allow_rnn": True}

    def forward(x):
        return rnn(x.sin())[0].cos()

    def inputs():
        return (torch.randn(2, 4, 8),)
    ```

    ## Fix safety
    Unsafe: the support is experimental, and torch compiles once for each sequence length.

    ## Source
    torch's own hints for GB0014; `torch/_dynamo/config.py`, 2.11 to 2.15 (`allow_rnn`).
    """

    torch_ids = ("GB0014",)
    topic = "recurrent_module"
    remedies = (
        setting(
            "allow_rnn",
            "Let torch trace recurrent modules",
            "torch's hint for GB0014",
            condition="if none is given a packed sequence",
        ),
    )

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or _is_packed(site)

    def message(self, site: BreakSite) -> str:
        if _is_packed(site):
            return (
                f"`{site.named}` is given a packed sequence, whose sizes torch reads from a tensor"
                " into Python"
            )
        name = site.in_context(r"^(\w+)\(") or site.called or site.text
        return f"`{name}` is a recurrent module, which torch doesn't trace by default"

    def finding_of(self, view: RecordingView, site: BreakSite) -> Finding:
        finding = super().finding_of(view, site)
        lines = (entry.text or "" for record in view.recording.breaks for entry in record.stack)
        # Where the program packs sequences, the setting's condition doesn't hold.
        if any(map(_PACKS.search, lines)):
            return finding.replace(fixes=tuple(self._padded(site)))
        return finding

    def suggested(self, site: BreakSite) -> Fixes:
        return self._padded(site) if _is_packed(site) else super().suggested(site)

    def _padded(self, site: BreakSite) -> Fixes:
        padded = f"Give `{site.named}` a padded tensor, and mask what it computes of the padding"
        if not _is_packed(site):
            padded += ", with `torch._dynamo.config.allow_rnn = True`"
        return (code_fix(padded), code_fix(f"Call `{site.named}` outside the compiled function"))


_PACKS = re.compile(r"\bpack_(?:padded_)?sequence\(")


def _is_packed(site: BreakSite) -> bool:
    """Return whether torch stopped at the sizes of a packed sequence, in a module that it
    traces.
    """
    is_read = site.cause.torch_id == "GB0033" or site.records[0].topic == "symbolic_number"
    return is_read and site.is_inside("/torch/nn/modules/rnn.py")


class SparseTensor(BreakRule, code="GD117"):
    """A sparse tensor inside the compiled region.

    ## What it finds
    A tensor with a sparse layout that is created in, or passed to, code that torch.compile traces.

    ## Why it costs
    Dynamo can't make a fake version of a sparse tensor. It ends the graph, or skips a function that
    has one as an argument.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        return y.to_sparse().to_dense() * 2

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        return y * 2
    ```
    Work with sparse tensors outside the compiled function, and pass the dense result in.

    ## Fix safety
    Unsafe: dense tensors take more memory.

    ## Source
    torch's own hints for GB0015 and GB0277.
    """

    torch_ids = ("GB0015", "GB0277")
    gb_type = ".*sparse Tensor"
    context = r"qualname: [\w.]*\bsparse_\w+_tensor\b"
    says = "`{site.shown}` uses a sparse tensor, which torch can't trace"
    remedies = (call_fix("Keep sparse tensors outside the compiled function", "torch's hint"),)


class InferenceModeCheck(BreakRule, code="GD118"):
    """`tensor.is_inference()` inside the compiled region.

    ## What it finds
    A check whether a tensor was created under `torch.inference_mode()`, in code that torch.compile
    traces.

    ## Why it costs
    Dynamo ends the graph there. torch calls this break fundamental, so no setting removes it.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        if y.is_inference():
            y = y.clone()
        return y.cos()

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        return y.cos()
    ```
    Call the function under `torch.no_grad()` instead of `torch.inference_mode()`, and remove the
    check.

    ## Fix safety
    Unsafe: tensors created under `inference_mode` differ from others in more than gradients.

    ## Source
    torch's own hints for GB0045 and GB0046.
    """

    torch_ids = ("GB0045", "GB0046")
    gb_type = ".*is_inference"
    context = "method is_inference of"
    says = "`{site.shown}` checks for inference mode, which torch can't trace"
    remedies = (
        call_fix(
            "Use `torch.no_grad()` around the call instead of `inference_mode`, and remove the"
            " check",
            "torch's hint for GB0045",
        ),
    )


_ITERATOR = re.compile(r"iterator|generator|enumerate|zip|map|filter", re.IGNORECASE)


class IteratorFromOutside(BreakRule, code="GD121"):
    """An iterator or generator that was created outside the compiled region.

    ## What it finds
    A `for` loop over, or `next()` on, an iterator, a generator, `enumerate` or `zip` that is an
    argument, an attribute or a global, in code that torch.compile traces.

    ## Why it costs
    The position of an iterator is hidden state that Dynamo can't read or guard on. `next()` ends
    the graph, and a `for` loop over it makes the whole function run eagerly.

    ## Example
    ```python
    import torch

    def forward(x, steps):
        for step in steps:
            x = x.sin() * step
        return x

    def inputs():
        return (torch.randn(4, 8), iter([1, 2, 3]))
    ```

    ## Use instead
    ```python
    def inputs():
        return (torch.randn(4, 8), [1, 2, 3])
    ```
    Pass a list or a tuple, or create the iterator inside the compiled function.


    ## Fix safety
    Unsafe: a list starts over in each call, while an iterator continues where it stopped. PyTorch's
    guide passes a list for `next()` too, which would give the first item each time: the caller's
    `next()` gives the same ones.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own messages for GB0811 and GB4347.
    """

    torch_ids = ("GB0811", "GB4347", "GB0118", "GB0160")
    gb_type = (
        r"missing tp_iter|Missing tp_iternext|Unsupported next\(\) call|Unimplemented next\(\) call"
    )
    context = r"name=__(?:iter|next)__|\) __(?:iter|next)__ \[\]"
    says = (
        "`{site.looped_over}` iterates over an iterator that was created outside the compiled"
        " function"
    )

    def is_consequence(self, site: BreakSite) -> bool:
        return site.is_comprehension

    def message(self, site: BreakSite) -> str:
        if site.is_comprehension:
            return (
                f"torch skips the function around `{site.shown}`, and can't compile that by itself"
            )
        return super().message(site)

    def matches(self, site: BreakSite) -> bool:
        is_sourceless = site.gb_type.startswith("Unexpected type in sourceless builder")
        return (
            is_sourceless and _ITERATOR.search(site.torch_context) is not None
        ) or super().matches(site)

    def suggested(self, site: BreakSite) -> Fixes:
        if site.is_comprehension:
            yield code_fix(
                "Fix the break for which torch skips the function: then torch compiles this as part"
                " of it"
            )
        elif site.called == "next":
            if site.is_own_code:
                yield call_fix(
                    f"Call `{site.shown}` before the compiled function, and pass the value in"
                )
        else:
            yield code_fix(
                "Pass a list or a tuple, or create the iterator inside the compiled function"
            )


class SetOfTensors(BreakRule, code="GD122"):
    """A set of tensors.

    ## What it finds
    A `set` of tensors that is used in code that torch.compile traces.

    ## Why it costs
    Dynamo needs a fixed order for the values that it guards on, and a set has none. The line, or
    the whole function, runs eagerly.

    ## Example
    ```python
    import torch

    parts = {torch.ones(8), torch.zeros(8)}

    def forward(x):
        for part in parts:
            x = x + part
        return x.sin()

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    parts = [torch.ones(8), torch.zeros(8)]
    ```
    A dictionary with the tensors as keys works too, and still removes duplicates.


    ## Fix safety
    Safe if no code relies on the set to remove duplicates. A sum in another order can differ in its
    last bits.

    ## Source
    torch's own hints for GB0222.
    """

    torch_ids = ("GB0222",)
    gb_type = "Attempted to wrap a set with tensors"
    says = "`{site.looped_over}` uses a set of tensors, which has no fixed order"

    def suggested(self, site: BreakSite) -> Fixes:
        # A list compares the tensors' values.
        either = "" if isinstance(site.node, ast.Compare) else "in a list, or "
        yield code_fix(
            f"Keep the tensors {either}as the keys of a dictionary", "torch's hint for GB0222"
        )


class ValueNotRebuilt(BreakRule, code="GD124"):
    """A value that torch can't reconstruct after a graph break.

    ## What it finds
    A graph break while the function holds a value that exists only in Dynamo's trace: a bound
    method of an object created in the function, a generator that has started, or the exit of a
    `with`. The call, or the same line, has another break.

    ## Why it costs
    To continue in Python, Dynamo must reconstruct every live value. If it can't reconstruct one,
    the rest of the function runs eagerly.

    ## Example
    ```python
    import torch

    class Scale:
        def apply(self, x):
            print("scaling")
            return x * 2

    def forward(x):
        return Scale().apply(x.sin())

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    class Scale:
        def apply(self, x):
            return x * 2
    ```
    Fix the other break first; then this one is gone. Otherwise create the object outside the
    compiled function.


    ## Fix safety
    Creating the object outside is safe if it doesn't keep state from the call.

    ## Source
    torch's own messages for GB0092, GB8335 and GB2533.
    """

    torch_ids = ("GB0092", "GB0093", "GB1297", "GB2533", "GB8335")
    gb_type = (
        "Reconstruction failure|Generator reconstruction with mutations|reconstructing"
        " @contextmanager object"
    )

    def is_consequence(self, site: BreakSite) -> bool:
        return not (site.called or "").endswith("graph_break")

    def message(self, site: BreakSite) -> str:
        where = f" in `{site.called}`" if site.called else ""
        return f"a break{where} leaves a value that torch can't reconstruct"

    def suggested(self, site: BreakSite) -> Fixes:
        title = f"Remove the call to `{site.called}`, or make the value after it"
        if self.is_consequence(site):
            where = f"inside `{site.called}`" if site.called else f"on line {site.entry.line}"
            title = f"Fix the other break {where} first: it causes this one"
        yield code_fix(title, "torch's message for GB0092")


class ModuleHook(BreakRule, code="GD127"):
    """A hook of a module is a function that torch doesn't trace.

    ## What it finds
    A call of a module that has a hook (`register_forward_hook`, `register_forward_pre_hook`) which
    is under `torch.compiler.disable`, or which Dynamo skips. The line that calls the module is
    fine. A hook that breaks at a line of its own is reported there.

    ## Why it costs
    `nn.Module` calls hooks in a loop, around `forward`, so the graph ends at each such module. In a
    loop of the program, torch skips the whole function.

    ## Example
    ```python
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)

    @torch.compiler.disable
    def scaled(module, arguments, result):
        return result * 2

    layer.register_forward_hook(scaled)

    def forward(x):
        return layer(x.sin()).cos()

    def inputs():
        return (torch.ones(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)

    def scaled(module, arguments, result):
        return result * 2

    layer.register_forward_hook(scaled)

    def forward(x):
        return layer(x.sin()).cos()

    def inputs():
        return (torch.ones(4, 8, requires_grad=True),)
    ```
    A hook that only observes can be removed from the model that trains, or leave early while
    compiling: `if torch.compiler.is_compiling(): return`.

    ## Fix safety
    Unsafe: someone disabled the hook for a reason, and a hook that leaves early observes nothing.

    ## Source
    `torch/nn/modules/module.py`, 2.11 to 2.15 (`_call_impl`); PyTorch user guide, "torch.compile
    and nn.Module hooks".
    """

    guide = "PyTorch user guide: torch.compile, nn.Module hooks"
    mechanism = "module_hook"

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) and "backwards hooks" not in site.gb_type

    def message(self, site: BreakSite) -> str:
        hook = _hook(site)
        whose = f" of `{site.called}`" if site.called and site.is_traced else ""
        named = f"`{hook}`, a hook{whose}," if hook else f"a hook{whose}"
        return f"{named} can't be traced by torch"

    def suggested(self, site: BreakSite) -> Fixes:
        if hook := _hook(site):
            yield call_fix(
                f"Remove `torch.compiler.disable` from `{hook}`", condition="if torch can trace it"
            )
        yield call_fix(
            "Remove the hook from the model that is compiled", condition="if it only observes"
        )


def _hook(site: BreakSite) -> str | None:
    """Return the name of the function that torch wouldn't call, such as ``scaled``."""
    name = site.in_context(r"<function ([\w.<>]+) at ")
    return None if name is None else name.rpartition("<locals>.")[2]


_LOOPS: tuple[str, ...] = ("for", "while")
_IS_CALL = re.compile(r"(?:[\w., ]+ = )?[\w.]+\([^\n]*\)\Z")
_OF_TORCH = re.compile(r"with torch\.")

_Where = tuple[StackEntry, SourceContext, Enclosing]
"""A line of the call path, its surroundings, and the block among these that torch can't resume
in."""


class SkippedFrame(RecordingRule, code="GD111", severity="error"):
    """A function that runs eagerly because torch couldn't resume after a graph break in it.

    ## What it finds
    A graph break inside a loop, a `try` or a `with`, or at another place where torch can't split
    the function. torch skips the whole function, and `torch._dynamo.explain` counts -1 breaks.

    ## Why it costs
    No part of the function is compiled, not even the part before the break. torch can only compile
    the functions that it calls, one by one. Later breaks are hidden until the first one is fixed.

    ## Example
    ```python
    import torch

    def forward(x):
        for i in range(4):
            x = x.sin()
            if i == 3:
                print("last")
        return x

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        for i in range(4):
            x = x.sin()
        return x
    ```
    Fix the break itself. Or move the body of the loop into a function, so that torch compiles the
    body even if it skips the loop. Or move the line out of the `try` or `with`.

    ## Fix safety
    Moving code into a function is safe. For the fix of the break itself, see its own rule.

    ## Source
    PyTorch user guide, "Common graph breaks"; `torch/_dynamo/symbolic_convert.py`, 2.11 to 2.15
    ("Skipping the function and falling back to eager").
    """

    def findings(self, view: RecordingView) -> Findings:
        for site in view.sites:
            skipped = [record for record in site.records if record.effect == "frame_skipped"]
            if not skipped or not site.effects.eager_frames:
                continue
            stack, effects = skipped[0].stack, site.effects
            where = next(_enclosing(site, stack, view), None)
            rests = dict.fromkeys(effects.rest_eager_frames)
            parts = [f"`{name}`" for name in effects.skipped_frames]
            parts += [
                f"the rest of `{name}`" for name in rests if name not in effects.skipped_frames
            ]
            names = " and ".join(parts)
            verb = "is" if len({*effects.eager_frames}) == 1 else "are"
            inside, related = "", []
            if where is not None:
                entry, _, block = where
                inside = f" inside a `{block.kind}`"
                line = _entry_at(entry, block.line, block.text)
                related.append((line, f"the break is inside this `{block.kind}`"))
            frames = ((entry, view.context(entry)) for entry in stack)
            frame, context = next((pair for pair in frames if pair[1]), (None, None))
            if frame is not None and context is not None and context.function_line is not None:
                line = _entry_at(frame, context.function_line, None)
                related.append((line, f"{names} {verb} skipped"))
            yield self.finding(
                view,
                site.entry,
                f"{names} {verb} not compiled: torch can't resume after a break{inside}; later"
                " breaks may be hidden",
                skipped,
                related=related,
                reasons=skipped[0].chain,
                effects=effects,
                break_effects=("frame_skipped",),
                user_stack=stack,
                fixes=_fixes(site, where),
            )


def _enclosing(
    site: BreakSite, stack: tuple[StackEntry, ...], view: RecordingView
) -> Iterator[_Where]:
    """Yield the blocks that kept torch from resuming, in any function of the call path, innermost
    first, then those whose first line the break is in.
    """
    # torch chains a reason for a loop and for a with, but not for a try. It does resume inside
    # no_grad() and the like.
    kinds: tuple[str, ...] = ("try",)
    chained = {reason.gb_type for record in site.records for reason in record.chain}
    if "graph break in loop" in chained:
        kinds = _LOOPS
    elif "Graph break under GenericContextWrappingVariable" in chained:
        kinds = ("with",)
    beginnings: list[_Where] = []
    for entry in reversed(stack):
        context = view.context(entry)
        if entry.origin == "torch" or context is None:  # nn.Module calls hooks in a loop of its own
            continue
        for block in context.enclosing:
            if block.kind in kinds:
                # What a `for` or `with` begins with is evaluated once, before it: its line is in
                # the blocks around it.
                is_within = block.kind == "while" or block.line != context.statement_line
                if is_within:
                    yield entry, context, block
                else:
                    beginnings.append((entry, context, block))
    yield from beginnings


def _entry_at(entry: StackEntry, line: int, text: str | None) -> StackEntry:
    return entry.replace(line=line, text=text, column=None, end_column=None, indent=None)


def _out_of(where: _Where, site: BreakSite) -> Fixes:
    """Return how to leave the block that kept torch from resuming, which can be in a function that
    called this one.
    """
    entry, context, block = where
    is_called = entry.at != site.entry.at
    if block.kind in _LOOPS:
        # A function that is called is compiled by itself already.
        is_alone = context.statement_line == block.line + 1 and _IS_CALL.match(context.statement)
        if not (is_called and is_alone):
            body = f"the body of the `{block.kind}` on line {block.line}"
            title = f"Move {body} into a function, so that torch compiles that"
            yield code_fix(title, is_safe=True)
        return
    # torch resumes inside its own context managers, such as no_grad().
    around = [
        outer
        for outer in context.enclosing
        if outer.kind in (block.kind, *_LOOPS) and not _OF_TORCH.match(outer.text)
    ] or [block]
    # What a ``with`` or a loop assigns can be used in it alone.
    assigned = (
        name
        for outer in around
        for name in re.findall(r"\bas (\w+)", outer.text)
        or re.findall(r"^for (\w+) in", outer.text)
    )
    if not any(re.search(rf"\b{name}\b", context.statement) for name in assigned):
        line = f"the call `{shortened(entry.text)}`" if is_called and entry.text else "this line"
        ordered = sorted(around, key=lambda outer: outer.line)
        places = " and ".join(f"the `{outer.kind}` on line {outer.line}" for outer in ordered)
        yield code_fix(f"Move {line} out of {places}")


def _fixes(site: BreakSite, where: _Where | None) -> Fixes:
    """Return what helps, unless only the fix of the break does, which has its own finding, as
    torch's own code has.
    """
    is_raised = site.cause.torch_id == "GB0088"
    if site.mechanism is not None or is_raised or (site.is_own_code and where is None):
        return
    if where is not None and site.is_own_code:
        yield from _out_of(where, site)
        return
    # A package's function isn't edited.
    if where is not None and where[0].origin == "user":
        block = where[2]
        title = (
            f"Move the `{block.kind}` on line {block.line} into a function, so that torch skips"
            " only that"
        )
        yield code_fix(title, is_safe=True)
    owner = f" of {site.entry.package}" if site.entry.package else ""
    name = f"`{site.entry.qualname or site.entry.function}`{owner}"
    outer = [entry for entry in site.stack if entry.origin in PROGRAM_ORIGINS]
    callers = [entry for entry in outer if entry.at != site.entry.at]
    # Under torch.compiler.disable, its call would still be a break at the same place.
    if callers and callers[-1].origin == "user":
        yield call_fix(f"Call {name} outside the compiled function")
    else:
        yield call_fix(f"Compile what doesn't call {name}, such as layers by themselves")
