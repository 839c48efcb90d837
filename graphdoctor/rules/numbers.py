"""Rules about numbers that change: GD203 to GD205, GD217."""

from __future__ import annotations

import ast
import re

from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.stack import parsed
from graphdoctor.rules.diagnosis.steadiness import steadiness_of, unsettled
from graphdoctor.rules.toolkit import (
    WITHIN_CALL,
    Findings,
    Fixes,
    RecompileGroup,
    RecompileRule,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    counted,
    names,
    quoted,
    setting,
)

_READ = re.compile(r"(\.?)\b(item|tolist|int|float)\(")


class NumberArgument(RecompileRule, code="GD203"):
    """A Python number that changes from call to call.

    ## What it finds
    Recompiles because an int or float that the compiled code is specialized on has a different
    value: an argument, a captured variable, or a number that an earlier part of the function read
        from a tensor. An int becomes dynamic at
    its second value. A float does so only if it is used in nothing but tensor arithmetic.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x, scale):
        return x.sin() * scale if scale > 0 else x.cos()

    def inputs():
        return [(torch.ones(4, 8), 2), (torch.ones(4, 8), -2)]
    ```

    ## Use instead
    ```python
    def forward(x, scale):
        return torch.where(scale > 0, x.sin() * scale, x.cos())

    def inputs():
        return [(torch.ones(4, 8), torch.tensor(2)), (torch.ones(4, 8), torch.tensor(-2))]
    ```

    ## Fix safety
    A tensor without dims can replace the number in arithmetic, but its dtype can promote
    differently than a Python number, and a branch on it needs `torch.where`. Capturing scalar
    outputs keeps results the same.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.13 (`specialize_int`,
    `capture_scalar_outputs`).
    """

    kinds = ("number",)

    def fixes(self, group: RecompileGroup) -> Fixes:
        change = group.first
        if "___stack" in (change.source or "") and (read := _READ.search(change.expression)):
            what = f"`.{read[2]}()`" if read[1] else f"the call of `{read[2]}`"
            return (
                setting(
                    "capture_scalar_outputs", "Let torch keep the number in the graph", is_safe=True
                ),
                code_fix(
                    f"Keep the tensor: remove {what}", condition="if only tensor arithmetic uses it"
                ),
            )
        if group.is_within_call:
            return (WITHIN_CALL,)
        name = group.passed(change)
        # A branch on a tensor, or a size from one, would break the graph: the line that guards on
        # the number has to compute with it alone.
        computed = {
            ast.unparse(side)
            for node in _nodes(change)
            if isinstance(node, ast.BinOp)
            for side in (node.left, node.right)
        }
        is_computed = change.expression in computed and not _is_index(change)
        if name is None or (change.guard_location is not None and not is_computed):
            title = "Keep the value the same from call to call, or in a tensor if only tensor arithmetic uses it"
            return (code_fix(title),)
        elsewhere = "where a branch, a size or a loop needs its value, a tensor breaks the graph"
        title = f"Pass `{name}` as a tensor if only tensor arithmetic uses it: {elsewhere}"
        place = group.at_call("each_call", name)
        return (call_fix(title, snippet=f"{name} = torch.tensor({name})", place=place),)


def _is_index(change: GuardChange) -> bool:
    """Return whether the line that guards on the number selects an item by it, which torch compiles
    for that item.
    """
    return any(
        isinstance(node, ast.Subscript) and change.expression in ast.unparse(node.slice)
        for node in _nodes(change)
    )


def _nodes(change: GuardChange) -> list[ast.AST]:
    """Return the nodes of the line that guards on a value; none if it can't be parsed."""
    line = change.guard_location
    return list(ast.walk(parsed(((line and line.text) or "").strip()) or ast.Module([], [])))


class LearningRate(RecompileRule, code="GD204"):
    """A learning rate, or another number of an optimizer, that changes in a compiled step.

    ## What it finds
    Recompiles because a float in an optimizer's `param_groups` has a different value, most often
    the learning rate that a scheduler changes.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly. A scheduler that changes the rate in
    each step reaches that limit after eight steps, unless torch makes the float dynamic.

    ## Example
    ```python
    import torch

    weight = torch.nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    forward = optimizer.step

    def inputs():
        for rate in (0.5, 0.25):
            optimizer.param_groups[0]["lr"] = rate
            yield ()
    ```

    ## Use instead
    ```python
    import torch

    weight = torch.nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    optimizer = torch.optim.SGD([weight], lr=torch.tensor(0.5))
    forward = optimizer.step

    def inputs():
        for rate in (0.5, 0.25):
            optimizer.param_groups[0]["lr"].fill_(rate)
            yield ()
    ```

    ## Fix safety
    A learning rate in a tensor gives the same steps, and schedulers update the tensor in place. On
    a GPU, some optimizers need `capturable=True` with it. A tensor as another number, such as
    `momentum` or `weight_decay`, breaks the graph, because the optimizer compares it with 0.

    ## Source
    PyTorch user guide, "Recompilation": wrap the learning rate in a tensor;
    `torch/optim/optimizer.py`, 2.13.
    """

    def matches(self, change: GuardChange) -> bool:
        return change.kind in ("number", "module_number") and "param_groups" in change.expression

    def fixes(self, group: RecompileGroup) -> Fixes:
        key = re.search(r"param_groups\[\d+\]\['(\w+)'\]", group.first.expression)
        if key and key[1] != "lr":
            title = f"Take steps with a few values of `{key[1]}` during warm-up: then torch makes the float dynamic"
            return (call_fix(title, is_safe=True),)
        # A schedule computes numbers such as 0.00039999999999999996.
        value = f": `lr=torch.tensor({float(group.first.old):.6g})`" if group.first.old else ""
        title = f"Create the optimizer with `lr` as a tensor{value}, and change that in place, with `fill_`"
        return (code_fix(f"{title}: a float assigned to `lr` replaces it", is_safe=True),)


