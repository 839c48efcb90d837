"""Rules about numbers, modes, objects and structures that change: GD203 to GD205, GD212 to
GD218.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from graphdoctor.facts.expressions import is_carried
from graphdoctor.facts.guards import ChangeKind, GuardChange
from graphdoctor.facts.stack import parsed
from graphdoctor.rules.diagnosis.steadiness import steadiness_of, unsettled
from graphdoctor.rules.toolkit import (
    NO_VALUE_NEEDED,
    WITHIN_CALL,
    Findings,
    Fixes,
    RecompileGroup,
    RecompileRule,
    RecordingRule,
    RecordingView,
    by_hand,
    call_fix,
    code_fix,
    counted,
    made_dynamic,
    names,
    quoted,
    setting,
    shortened,
    without_middle,
)

_WARM_UP = "Move the compiles to a warm-up"
_APART = "each by a `torch.compile` of its own, with `isolate_recompiles=True` (since torch 2.13)"
"""Without it, all calls of ``torch.compile`` on one function share what was compiled
(``torch/__init__.py``, 2.13)."""
_SAME: dict[ChangeKind, str] = {
    "training": f"compile it for training and for evaluation, {_APART}",
    "grad_mode": f"compile it for each grad mode, {_APART}",
    "inference_mode": "use `torch.no_grad()` or `torch.inference_mode()` in all places",
    "autocast": "use autocast around the same calls each time, or inside the compiled function",
    "dtype": "convert the tensor before the call",
    "device": "move the tensor before the call",
    "requires_grad": "let the tensor require a gradient in each call, or in none",
    "default_dtype": "set the default dtype once, before the first call",
    "default_device": "set the default device once, before the first call",
    "threads": "set the number of threads once, before the first call",
    "determinism": "choose deterministic algorithms once, before the first call",
    "global_state": "set it once, before the first call",
    "function_mode": "enter the same torch function modes around each call",
    "tensor_class": "pass a tensor of the same class each time",
    "dispatch_keys": "pass a tensor of the same kind each time",
}
"""A way to keep it the same."""


class ModeFlip(RecompileRule, code="GD212"):
    """A mode, dtype or device that differs in some calls.

    ## What it finds
    Recompiles because of a different train or eval mode, grad mode, inference mode or autocast, a
    different dtype, device or `requires_grad` of a tensor, or a different setting of the process:
    default dtype, number of threads, deterministic algorithms.

    ## Why it costs
    torch compiles once for each combination. There are only a few, but they come in the middle of a
    run, most often in the first validation step.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        return [(torch.ones(4, 8),), (torch.ones(4, 8, dtype=torch.float64),)]
    ```

    ## Use instead
    ```python
    def inputs():
        return [(torch.ones(4, 8),), (torch.ones(4, 8, dtype=torch.float64).float(),)]
    ```

    ## Fix safety
    Calling both versions during warm-up keeps results the same and only moves the compile. Two
    calls of `torch.compile` on one function share what they compile, unless each has
    `isolate_recompiles=True`: then each has a recompile limit of its own.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.11 to 2.15 (`GLOBAL_STATE`,
    `TENSOR_MATCH`).
    """

    kinds = tuple(_SAME)
    is_about_calls = True

    def fixes(self, group: RecompileGroup) -> Fixes:
        each = "call it once in each combination of modes, dtypes and devices that occurs"
        yield call_fix(f"{_WARM_UP}: {each}", is_safe=True)
        # Each alone leaves the recompile to the others.
        kinds = dict.fromkeys(change.kind for change in group.changes)
        same = ", and ".join(_SAME[kind] for kind in kinds)
        yield call_fix(f"{same[0].upper()}{same[1:]}")

    def advice(self, group: RecompileGroup) -> tuple[object, ...]:
        return ()  # it's for all that changed together


class StrideChange(RecompileRule, code="GD213"):
    """A tensor whose strides differ between calls: transposed, sliced, or another memory format.

    ## What it finds
    Recompiles because a tensor of the same sizes has a different memory layout.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        return [(torch.ones(4, 4),), (torch.ones(4, 4).t(),)]
    ```

    ## Use instead
    ```python
    def inputs():
        return [(torch.ones(4, 4).contiguous(),), (torch.ones(4, 4).t().contiguous(),)]
    ```

    ## Fix safety
    `.contiguous()` keeps the values, and copies the tensor if it isn't contiguous.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/csrc/dynamo/guards.cpp`, 2.11 to 2.15
    (`TENSOR_MATCH`).
    """

    kinds = ("stride", "relation")

    def because(self, group: RecompileGroup) -> str:
        if group.first.kind == "stride":
            return group.changed
        steps = group.steps(group.first.expression)
        return f"the strides of {quoted(_with_strides(group.first))} changed: {steps}"

    def fixes(self, group: RecompileGroup) -> Fixes:
        shown = dict.fromkeys(map(_with_strides, group.changes))
        snippet = place = None
        if all(map(group.passed, group.changes)):
            snippet = "\n".join(f"{name} = {name}.contiguous()" for name in shown)
            place = group.at_call("each_call", *shown)
        title = f"Make {names(shown)} contiguous before the call"
        return (call_fix(title, snippet=snippet, place=place, is_safe=True),)


def _with_strides(change: GuardChange) -> str:
    """Return the first tensor whose strides a guard names; torch compiles strides of 0 and 1 on
    their own.
    """
    before, _, _ = change.expression.partition(".stride(")
    return re.split(r"[<>=%*+(]", before)[-1].strip()


_NAMED = re.compile(r"`?[\w.|]+`? `?[\w.|]+`?")
"""Two objects with names of their own, such as functions and members of an enumeration."""


class ObjectIdentity(RecompileRule, code="GD214"):
    """A function, module or other object that is a different one in some calls.

    ## What it finds
    Recompiles because the compiled code has a guard on the identity of an object: a lambda or
    closure that is created for each call, a module that was replaced or freed, a different backend
    callable.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly.

    ## Example
    ```python
    import torch

    def forward(x, activation):
        return activation(x) + 1

    def inputs():
        return [(torch.ones(4), lambda t: t.sin()), (torch.ones(4), lambda t: t.sin())]
    ```

    ## Use instead
    ```python
    def inputs():
        activation = lambda t: t.sin()
        return [(torch.ones(4), activation), (torch.ones(4), activation)]
    ```

    ## Fix safety
    Creating the object once keeps results the same, unless it has state that each call must start
    without.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.11 to 2.15 (`ID_MATCH`,
    `CLOSURE_MATCH`).
    """

    kinds = ("identity", "entry_gone", "backend")

    def because(self, group: RecompileGroup) -> str:
        change = group.first
        if change.kind == "backend":
            return "torch.compile got a different backend callable"
        old = f"{without_middle(change.old or 'one object')}{_made(change.old_place)}"
        new = f"{without_middle(change.new or 'a different one')}{_made(change.new_place)}"
        return f"{quoted(change.expression)} is a different object: {old} → {new}"

    def advice(self, group: RecompileGroup) -> tuple[object, ...]:
        return (*super().advice(group), _is_named(group.first), group.first.new_place)

    def fixes(self, group: RecompileGroup) -> Fixes:
        change = group.first
        where = f" ({_base_name(change.new_place)})" if change.new_place else ""
        title = f"Create {names(group.names)} once, outside the loop that makes the calls{where}"
        if _is_named(change):
            if group.is_within_call:
                return (WITHIN_CALL,)
            title = f"{_WARM_UP}: call it once with each value of {names(group.names)}"
        elif change.kind == "backend":
            title = "Pass the same backend callable to each torch.compile"
        return (code_fix(title),)


def _is_named(change: GuardChange) -> bool:
    """Return whether one named object came in the place of another."""
    is_other = change.old != change.new
    return is_other and _NAMED.fullmatch(f"{change.old} {change.new}") is not None


def _made(place: str | None) -> str:
    return f" created at {_base_name(place)}" if place else ""


def _base_name(place: str) -> str:
    return re.split(r"[/\\]", place)[-1]


_TITLES: dict[ChangeKind, str] = {
    "keys": "Pass the same keys, in the same order, in each call",
    "length": "Pass the same number of items, or stack them into one tensor",
    "type": "Pass a value of the same type in each call",
    "attribute": "Give the object the same attributes in each call",
    "aliasing": "Pass a copy if the same tensor is passed twice",
}


class StructureChange(RecompileRule, code="GD215"):
    """A dict, list or other object whose keys, length or type change from call to call.

    ## What it finds
    Recompiles because the structure of an argument changed: different keys, a different number of
    items, a list instead of a tuple, an attribute that is only sometimes there, the same tensor
    passed twice.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly.

    ## Example
    ```python
    import torch

    def forward(x, extras):
        for value in extras.values():
            x = x + value
        return x

    def inputs():
        return [(torch.ones(4), {"a": torch.ones(4)}), (torch.ones(4), {"b": torch.ones(4)})]
    ```

    ## Use instead
    ```python
    def inputs():
        return [(torch.ones(4), {"a": torch.ones(4)}), (torch.ones(4), {"a": torch.ones(4)})]
    ```

    ## Fix safety
    A stacked tensor keeps results the same. Whether you can use a fixed structure, such as zeros
    for missing entries, depends on the program.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.11 to 2.15 (`DICT_KEYS_MATCH`,
    `SEQUENCE_LENGTH`).
    """

    kinds = tuple(_TITLES)
    is_about_calls = True

    def because(self, group: RecompileGroup) -> str:
        change = group.first
        if change.kind == "aliasing":
            return f"{change.expression} became {change.new or 'the same tensor'}"
        return group.changed

    def advice(self, group: RecompileGroup) -> tuple[object, ...]:
        change = group.first
        return (*super().advice(group), change.kind, group.passed(change) is None)

    def fixes(self, group: RecompileGroup) -> Fixes:
        name, change = names(group.names), group.first
        if group.frame.origin == "torch":
            title = f"{_WARM_UP} of a few calls: torch's own code fills {name} as it runs"
            yield call_fix(title, is_safe=True)
        elif change.kind in ("keys", "length", "type") and group.passed(change) is None:
            title = f"Keep {name} the same from call to call, or compile it for each, {_APART}"
            yield call_fix(title)
        else:
            yield call_fix(_TITLES[change.kind])


class ConstantArgument(RecompileRule, code="GD216"):
    """A bool, string, None or other constant that changes from call to call.

    ## What it finds
    Recompiles because a value that was compiled as a constant changed: a flag, the name of a mode,
    an optional argument that only some calls pass.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly. A flag has two versions; a string can
    have any number.

    ## Example
    ```python
    import torch

    def forward(x, mode):
        return x.sin() if mode == "a" else x.cos()

    def inputs():
        return [(torch.ones(4), "a"), (torch.ones(4), "b")]
    ```

    ## Use instead
    ```python
    def forward(x, is_first):
        return torch.where(is_first, x.sin(), x.cos())

    def inputs():
        return [(torch.ones(4), torch.tensor(True)), (torch.ones(4), torch.tensor(False))]
    ```

    ## Fix safety
    A warm-up keeps results the same and only moves the compiles. Computing both branches costs the
    time of both.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.11 to 2.15 (`EQUALS_MATCH`).
    """

    kinds = ("flag", "text", "none", "value")
    is_about_calls = True

    def fixes(self, group: RecompileGroup) -> Fixes:
        name, first = names(group.names), group.first
        if first.kind == "none" and first.old == "None" and group.passed(first) is None:
            can_start = "if it can start with a value"
            yield code_fix(f"Set {name} before the first call", condition=can_start)
        yield call_fix(f"{_WARM_UP}: call it once with each value of {name}", is_safe=True)
        # As PyTorch's page says of conditions on globals.
        if _is_global(first):
            compute = f"Compute what depends on {name} outside of the function"
            yield code_fix(f"{compute}, and pass it in as a tensor")
        yield code_fix(f"Compile it for each value of {name}, {_APART}")


_GROWS = (
    r"\b{}(?:\.(?:append|appendleft|extend|insert|add|update|setdefault)\(|\s*\+="
    r"|\[(?!['\d])[^]]*\]\s*=(?!=))"
)
"""Statements that make a container longer; a key that stays the same does so once."""


class GrowingContainer(RecompileRule, code="GD218"):
    """A list, deque or dict that the compiled function itself fills: it is longer in each call.

    ## What it finds
    Recompiles because of the length of a container that outlives the call, such as a log of losses
    on a module, where the line that torch guards it for adds to it.

    ## Why it costs
    Code that changes a container is compiled for one length, so no call can use the code of
    another: each call recompiles, and after `recompile_limit` (8) of them the function runs
    eagerly. Tensors in it also keep what their backward pass needs.

    ## Example
    ```python
    import torch

    history = []

    def forward(x):
        loss = x.sum()
        history.append(loss)
        return loss

    def inputs():
        return [(torch.ones(4),), (torch.ones(4),)]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        return x.sum()

    def inputs():
        return [(torch.ones(4),), (torch.ones(4),)]

    # Where it is called: history.append(forward(x).detach())
    ```

    ## Fix safety
    What the caller adds is the same. If other code reads the container during the call, it sees it
    one item shorter. `detach()` keeps the value and drops its gradient. A
    `collections.deque(maxlen=…)` that is full of values of the same kind from the first call on
    keeps its length, but forgets old items.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.11 to 2.15
    (`SEQUENCE_LENGTH`).
    """

    def matches(self, change: GuardChange) -> bool:
        before, now = change.previous or change.old or "", change.new or ""
        if change.kind != "length" or not (
            before.isdecimal() and now.isdecimal() and _adds(change)
        ):
            return False
        source = change.source or ""
        # What the caller passes can be another container each time.
        is_kept = "." in source or source.startswith("G[")
        return int(before) < int(now) if is_kept else int(before) + 1 == int(now)

    def because(self, group: RecompileGroup) -> str:
        grown = [f"{quoted(_container(name))} ({group.steps(name)} items)" for name in group.names]
        line = group.first.guard_location
        by = f"`{shortened(line.text)}`" if line is not None and line.text else "it"
        return f"{by} adds to {' and '.join(grown)} in each call"

    def fixes(self, group: RecompileGroup) -> Fixes:
        yield by_hand(
            f"Return the value, and add it to `{_container(group.first.expression)}` where the"
            " function is called, with `.detach()` if it is a tensor whose gradient isn't needed"
            " there",
            "it changes what the function returns and the code that calls it",
        )
        line = group.first.guard_location
        if line is not None and re.search(r"append|extend|insert|\+=", line.text or ""):
            last_few = "Keep the last few in a `deque(maxlen=…)` that such values fill before the"
            yield by_hand(f"{last_few} first call", "how many to keep is for you to say")


def _adds(change: GuardChange) -> bool:
    """Return whether the line that torch guards the length for makes the container longer."""
    container = _container(change.expression)
    if change.guard_location is None or not change.guard_location.text:
        return False
    text = change.guard_location.text.replace('"', "'")  # as torch writes keys
    if container.endswith(".__self__"):  # of a bound method, such as `history.append`
        return f"{container.removesuffix('.__self__')}(" in text
    if re.search(_GROWS.format(re.escape(container.rpartition(".")[2])), text):
        return True
    # Under another name: what the line reads of the container itself would stand there.
    return container not in text and re.match(_GROWS.format(r"\w+"), text) is not None


def _container(length: str) -> str:
    return length.removeprefix("len(").removesuffix(")")


_READ = re.compile(r"\b(item|tolist|int|float)\(")


class NumberArgument(RecompileRule, code="GD203"):
    """A Python number that changes from call to call.

    ## What it finds
    Recompiles because an int or float that the compiled code is specialized on has a different
    value: an argument, a captured variable, or a number that an earlier part of the function read
    from a tensor. An int becomes dynamic at its second value. A float does so only if it is used in
    nothing but tensor arithmetic.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly.

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
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.11 to 2.15 (`specialize_int`,
    `capture_scalar_outputs`).
    """

    kinds = ("number",)

    def fixes(self, group: RecompileGroup) -> Fixes:
        change = group.first
        if is_carried(change.source or "") and (read := _READ.search(change.expression)):
            title = "Let torch keep the number in the graph"
            name, condition = "capture_scalar_outputs", NO_VALUE_NEEDED
            only = "if only tensor arithmetic uses it"
            return (
                setting(name, title, condition=condition, is_safe=True),
                code_fix(f"Keep the tensor: remove the call of `{read[1]}`", condition=only),
            )
        if group.is_within_call:
            return (WITHIN_CALL,)
        # An item that it selects is compiled for it, dynamic or not.
        is_index = _is_index(change)
        if not is_index and (dynamic := [*made_dynamic(group)] or [*_passed_in(change)]):
            return dynamic
        title = (
            "Pass it as a tensor if only tensor arithmetic uses it, or keep it the same from call"
            " to call: where a branch, a size or a loop needs its value, a tensor breaks the graph"
        )
        # The line that guards on the number has to compute with it alone. An item, or what the
        # first call lacks, needn't be there in each call.
        operands = {
            ast.unparse(side)
            for node in _nodes(change)
            if isinstance(node, ast.BinOp)
            for side in (node.left, node.right)
        }
        is_computed = change.guard_location is None or change.expression in operands
        passed = group.passed(change) or ""
        is_name = passed.isidentifier() and group.is_from_first
        if is_index or not is_computed or not is_name:
            return (code_fix(title),)
        place = group.at_call("each_call", passed)
        return (call_fix(title, snippet=f"{passed} = torch.tensor({passed})", place=place),)


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
    `recompile_limit` (8) of them, new values run eagerly. A scheduler that changes the rate in
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
    `torch/optim/optimizer.py`, 2.11 to 2.15.
    """

    def matches(self, change: GuardChange) -> bool:
        return change.kind in ("number", "module_number") and "param_groups" in change.expression

    def fixes(self, group: RecompileGroup) -> Fixes:
        key = re.search(r"param_groups\[\d+\]\['(\w+)'\]", group.first.expression)
        if key and key[1] != "lr":
            title = (
                f"{_WARM_UP} with a few values of `{key[1]}`: then torch makes the float dynamic"
            )
            return (call_fix(title, is_safe=True),)
        # The first value that a step saw can be a schedule's, not what was configured.
        title = (
            "Create the optimizer with `lr=torch.tensor(<your lr>)`, and change that in place, with"
            " `fill_`"
        )
        return (code_fix(f"{title}: a float assigned to `lr` replaces it", is_safe=True),)


