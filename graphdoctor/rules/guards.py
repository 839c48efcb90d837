"""Rules about guards: GD301 to GD303."""

from __future__ import annotations

import math

from graphdoctor.facts.guards import Guards, GuardSet
from graphdoctor.rules.toolkit import (
    REGIONAL,
    SKIP_ALL,
    SKIP_INBUILT,
    Findings,
    Fixes,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    counted,
    grouped,
    guard_filter,
    percent,
    quoted,
    without_middle,
)

_MIN_SHARE = 0.1
_MIN_PART = 0.2
_MAX_PARTS = 3
_MIN_STRUCTURE_GUARDS = 1000
_MIN_RECOMPILES = 3
_MAX_VALUES = 4


class GuardOverhead(RecordingRule, code="GD301"):
    """Guard checks that take a large share of a steady call.

    ## What it finds
    A steady call that spends 10% or more of its time on guard checks, as torch.profiler times them
    in the call, less the profiler's own time. If no profiler could run, they are repeated with warm
    caches, and the share is a lower bound.

    ## Why it costs
    torch checks all guards on the CPU before each run of the compiled code, while the device waits.
    The share depends on the backend: a faster one shortens the rest of the call, but not the
    checks.

    ## Example
    ```python
    import torch

    def forward(x, table):
        return x.tan() * sum(table.values())

    def inputs():
        return (torch.ones(16, 16), {f"weight {index}": index for index in range(1500)})
    ```

    ## Use instead
    ```python
    def forward(x, total):
        return x.tan() * total

    def inputs():
        return (torch.ones(16, 16), torch.tensor(float(sum(range(1500)))))
    ```
    Pass only what the function needs, and do the rest before the call. `graphdoctor guards` shows
    which argument or module the checks belong to.

    ## Fix safety
    The guard filters of `torch.compiler` are unsafe: torch doesn't notice changes of what it no
    longer checks, and the compiled code then silently gives wrong results.

    ## Source
    `torch/compiler/__init__.py`, 2.13 and 2.15 (guard filters); PyTorch user guide, "Reducing guard
    overhead".
    """

    def findings(self, view: RecordingView) -> Findings:
        guards = view.recording.guards
        if guards is None or (guards.known_share or 0) < _MIN_SHARE:
            return
        checked = [set_ for set_ in guards.sets if set_.known_share]
        costliest = max(checked, key=lambda set_: set_.known_share or 0, default=None)
        if costliest is None or (frame := view.frame(costliest.compile_id)) is None:
            return
        least = "at least " if guards.share is None else ""
        most = f", most of it in `{frame.name}`" if len(checked) > 1 else ""
        yield self.finding(
            view,
            frame.entry,
            f"guard checks take {least}{percent(guards.known_share or 0)} of a steady call{most}"
            f"{_parts(costliest)}",
            checked,
            count=sum(set_.runs_per_call or 0 for set_ in checked),
            fixes=_fixes(guards),
        )


def _parts(costliest: GuardSet) -> str:
    """Return the parts that cost most, without parts of these parts."""
    paths: list[str] = []
    for part in sorted(costliest.bill, key=lambda part: -(part.check_us or 0)):
        is_large = (part.check_us or 0) >= _MIN_PART * (costliest.check_us or math.inf)
        if not is_large or len(paths) == _MAX_PARTS:
            break
        if not part.path.startswith(tuple(paths)):
            paths.append(part.path)
    return f": mostly {', '.join(f'`{path}`' for path in paths)}" if paths else ""


def _fixes(guards: Guards) -> Fixes:
    nodes = [node for set_ in guards.sets for node in set_.nodes]
    internal_count = sum(node.is_module_internal for node in nodes)
    if internal_count * 2 >= sum(set_.guard_count for set_ in guards.sets):
        yield from (SKIP_INBUILT, SKIP_ALL)
        return
    # Tensors alone are as little as it can need.
    if any(not {".", "["}.isdisjoint(node.path or "") for node in nodes):
        yield code_fix(
            "Pass only what the function needs: tensors instead of large dicts, lists and objects",
            "PyTorch user guide: torch.compile, guard overhead",
        )
    yield guard_filter("keep_tensor_guards_unsafe", "torch only checks tensors")


