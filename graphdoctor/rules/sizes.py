"""Rules about sizes that change: GD202, GD206, GD207, GD210."""

from __future__ import annotations

import re
from collections.abc import Mapping

from graphdoctor.facts.base import sum_of_known
from graphdoctor.facts.expressions import expression, is_carried, size_dim
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.recording import Graph
from graphdoctor.rules.toolkit import (
    WITHIN_CALL,
    Findings,
    Fixes,
    RecompileEvent,
    RecompileGroup,
    RecompileRule,
    RecordingRule,
    RecordingView,
    call_fix,
    can_be_dynamic,
    code_fix,
    config_fix,
    counted,
    distinct_values,
    dynamic_sizes,
    fits_dynamic,
    grouped,
    hidden_change_count,
    is_specialized,
    made_dynamic,
    names,
    quoted,
    setting,
    shortened,
    sources_setting,
)

_ARGUMENT = re.compile(r"^L\['(\w+)'\](?:\['[^']*'\]|\[\d+\])*$")
_ROOTS = frozenset({"self", "fn", "args", "kwargs"})
_OF_SIZE = re.compile(r"\.size\(\)\[\d+\]\Z")
_OF_MODULE = re.compile(r"\._(?:parameters|buffers|modules)\[|^L\['self'\]\.")


class SizeChange(RecompileRule, code="GD202"):
    """A tensor whose size, or number of dims, changes from call to call.

    ## What it finds
    Recompiles because a dim that was compiled as static has a different size. By default, torch
    makes a dim dynamic when it sees a second size, so each dim that changes costs one recompile. So
    does each tensor that changes independently, and each size of 0 or 1.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        return [(torch.ones(4, 8),), (torch.ones(6, 8),)]
    ```

    ## Use instead
    ```python
    def inputs():
        calls = [(torch.ones(4, 8),), (torch.ones(6, 8),)]
        for (x,) in calls:
            torch._dynamo.mark_dynamic(x, 0)
        return calls
    ```

    ## Fix safety
    A dynamic dim keeps results the same. Code for any size can be slower than code for one size: if
    there are only a few sizes, pad to them, or let torch compile each of them. `dynamic=True` isn't
    suggested, as PyTorch's guide discourages it: it makes sizes dynamic that never change.

    ## Source
    PyTorch user guide, "Dynamic shapes" and "Recompilation"; `torch/_dynamo/decorators.py`, 2.11 to
    2.15 (`mark_dynamic`).
    """

    kinds = ("size", "rank", "dynamic_marking")

    def matches(self, change: GuardChange) -> bool:
        return super().matches(change) and not is_specialized(change)

    def fixes(self, group: RecompileGroup) -> Fixes:
        if group.first.kind == "rank":
            same = call_fix("Give the tensor the same number of dims in each call")
            return (WITHIN_CALL if group.is_within_call else same,)
        if group.first.kind == "dynamic_marking":
            return (call_fix("Mark the same dims in each call, from the first on"),)
        return [*made_dynamic(group)] or [*_size_fixes(group), *_last_batch(group)]

    def advice(self, group: RecompileGroup) -> tuple[object, ...]:
        return ()  # it's for all that changed together

    def because(self, group: RecompileGroup) -> str:
        why = ", and dynamic=False compiles each size by itself"
        return group.changed + (why if group.is_static and group.first.kind == "size" else "")


