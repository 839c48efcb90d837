"""Rules about training in a compiled region: GD112, GD114, GD115, GD120, GD128, GD512."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoctor.facts.profiled import KeptBy
from graphdoctor.rules.toolkit import (
    BreakRule,
    BreakSite,
    Findings,
    Fixes,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    from_setting,
    percent,
    setting,
    shortened,
)

_SIDE_EFFECT = "side effect"
_MIB = 1024**2
_MIN_BYTES = 32 * _MIB
_MIN_SHARE = 0.2
_MIN_OF_PEAK = 0.1


class BackwardOrOptimizer(BreakRule, code="GD112"):
    """`backward()`, `torch.autograd.grad` or an optimizer's method inside the compiled region.

    ## What it finds
    A call to `loss.backward()`, `torch.autograd.grad`, `optimizer.step()` or
    `optimizer.zero_grad()` in code that torch.compile traces.

    ## Why it costs
    Dynamo ends the graph at each of these calls, so the training step becomes several graphs.
    AOTAutograd compiles the backward pass of the forward graphs anyway.

    ## Example
    ```python
    import torch

    weight = torch.nn.Parameter(torch.ones(8))

    def forward(x):
        loss = (x * weight).sum()
        loss.backward()
        return loss.detach()

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        return (x * weight).sum().detach()
    ```
    Compile the forward pass and the loss, and call `backward()` on the result outside. Compile the
    optimizer step separately with `torch.compile(optimizer.step)`. The whole step in parts can be
    as fast: measure both with `graphdoctor bench`.

    ## Fix safety
    Unsafe: the caller must make these calls itself, in the same order.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0123;
    `torch/optim/optimizer.py`, 2.11 to 2.15.
    """

    torch_ids = ("GB0123", "GB9186")
    # A schedule puts a function of its own around the optimizer's step, which torch skips.
    context = (
        r"qualname: (?:Optimizer|LRScheduler|GradScaler)\.|[/\\]torch[/\\]optim[/\\]"
        r"|module: torch\.autograd, qualname: backward\b"
    )
    inside = "/torch/optim/"
    says = "torch doesn't put `{site.named}` in a graph, so the code around it is compiled in parts"

    def message(self, site: BreakSite) -> str:
        is_torchs = site.entry.origin == "torch" or site.entry not in site.stack
        if site.cause.torch_id == "GB0025" and is_torchs:
            return (
                "torch breaks the graph on purpose before an optimizer's step, whose code it"
                " compiles on its own"
            )
        return super().message(site)

    def suggested(self, site: BreakSite) -> Fixes:
        name, is_traceable = site.called or "", site.cause.torch_id in self.torch_ids
        if site.cause.torch_id == "GB0123":
            # torch breaks with GB4927 where what it differentiated is returned, or used after a
            # later break.
            title = (
                "Let torch trace the backward pass (`torch._dynamo.config.trace_autograd_ops ="
                " True`), and detach "
            )
            used = "if it is used later"
            yield code_fix(f"{title}the loss right after it", "torch's hints", condition=used)
        if is_traceable:
            unused = "if nothing uses the loss later" if site.cause.torch_id == "GB0123" else None
            traced = "Let torch trace the backward pass"
            yield setting("trace_autograd_ops", traced, "torch's hint", condition=unused)
        # The parts of a step can be faster than its forward pass alone: it isn't known before it is
        # measured.
        yield code_fix(
            "Compile only the forward pass and the loss, and call this outside",
            condition="if that measures faster",
        )
        is_other = site.in_context(r"(qualname: GradScaler\.|[/\\]torch[/\\]optim[/\\])")
        is_optimizer = not is_other and site.entry in site.stack
        if not is_traceable and name.endswith("step") and is_optimizer:
            title = f"Compile the optimizer's step on its own: give `{name}` to `torch.compile`"
            yield code_fix(title, "PyTorch tutorial: compiling the optimizer")


class RequiresGradChange(BreakRule, code="GD114"):
    """A change of a tensor's `requires_grad` inside the compiled region.

    ## What it finds
    `x.requires_grad = …`, or `x.requires_grad_()` on a tensor that the function returns.

    ## Why it costs
    It can create a new autograd leaf in the middle of the graph, which AOTAutograd can't handle, so
    Dynamo ends the graph there.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        x.requires_grad = True
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
    Set it before you call the compiled function.

    ## Fix safety
    Unsafe: autograd also records the operations between the new position and the old one.

    ## Source
    torch's own hints for GB0206 and GB8985.
    """

    torch_ids = ("GB0206", "GB8985")
    gb_type = ".*requires_grad"

    def message(self, site: BreakSite) -> str:
        is_made = any(
            isinstance(node, ast.keyword) and node.arg == "requires_grad"
            for node in ast.walk(site.statement_node or ast.Pass())
        )
        what = "makes a tensor that requires" if is_made else "changes whether a tensor requires"
        return f"`{shortened(site.text)}` {what} a gradient"

    def suggested(self, site: BreakSite) -> Fixes:
        if site.is_own_code:
            if site.cause.torch_id == "GB8985" and not isinstance(site.statement_node, ast.Return):
                yield code_fix(
                    "If a later break makes the tensor leave the graph, fix that break first"
                )
            title = "Set it outside the compiled function: before the call, or on what it returns"
            yield call_fix(title, "torch's hint")


class ParameterConstructor(BreakRule, code="GD115"):
    """`torch.nn.Parameter(...)` inside the compiled region.

    ## What it finds
    A call to `torch.nn.Parameter` in code that torch.compile traces.

    ## Why it costs
    A new parameter is a new autograd leaf in the middle of the graph, so Dynamo ends the graph
    there.

    ## Example
    ```python
    import torch

    def forward(x):
        scale = torch.nn.Parameter(torch.ones(8))
        return x.sin() * scale

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    scale = torch.nn.Parameter(torch.ones(8))

    def forward(x):
        return x.sin() * scale
    ```

    ## Fix safety
    Unsafe: a parameter that is constructed once keeps its value and its gradient from call to call.

    ## Source
    torch's own hints for GB0264.
    """

    torch_ids = ("GB0264",)
    gb_type = r".*torch\.nn\.Parameter\(\)` constructor"
    says = "a parameter is constructed inside the compiled function"

    def suggested(self, site: BreakSite) -> Fixes:
        yield code_fix("Construct it once, outside the compiled function", "torch's hint")
        # torch can't keep a parameter of a module that is constructed inside.
        if not any(entry.function == "__init__" for entry in site.stack):
            title, name = "Let torch trace the constructor", "graph_break_on_nn_param_ctor"
            yield setting(name, title, "torch's hint for GB0264", value=False)


class GradientHook(BreakRule, code="GD120"):
    """A hook on gradients in the compiled region.

    ## What it finds
    A module with a backward hook (`register_full_backward_hook`), or a hook on a tensor's gradient
    whose handle the function returns, in code that torch.compile traces.

    ## Why it costs
    The backward pass is traced ahead of time, before any hook runs, so Dynamo ends the graph around
    such a module.

    ## Example
    ```python
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)

    def forward(x):
        return layer(x.sin()).cos()

    def inputs():
        return (torch.ones(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)

    CONFIG = {"torch._dynamo.config.compiled_autograd": True}

    layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)

    def forward(x):
        return layer(x.sin()).cos()

    def inputs():
        return (torch.ones(4, 8),)
    ```
    For a hook that changes the gradient of one tensor, write a `torch.autograd.Function` with that
    backward.


    ## Fix safety
    Unsafe: compiled autograd changes how the whole backward pass runs.

    ## Source
    torch's own hints for GB0083 and GB0029; `torch/_dynamo/config.py`, 2.11 to 2.15
    (`compiled_autograd`).
    """

    torch_ids = ("GB0083", "GB0029", "GB0013", "GB0100", "GB0101", "GB7444")
    gb_type = (
        "Module-level backwards hooks|Compilation of intermediate hooks|Storing Tensor hook handle"
        "|register_hook with stride-dependent code"
    )
    context = r"\ARemovableHandleVariable"

    def message(self, site: BreakSite) -> str:
        if "RemovableHandle" in site.torch_context:
            return (
                "the compiled function keeps the handle of a gradient's hook, which torch can't"
                " reconstruct"
            )
        is_module = "Module-level" in site.gb_type
        return (
            f"`{site.named}`"
            f" {'is a module with a backward hook' if is_module else 'uses a hook on a gradient'}"
        )

    def suggested(self, site: BreakSite) -> Fixes:
        if "compiled autograd" in site.gb_type:
            title = "Compile the backward pass with its hooks"
            yield setting("compiled_autograd", title, "torch's hint for GB0083")
        elif "RemovableHandle" in site.torch_context:
            yield code_fix(
                "Keep no handle of the hook, or register the hook outside the compiled function"
            )
        else:
            yield code_fix("Write the change of the gradient as a `torch.autograd.Function`")


class Checkpoint(BreakRule, code="GD128"):
    """Activation checkpointing breaks the graph.

    ## What it finds
    `torch.utils.checkpoint.checkpoint` around a function that changes something outside it, such as
    an attribute or a list, in itself or in a hook of a module that it calls; around a module with a
    hook that torch doesn't trace; and `checkpoint_sequential`, which torch doesn't trace.

    ## Why it costs
    A checkpointed function is one operation in the graph, computed again in the backward pass, so
    nothing in it can break the graph: if something does, the whole call of `checkpoint` runs
    eagerly. Computed again, a side effect would happen twice.

    ## Example
    ```python
    import torch
    from torch.utils.checkpoint import checkpoint

    seen = {}

    def block(x):
        seen["mean"] = x.mean()
        return x.sin().cos()

    def forward(x):
        return checkpoint(block, x, use_reentrant=False) * 2

    def inputs():
        return (torch.ones(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def block(x):
        return x.sin().cos(), x.mean()

    def forward(x):
        y, seen["mean"] = checkpoint(block, x, use_reentrant=False)
        return y * 2
    ```
    In place of `checkpoint_sequential`, call `checkpoint` for each segment.

    ## Fix safety
    Safe for the results: the value is computed once, in the forward pass, and no longer again in
    the backward pass.

    ## Source
    torch's hint for GB0067; `torch/_dynamo/variables/higher_order_ops.py`, 2.11 to 2.15.
    """

    mechanism = "checkpoint"

    def matches(self, site: BreakSite) -> bool:
        is_named = site.cause.torch_id == "GB4413" and "checkpoint" in site.named
        return is_named or super().matches(site)

    def message(self, site: BreakSite) -> str:
        if _SIDE_EFFECT in site.gb_type:
            return "what is checkpointed changes something outside it here"
        return f"torch can't put what `{site.called or 'checkpoint'}` checkpoints in the graph"

    def suggested(self, site: BreakSite) -> Fixes:
        title = "Keep what breaks the graph out of the function that is checkpointed"
        if _SIDE_EFFECT in site.gb_type:
            title = "Return the value from the checkpointed function, and keep it outside"
        elif "checkpoint_sequential" in site.torch_context:
            title = (
                "Call `torch.utils.checkpoint.checkpoint(segment, x, use_reentrant=False)` for each"
                " segment"
            )
        yield call_fix(title, "torch's hint for GB0067")


class SavedActivation(RecordingRule, code="GD512", severity="info"):
    """A large tensor that is kept for the backward pass, though it is cheap to compute again.

    ## What it finds
    A tensor, or equal ones of one line in repeated layers, that the forward pass keeps for the
    backward pass: 32 MiB or more, and a fifth or more of all that is kept; on a GPU also a tenth or
    more of the peak. It can be computed again from what else is kept by code that Inductor writes
    itself, such as an activation function, a norm, a softmax or a dropout mask, without matrix
    products, convolutions and new random numbers. `graphdoctor profile --backward` reports it.

    ## Why it costs
    What is kept occupies memory from the forward pass until the backward pass gets there, so it
    limits the batch. AOTAutograd computes a cheap tensor again where that saves time. Where keeping
    it takes less time, it keeps it, whatever the memory.

    ## Example
    ```python
    import torch

    def forward(x, up, down):
        return torch.nn.functional.gelu(x @ up) @ down

    def inputs():
        sizes = ((4096, 64), (64, 4096), (4096, 64))
        return tuple(torch.full(size, 0.01, requires_grad=True) for size in sizes)
    ```

    ## Use instead
    ```python
    import torch
    import torch._functorch.config

    torch._functorch.config.activation_memory_budget = 0.5

    def forward(x, up, down):
        return torch.nn.functional.gelu(x @ up) @ down

    def inputs():
        sizes = ((4096, 64), (64, 4096), (4096, 64))
        return tuple(torch.full(size, 0.01, requires_grad=True) for size in sizes)
    ```
    With a budget below 1, AOTAutograd keeps at most that share of what it would keep, and computes
    the rest again, the cheapest first. `torch.utils.checkpoint.checkpoint(function, x,
    use_reentrant=False)` around one part of the model keeps only that part's arguments. If memory
    isn't short, do neither: a longer backward pass then gains nothing.

    ## Fix safety
    Without random numbers, results and gradients stay the same but for rounding. With dropout, a
    budget can make gradients wrong without a word: the backward pass then draws other random
    numbers than the forward pass (seen with torch 2.13 and 2.15 on a CPU). It isn't suggested for
    such a program. A checkpoint restores them. A call can take
    longer: `graphdoctor fix --backward` measures by how much, and compares gradients.

    ## Source
    `torch/_functorch/config.py` and `partitioners.py`, 2.11 to 2.15; PyTorch blog, "Current and New
    Activation Checkpointing Techniques in PyTorch".
    """

    def findings(self, view: RecordingView) -> Findings:
        profiled, memory = view.recording.profiled, view.recording.memory
        if profiled is None or memory is None or not view.recording.target.has_backward:
            return
        # The peak of a process has Python and torch in it, and what was freed.
        peak = memory.peak_bytes if memory.peak_of == "allocator" else None
        for group in sorted(profiled.kept_alike, key=_bytes, reverse=True):
            first, size = group[0].tensor, _bytes(group)
            if not first.is_cheap or not first.stack or memory.saved_bytes is None:
                continue
            if size < max(_MIN_BYTES, _MIN_SHARE * memory.saved_bytes, _MIN_OF_PEAK * (peak or 0)):
                continue
            fixes = [_CHECKPOINT]
            # With a budget, torch draws random numbers anew in the backward pass.
            if not profiled.draws_random:
                budget = profiled.smaller_budget
                title = f"Keep less, and compute what is cheapest again: {budget.line}"
                fixes.insert(0, from_setting(budget, title, is_safe=True))
            operation = (first.operation or first.name).removeprefix("aten.").partition(".")[0]
            several = "" if len(group) == 1 else f"{len(group)} × "
            yield self.finding(
                view,
                first.stack[-1],
                f"the result of `{operation}`, {several}{first.tensor}, is kept for the backward"
                f" pass: {size / _MIB:,.0f} MiB, {percent(size / (memory.saved_bytes or size))} of"
                " what is kept; it is cheap to compute again",
                [kept.graph for kept in group],
                subject=f"{operation} {first.tensor}",
                fixes=fixes,
            )


def _bytes(group: Sequence[KeptBy]) -> int:
    return sum(kept.tensor.bytes or 0 for kept in group)


_CHECKPOINT = code_fix(
    "Checkpoint that part: torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)",
    "PyTorch documentation: torch.utils.checkpoint",
)