class GuardsOnModules(RecordingRule, code="GD302", severity="info"):
    """Thousands of guards on the structure of modules: types, hooks, parameters, buffers.

    ## What it finds
    A compile with 1,000 or more guards on the structure of its modules, which rarely changes.

    ## Why it costs
    torch checks each of them before each run of the compiled code. The checks cost more in a model
    of many small modules than in one of a few large modules.

    ## Example
    ```python
    import torch

    net = torch.nn.Sequential(*[torch.nn.Linear(8, 8, bias=False) for _ in range(240)])
    for layer in net:
        torch.nn.init.eye_(layer.weight)

    def forward(x):
        return net(x)

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    weights = torch.nn.Parameter(torch.eye(8).repeat(240, 1, 1))

    def forward(x):
        for weight in weights:
            x = x @ weight.T
        return x

    def inputs():
        return (torch.randn(4, 8),)
    ```
    If the modules must stay, a guard filter of `torch.compiler` drops their guards.

    ## Fix safety
    The guard filters are unsafe: if a module changes after it was compiled (a replaced parameter, a
    different flag, a new hook), torch doesn't notice, and the compiled code gives the old results.
    Fewer, larger modules keep results the same.

    ## Source
    `torch/compiler/__init__.py`, 2.13 and 2.15 (`skip_guard_on_inbuilt_nn_modules_unsafe`); PyTorch
    user guide, "Reducing guard overhead" and "Regional compilation".
    """

    remedies = (SKIP_INBUILT, REGIONAL, SKIP_ALL)

    def findings(self, view: RecordingView) -> Findings:
        guards = view.recording.guards
        sets = grouped(
            (view.compiles[set_.compile_id].frame_id, set_)
            for set_ in (guards.sets if guards else ())
        )
        for frame in view.recording.frames:
            largest = max(sets.get(frame.frame_id, ()), key=_internal_count, default=None)
            if largest is None or (count := _internal_count(largest)) < _MIN_STRUCTURE_GUARDS:
                continue
            modules = {node.path for node in largest.nodes if node.is_module_internal}
            yield self.finding(
                view,
                frame.entry,
                f"`{frame.name}` checks {count:,} guards on the structure of "
                f"{counted(len(modules), 'module')} in each run",
                [largest],
                count=count,
            )


def _internal_count(set_: GuardSet) -> int:
    return sum(node.is_module_internal for node in set_.nodes)


class GuardOnChangingValue(RecordingRule, code="GD303"):
    """A guard on a value that keeps changing from call to call.

    ## What it finds
    A guarded value that differed in three or more recompiles of a function. `graphdoctor guards`
    reports it; `graphdoctor recompiles` shows each recompile.

    ## Why it costs
    The function keeps recompiling, and torch first checks every cache entry in vain. After the
    recompile limit, the function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x, name):
        return x.sin() * len(name)

    def inputs():
        return [(torch.ones(256, 256), "n" * length) for length in range(1, 6)]
    ```

    ## Use instead
    ```python
    def forward(x, length):
        return x.sin() * length

    def inputs():
        return [(torch.ones(256, 256), torch.tensor(float(length))) for length in range(1, 6)]
    ```

    ## Fix safety
    A tensor instead of a number keeps results the same, except for the dtype. torch doesn't
    specialize on a value that is read outside the compiled function.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13.
    """

    def findings(self, view: RecordingView) -> Findings:
        if view.recording.guards is None:
            return
        changes = grouped(
            ((compile_.frame_id, change.expression), (compile_, change))
            for compile_ in view.recording.compiles
            if compile_.cause is not None and compile_.outcome == "compiled"
            for change in compile_.cause.changes
        )
        for (frame_id, _), pairs in changes.items():
            if len(pairs) < _MIN_RECOMPILES or (frame := view.frames.get(frame_id)) is None:
                continue
            compile_, first = pairs[0]
            texts = (text for _, change in pairs for text in (change.old, change.new))
            values = [without_middle(text) for text in dict.fromkeys(texts) if text is not None]
            shown = values[:_MAX_VALUES] + ["…"] * (len(values) > _MAX_VALUES)
            name = quoted(first.expression)
            yield self.finding(
                view,
                first.guard_location or frame.entry,
                f"{name} differed in {len(pairs)} recompiles of `{frame.name}`"
                + (f": {', '.join(shown)}" if shown else ""),
                [compile_ for compile_, _ in pairs],
                changes=(first,),
                torch_reason=first.guard,
                user_stack=compile_.stack,
                fixes=[call_fix(f"Keep {name} from changing: graphdoctor recompiles says how")],
            )