class ModuleNumber(RecompileRule, code="GD205"):
    """An int or float attribute of a module that changes from call to call.

    ## What it finds
    Recompiles because a number that is an attribute of a module has a different value, such as a
    step counter or a scale that a schedule changes. torch treats an int attribute of a module as a
    constant, so each value causes a recompile.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

    ## Example
    ```python
    import torch

    class Net(torch.nn.Module):
        step = 0

        def forward(self, x):
            return x * self.step

    forward = Net()

    def inputs():
        for step in range(3):
            forward.step = step
            yield (torch.ones(4),)
    ```

    ## Use instead
    ```python
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("step", torch.tensor(0))

        def forward(self, x):
            return x * self.step

    forward = Net()

    def inputs():
        for step in range(3):
            forward.step.fill_(step)
            yield (torch.ones(4),)
    ```

    ## Fix safety
    The setting keeps results the same. A buffer is saved in the module's `state_dict` unless it has
    `persistent=False`, and moves to a device with the module.

    ## Source
    torch's hint for this guard; `torch/_dynamo/config.py`, 2.13 (`allow_unspec_int_on_nn_module`).
    """

    kinds = ("module_number",)

    def fixes(self, group: RecompileGroup) -> Fixes:
        # Of a float, torch makes a dynamic number by itself.
        changes = (change for changes in group.changes for change in changes)
        ints = (change for change in changes if "." not in (change.old or "."))
        return module_number_fixes(next(ints, group.first))


def module_number_fixes(change: GuardChange) -> Fixes:
    """Return the fixes for a number on a module, such as ``self.step``."""
    name = quoted(change.expression)
    if _is_index(change):
        title = f"Call it once with each value of {name} during warm-up: torch compiles an index for its value"
        return (call_fix(title, is_safe=True),)
    how = "register it with `register_buffer` where it is first set, and update it in place"
    buffer = code_fix(f"Keep {name} in a buffer, if only tensor arithmetic uses it: {how}")
    # An int of a global stays a constant under the setting, too.
    if "." in (change.old or "") or "G[" in (change.source or ""):
        return (buffer,)
    title = "Let torch make the module's int dynamic"
    return (setting("allow_unspec_int_on_nn_module", title, "torch's hint", is_safe=True), buffer)


class NeverSettles(RecordingRule, code="GD217", severity="error"):
    """A call that recompiles each time, even with the same arguments.

    ## What it finds
    A call that still compiled something each time it was repeated with the same arguments. Usually
    the function changes a value that torch guards on, such as a counter on the module.

    ## Why it costs
    Every call recompiles, which takes far longer than running eagerly. After `recompile_limit` (8)
    compiles, torch runs the function eagerly, without a warning, until the process ends. There is
    no steady call to measure, so coverage and the cost of breaks are unknown.

    ## Example
    ```python
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = 0

        def forward(self, x):
            self.seen += 1
            return x * self.seen

    forward = Net()

    def inputs():
        return [(torch.ones(4),), (torch.ones(4),)]
    ```

    ## Use instead
    ```python
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.tensor(0), persistent=False)

        def forward(self, x):
            self.seen += 1
            return x * self.seen

    forward = Net()
    ```

    ## Fix safety
    A buffer keeps results the same. It is saved in the module's `state_dict` unless it has
    `persistent=False`.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/convert_frame.py`, 2.13
    (`exceeds_recompile_limit`).
    """

    def findings(self, view: RecordingView) -> Findings:
        settling, steadiness = view.recording.settling, steadiness_of(view)
        frame, changes = unsettled(view.recording)
        if frame is None or settling is None or steadiness is None:
            return
        why = f", because {names(steadiness.changing)} changed" if steadiness.changing else ""
        end = ""
        if steadiness.compiles_to_limit is not None:
            end = f", and it runs eagerly after {counted(steadiness.compiles_to_limit, 'compile')}"
        yield self.finding(
            view,
            frame.entry,
            f"`{frame.described}` recompiles in every call, even with the same arguments{why}{end}",
            count=sum(compile_.frame_id == frame.frame_id for compile_ in settling.recompiles),
            changes=changes,
            # Values that aren't a number on a module have no fix of their own here.
            fixes=[
                fix
                for change in changes
                if change.kind == "module_number"
                for fix in module_number_fixes(change)
            ],
        )