def _size_fixes(group: RecompileGroup) -> Fixes:
    # If one dim is compiled by itself, no mark of another saves the compile.
    changes = [change for event, change in group.pairs if fits_dynamic(event)]
    changes = changes or _beside_ones(group)
    if not changes:
        title = (
            "Move the compiles to a warm-up with each of these sizes: torch compiles sizes 0 and 1"
            " on their own"
        )
        yield call_fix(title, is_safe=True)
        return
    dims = [(change, size_dim(change.expression)) for change in changes]
    sources = {f"{change.source}.size()[{dim}]": change for change, dim in dims}
    for constant in group.constants:
        if (change := sources.get(constant.source or "")) is not None:
            # torch raises an error if such a dim is marked.
            size, text = change.expression, shortened(constant.text or "")
            title = f"Keep `{size}` from becoming a constant on line {constant.line}: `{text}`"
            yield code_fix(title)
            return
    if kept := _kept_static(group):
        title = f"Remove what keeps {names(kept)} static, such as torch._dynamo.mark_static"
        yield call_fix(title)
        return
    passed = ((group.passed(change), dim) for change, dim in dims if dim is not None)
    marks = dict.fromkeys((name, dim) for name, dim in passed if name is not None)
    if marks and not group.is_from_first:
        sizes, when = names(change.expression for change in changes), "before each call in which"
        title = (
            f"Mark {sizes} as dynamic, with torch._dynamo.mark_dynamic, {when} the tensor exists"
        )
        yield call_fix(title, is_safe=True)
    elif marks:
        yield call_fix(
            f"Mark the {'dim' if len(marks) == 1 else 'dims'} as dynamic before the first call",
            snippet="\n".join(f"torch._dynamo.mark_dynamic({name}, {dim})" for name, dim in marks),
            place=group.at_call("first_call", *(name for name, _ in marks)),
            is_safe=True,
        )
    tensors = [name for name in map(_argument, changes) if name is not None]
    if tensors and not marks:
        title = (
            f"Name {names(dict.fromkeys(tensors))} in `torch.compiler.config.dynamic_sources`, so"
            " that torch makes sizes dynamic"
        )
        named = dict.fromkeys(change.source or "" for change in changes if _argument(change))
        yield sources_setting("dynamic_sources", [*named], title)
    elif not marks:
        title = (
            "Move the compiles to a warm-up with two of these sizes: torch then makes the size"
            " dynamic"
        )
        yield call_fix(title, is_safe=True)


def _last_batch(group: RecompileGroup) -> Fixes:
    """Leave out a loader's last batch, where only the first dims shrink, once, in a function that
    the program calls itself.
    """
    sizes = [(change.old or "", change.new or "") for change in group.changes]
    is_smaller = all(
        old.isdecimal() and new.isdecimal() and int(new) < int(old) for old, new in sizes
    )
    is_first = {size_dim(change.expression) for change in group.changes} == {0}
    is_of_script = group.target is None or group.target.runs_itself
    if is_smaller and is_first and is_of_script and len(group.events) == 1:
        title = "Leave out the smaller last batch, with `DataLoader(…, drop_last=True)`"
        yield call_fix(title, condition="if it is one")


def _beside_ones(group: RecompileGroup) -> list[GuardChange]:
    """Return the changes of a dim that is 0 or 1 between other sizes, of which a mark saves all
    compiles but the first; none if another dim changes too, or the first call can't be marked.
    """
    changes = [change for event in group.events for change in event.changes]
    sizes = dynamic_sizes(changes)
    is_alone = len(sizes) == 1 and all(change.kind == "size" for change in changes)
    if not is_alone or len(*sizes.values()) < 2 or changes[0].old in ("0", "1"):
        return []
    return changes


def _kept_static(group: RecompileGroup) -> list[str]:
    """Return the sizes whose third value the compile for the second refused: torch makes these
    dynamic by then, unless something keeps them static (``torch/_dynamo/variables/builder.py``,
    2.13).
    """
    sizes_of: dict[str | None, set[str]] = {}
    kept: dict[str, None] = {}
    for event, changes in grouped(group.pairs).items():
        first = event.compiles[0]
        sizes = [change.expression for change in changes if can_be_dynamic(change)]
        of_nearest = sizes_of.get(first.cause.nearest, ()) if first.cause is not None else ()
        kept |= dict.fromkeys(size for size in sizes if size in of_nearest)
        sizes_of[first.compile_id] = set(sizes)
    return [*kept]


def _argument(change: GuardChange) -> str | None:
    """Return the changed tensor's name in the call if it is an argument or an item of one,
    otherwise None.
    """
    match = _ARGUMENT.match(change.source or "")
    if match is None:
        return None
    name = expression(match[0])
    # torch's wrapper has the argument x as kwargs['x'].
    if match[1] == "kwargs" and (key := re.fullmatch(r"kwargs\['(\w+)'\]", name)):
        return key[1]
    # What an earlier line computed has no name that torch takes.
    return None if match[1] in _ROOTS or name.startswith("(") else name