class ModuleNumber(RecompileRule, code="GD205"):
    """An int or float attribute of a module that changes from call to call.

    ## What it finds
    Recompiles because a number that is an attribute of a module has a different value, such as a
    step counter or a scale that a schedule changes. torch treats an int attribute of a module as a
    constant, so each value causes a recompile.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly.

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
    torch's hint for this guard; `torch/_dynamo/config.py`, 2.11 to 2.15
    (`allow_unspec_int_on_nn_module`).
    """

    kinds = ("module_number",)

    def fixes(self, group: RecompileGroup) -> Fixes:
        return module_number_fixes(group.changes)


def _passed_in(change: GuardChange) -> Fixes:
    """Yield the advice for an int of a global: torch compiles it for its value, and makes only an
    argument dynamic (``wrap_symint``, ``torch/_dynamo/variables/builder.py``, 2.13).
    """
    is_int = "." not in (change.old or ".") and not {change.old, change.new} <= {"0", "1"}
    if _is_global(change) and is_int:
        yield code_fix(
            f"Pass {quoted(change.expression)} as an argument, and change it where the function is"
            " called: torch makes an int argument dynamic at its second value, and compiles a"
            " global's for each"
        )


def _is_global(change: GuardChange) -> bool:
    return (change.source or "").startswith("G['")


