"""Rules about guards: GD301 to GD303."""

from __future__ import annotations

from collections import Counter

from graphdoctor.facts.guards import GuardChange, Guards, GuardSet
from graphdoctor.facts.recording import Compile, Frame
from graphdoctor.rules.toolkit import (
    REGIONAL,
    SKIP_ALL,
    SKIP_INBUILT,
    Fixes,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
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

    def findings(self, view: RecordingView) -> Matches:
        guards = view.recording.guards
        share = guards.known_share if guards else None
        run = [found for found in guards.sets if found.known_share] if guards else []
        if guards is None or share is None or share < _MIN_SHARE or not run:
            return
        costliest = max(run, key=lambda found: found.known_share or 0)
        least = "at least " if guards.share is None else ""
        frame = view.frame(costliest.compile_id)
        if frame is None:
            return
        most = f", most of it in `{frame.name}`" if len(run) > 1 else ""
        yield RuleMatch(
            entry=frame.entry,
            message=f"guard checks take {least}{percent(share)} of a steady call{most}{_parts(costliest)}",
            count=sum(found.runs_per_call or 0 for found in run),
            of=run,
            fixes=_fixes(guards),
        )


def _parts(found: GuardSet) -> str:
    """The parts that cost most, without parts of these parts."""
    if not found.check_us:
        return ""
    named: list[str] = []
    for part in sorted(found.bill, key=lambda part: -(part.check_us or 0)):
        share = (part.check_us or 0) / found.check_us
        if share < _MIN_PART or len(named) == _MAX_PARTS:
            break
        if not any(part.path.startswith(path) for path in named):
            named.append(part.path)
    return f": mostly {', '.join(f'`{path}`' for path in named)}" if named else ""


def _fixes(guards: Guards) -> Fixes:
    nodes = [node for each in guards.sets for node in each.nodes]
    if sum(node.is_module_internal for node in nodes) * 2 >= sum(
        each.guard_count for each in guards.sets
    ):
        yield from (SKIP_INBUILT, SKIP_ALL)
        return
    # Tensors alone are as little as it can need.
    if any("." in (node.path or "") or "[" in (node.path or "") for node in nodes):
        yield code_fix(
            "Pass only what the function needs: tensors instead of large dicts, lists and objects",
            "PyTorch user guide: torch.compile, guard overhead",
        )
    yield guard_filter("keep_tensor_guards_unsafe", "torch only checks tensors")


_MIN_COUNT = 1000


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

    def findings(self, view: RecordingView) -> Matches:
        most: dict[int, tuple[int, GuardSet]] = {}
        for found in view.recording.guards.sets if view.recording.guards else ():
            count = sum(node.is_module_internal for node in found.nodes)
            frame_id = view.compiles[found.compile_id].frame_id
            if count >= _MIN_COUNT and count > most.get(frame_id, (0, found))[0]:
                most[frame_id] = (count, found)
        for frame in view.recording.frames:
            if frame.frame_id in most:
                count, found = most[frame.frame_id]
                modules = Counter(node.path for node in found.nodes if node.is_module_internal)
                yield RuleMatch(
                    entry=frame.entry,
                    message=f"`{frame.name}` checks {count:,} guards on the structure of "
                    f"{counted(len(modules), 'module')} in each run",
                    count=count,
                    of=(found,),
                    fixes=(SKIP_INBUILT, REGIONAL, SKIP_ALL),
                )


_MIN_TIMES = 3
_MAX_VALUES = 4


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

    def findings(self, view: RecordingView) -> Matches:
        changes = grouped(
            ((compile_.frame_id, change.expression), (compile_, change))
            for compile_ in (view.recording.compiles if view.recording.guards is not None else ())
            for change in (
                compile_.cause.changes if compile_.cause and compile_.outcome == "compiled" else ()
            )
        )
        for (frame_id, _), found in changes.items():
            if len(found) >= _MIN_TIMES and (frame := view.frames.get(frame_id)) is not None:
                yield _match(frame, found)


def _match(frame: Frame, found: list[tuple[Compile, GuardChange]]) -> RuleMatch:
    first = found[0][1]
    known = (value for _, change in found for value in (change.old, change.new))
    values = list(dict.fromkeys(value for value in known if value is not None))
    shown = ", ".join(map(without_middle, values[:_MAX_VALUES])) + (
        ", …" if len(values) > _MAX_VALUES else ""
    )
    return RuleMatch(
        entry=first.guard_location or frame.entry,
        message=f"{quoted(first.expression)} differed in {len(found)} recompiles of `{frame.name}`"
        + (f": {shown}" if values else ""),
        of=[compile_ for compile_, _ in found],
        changes=(first,),
        torch_reason=first.guard,
        user_stack=found[0][0].stack,
        fixes=(
            call_fix(
                f"Keep {quoted(first.expression)} from changing: graphdoctor recompiles says how"
            ),
        ),
    )