class ParameterShape(RecompileRule, code="GD206"):
    """A parameter, or a tensor attribute of a module, whose size changes from call to call.

    ## What it finds
    Recompiles because a parameter or a module's tensor has a different size. torch treats these
    sizes as static, so each of them causes a recompile, even where it would make the dim of an
    argument dynamic.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly.

    ## Example
    ```python
    import torch

    def forward(x, weight):
        return x @ weight

    def inputs():
        return [(torch.ones(4, 8), torch.nn.Parameter(torch.ones(8, n))) for n in (2, 3, 4)]
    ```

    ## Use instead
    ```python
    def inputs():
        return [(torch.ones(4, 8), torch.nn.Parameter(torch.ones(8, n))) for n in (2, 2, 2)]
    ```

    ## Fix safety
    Dynamic sizes keep results the same. Code for any size can be slower than code for one size.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.11 to 2.15
    (`force_parameter_static_shapes`); `torch/compiler/config.py`, 2.11 to 2.15 (`dynamic_sources`).
    """

    def matches(self, change: GuardChange) -> bool:
        is_of_module = change.is_parameter or _OF_MODULE.search(change.source or "") is not None
        return change.kind == "size" and is_of_module

    def fixes(self, group: RecompileGroup) -> Fixes:
        title = "Let torch make these sizes dynamic"
        if group.first.is_parameter:
            dynamic = setting("force_parameter_static_shapes", title, value=False, is_safe=True)
        else:
            source = _OF_SIZE.sub("", group.first.source or "")
            dynamic = sources_setting("dynamic_sources", [source], title)
        return (dynamic, code_fix("Keep the size fixed, and use a part of the tensor"))


class SpecializedDim(RecompileRule, code="GD207"):
    """A dynamic dim for which a condition in the code no longer holds.

    ## What it finds
    Recompiles although the dim is dynamic, because the compiled code is only valid for sizes that
    satisfy a condition, and a call has a different size. The condition is an `if` on a size, a
    comparison of two sizes, or one of torch's
    own: it specializes sizes 0 and 1.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() if x.shape[0] % 2 == 0 else x.cos()

    def inputs():
        calls = [(torch.ones(4, 8),), (torch.ones(5, 8),)]
        for (x,) in calls:
            torch._dynamo.mark_dynamic(x, 0)
        return calls
    ```
    For sizes 0 and 1, pad, or name the tensor in `torch.compiler.config.unbacked_sources`.

    ## Use instead
    ```python
    def forward(x):
        return x.sin()
    ```

    ## Fix safety
    Removing a branch changes what the function computes. If you need both branches, two compiles
    are correct.

    ## Source
    PyTorch user guide, "Dynamic shapes": 0/1 specialization;
    `torch/fx/experimental/symbolic_shapes.py`, 2.11 to 2.15.
    """

    kinds = ("relation",)

    def matches(self, change: GuardChange) -> bool:
        # Strides have a rule of their own.
        is_of_strides = ".stride(" in change.expression
        return (super().matches(change) and not is_of_strides) or is_specialized(change)

    def because(self, group: RecompileGroup) -> str:
        change = group.first
        if source := _small(change):
            name = change.expression if is_specialized(change) else expression(source)
            return f"{quoted(name)} is 0 or 1, and torch compiles separate code for these sizes"
        before = f": it was compiled for {change.old}" if change.old else ""
        now = f", now {change.new}" if change.new else ""
        return f"{quoted(change.expression)} no longer holds{before}{now}"

    def fixes(self, group: RecompileGroup) -> Fixes:
        change = group.first
        if source := _small(change):
            yield call_fix("Move the compile to a warm-up with such a size, or pad to 2")
            # What an earlier line computed has no name that torch takes.
            if not is_carried(source):
                title = "Tell torch that sizes can be anything, including 0 and 1"
                yield sources_setting("unbacked_sources", [_OF_SIZE.sub("", source)], title)
            return
        where = change.guard_location
        line = f" on line {where.line}" if where is not None else ""
        yield code_fix(f"Write the code{line} so that one version holds for all values")
        title = "If you need both branches, move their compiles to a warm-up that calls both"
        yield call_fix(title)