def module_number_fixes(changes: Sequence[GuardChange]) -> Fixes:
    """Return the fixes for a number on a module, such as ``self.step``: for an int that takes other
    values than 0 and 1, which torch compiles by themselves, if there is one.
    """
    ints = [change for change in changes if "." not in (change.old or ".")]
    ints.sort(key=lambda change: {change.old, change.new} <= {"0", "1"})
    change = next(iter(ints), changes[0])
    name = quoted(change.expression)
    if _is_index(change):
        title = f"{_WARM_UP} with each value of {name}: torch compiles an index for its value"
        return (call_fix(title, is_safe=True),)
    how = "register it with `register_buffer` where it is first set, and update it in place"
    buffer = code_fix(f"Keep {name} in a buffer, if only tensor arithmetic uses it: {how}")
    # An int of a global stays a constant under the setting, too, and so do 0 and 1.
    is_constant = "G[" in (change.source or "") or {change.old, change.new} <= {"0", "1"}
    if "." in (change.old or "") or is_constant:
        return (buffer, *_passed_in(change))
    title = "Let torch make the module's int dynamic"
    return (setting("allow_unspec_int_on_nn_module", title, "torch's hint", is_safe=True), buffer)


class NeverSettles(RecordingRule, code="GD217", severity="error"):
    """A call that recompiles each time, even with the same arguments.

    ## What it finds
    A call that still compiled something each time it was repeated with the same arguments. Usually
    the function changes a value that torch guards on, such as a counter on the module.

    ## Why it costs
    Every call recompiles, which takes far longer than running eagerly. After `recompile_limit` (8)
    compiles, torch warns once and runs the function eagerly until the process ends.

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
    PyTorch user guide, "Recompilation"; `torch/_dynamo/convert_frame.py`, 2.11 to 2.15
    (`exceeds_recompile_limit`).
    """

    def findings(self, view: RecordingView) -> Findings:
        steadiness = steadiness_of(view)
        frame, changes = unsettled(view.recording)
        if frame is None or steadiness is None:
            return
        why = f", because {names(steadiness.changing)} changed" if steadiness.changing else ""
        end = ""
        if steadiness.compiles_to_limit is not None:
            end = f", and it runs eagerly after {counted(steadiness.compiles_to_limit, 'compile')}"
        yield self.finding(
            view,
            frame.entry,
            f"`{frame.described}` recompiles in every call, even with the same arguments{why}{end}",
            count=max(
                1,
                sum(
                    compile_.has_recompiled and compile_.frame_id == frame.frame_id
                    for compile_ in view.recording.compiles
                ),
            ),
            changes=changes,
            # Values that aren't a number on a module have no fix of their own here.
            fixes=[
                fix
                for change in changes
                if change.kind == "module_number"
                for fix in module_number_fixes(
                    [
                        changed
                        for event in view.events
                        for changed in event.changes
                        if changed.key == change.key
                    ]
                    or [change]
                )
            ],
        )