def _small(change: GuardChange) -> str | None:
    """Return torch's source of the size that is 0 or 1 now, which torch compiles by itself,
    whatever else a branch asks of it; None for another change.
    """
    if is_specialized(change):
        return f"{change.source}.size()[{size_dim(change.expression)}]"
    return change.small_source


class ColdStartRecompile(RecordingRule, code="GD210", severity="info"):
    """Recompiles that only make dims dynamic, and that happen each time the program starts.

    ## What it finds
    Recompiles whose only effect is that a static dim became dynamic: torch compiles a dim as static
    until it sees a second size.

    ## Why it costs
    Each new process starts over, so each of these functions compiles twice.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        return [(torch.ones(4, 8),), (torch.ones(6, 8),)]
    ```

    ## Use instead
    ```python
    def inputs():
        calls = [(torch.ones(4, 8),), (torch.ones(6, 8),)]
        for (x,) in calls:
            torch._dynamo.mark_dynamic(x, 0)
        return calls
    ```
    Or set `torch.compiler.config.dynamic_sources = "L['x']"`, which names the sources that are
    dynamic from the start; the environment variable `TORCH_COMPILE_DYNAMIC_SOURCES` does the same.
    With `TORCH_COMPILE_JOB_ID`, torch remembers dynamic dims from run to run.

    ## Fix safety
    A dynamic dim keeps results the same.

    ## Source
    `torch/compiler/config.py`, 2.11 to 2.15 (`dynamic_sources`, `job_id`).
    """

    guide = "PyTorch user guide: torch.compile, dynamic shapes, profile-guided optimization"

    def findings(self, view: RecordingView) -> Findings:
        learned = [event for event in view.events if _only_generalized(event, view.graphs)]
        if not learned:
            return
        changes = distinct_values(change for event in learned for change in event.changes)
        compiles = [compile_ for event in learned for compile_ in event.compiles]
        seconds = sum_of_known(event.cost_s for event in learned)
        cost = "" if seconds is None else f" ({seconds:.2f} s)"
        values = names(change.expression for change in changes)
        # A value that torch carried over a break has no name that stays the same.
        sources = dict.fromkeys(
            _OF_SIZE.sub("", change.source)
            for change in changes
            if change.source and not is_carried(change.source)
        )
        title = "Name what is dynamic from the start"
        named = [sources_setting("dynamic_sources", list(sources), title)] if sources else []
        yield self.finding(
            view,
            learned[0].frame.entry,
            f"each start of the program costs {counted(len(compiles), 'recompile')}{cost} to make"
            f" {values} dynamic",
            compiles,
            changes=changes,
            hidden_change_count=hidden_change_count(learned),
            fixes=[*named, _REMEMBER],
        )


def _only_generalized(event: RecompileEvent, graphs: Mapping[str | None, Graph]) -> bool:
    """Return whether only sizes changed, all to dynamic ones, and the new graph has more of these
    than the nearest entry's.
    """
    cause = event.compiles[0].cause
    is_of_sizes = all(change.kind == "size" for change in event.changes)
    if event.is_over_limit or cause is None or not is_of_sizes or not fits_dynamic(event):
        return False
    old, new = (_sizes(graphs.get(id_)) for id_ in (cause.nearest, event.compiles[0].compile_id))
    # Where the code makes a constant of a size, the next one compiles again, whatever else is
    # dynamic.
    dims = [(change.source or "", size_dim(change.expression)) for change in event.changes]
    before, now = (sum(isinstance(size, str) for size in sizes.values()) for sizes in (old, new))
    return bool(old) and before < now and not any(isinstance(new.get(dim), int) for dim in dims)


def _sizes(graph: Graph | None) -> dict[tuple[str, int | None], int | str]:
    """Return the size of each dim of each input, which has a source or else a name."""
    inputs = (graph and graph.inputs) or ()
    return {
        (item.source or item.name, dim): size
        for item in inputs
        for dim, size in enumerate(item.shape or ())
    }


_REMEMBER = config_fix(
    "Let torch remember dynamic dims from run to run: set the environment variable"
    " TORCH_COMPILE_JOB_ID to a name of the job",
    is_safe=True,
)
