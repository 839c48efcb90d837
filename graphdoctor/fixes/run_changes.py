"""Fixes that change how the target is run and not its source, for recompiles and CUDA graphs that
aren't recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from graphdoctor.facts.expressions import (
    expression,
    is_attribute,
    is_carried,
    is_module_tensor,
    is_own_state,
    size_dim,
)
from graphdoctor.facts.fixes import SnippetPlace, Where
from graphdoctor.facts.guards import ChangeKind, GuardChange
from graphdoctor.facts.kernels import CudaGraphSkip
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.trials import UntriedChange
from graphdoctor.fixes.entry_file import FULLGRAPH
from graphdoctor.fixes.patch import Candidate, FileChange
from graphdoctor.rules.diagnosis.recompiles import dynamic_sizes, recompile_events
from graphdoctor.rules.recompiles import RAISED
from graphdoctor.trials.program import RunChange
from graphdoctor.wording import names

_WARMED_UP: frozenset[ChangeKind] = frozenset(
    {
        "dtype", "device", "requires_grad", "rank", "training", "grad_mode", "inference_mode",
        "autocast", "flag",
        "text", "none", "value", "keys", "length", "type", "default_dtype", "threads", "relation",
        "aliasing",
    }
)  # fmt: skip
"""Changes between a few states: after each state has been seen once, nothing is compiled
anymore."""

_UNTRIED: dict[ChangeKind, str] = {
    **dict.fromkeys(
        ("identity", "entry_gone"), "each call brings another object; the program must keep one"
    ),
    "size": "it's in no argument of the target, so a replay can't mark it",
    "number": (
        "it isn't an argument of the target or in a container of one, so a replay can't pass it as"
        " a tensor"
    ),
    "stride": (
        "it isn't an argument of the target or in a container of one, so a replay can't make it"
        " contiguous"
    ),
}
"""Why no replay tries a change."""

_MAX_NAMED = 3
"""Marks that the name of a fix lists."""

Together = tuple[Candidate, ...]
"""Fixes that are tried together; empty for the untouched program."""


def joined_change(fixes: Together) -> RunChange:
    """Join what several fixes change about the run."""
    return reduce(RunChange.joined, (fix.change for fix in fixes), RunChange())


@dataclass
class RecompileFixes:
    """The fixes that can be tried for recompiles."""

    singles: list[Candidate] = field(default_factory=list)
    warm_up: Candidate | None = None
    higher_limit: Candidate | None = None
    untried: list[UntriedChange] = field(default_factory=list)

    def combined(self) -> tuple[list[Together], int]:
        """Combine fixes: each alone, then those for single causes together; returns how many other
        combinations there are, too.
        """
        every = (*self.singles, self.warm_up, self.higher_limit)
        count = len(self.singles)
        together = [tuple(self.singles)] if count > 1 else []
        trials: list[Together] = [(fix,) for fix in every if fix is not None]
        return trials + together, 2**count - count - 1 - len(together)


def recompile_fixes(recording: Recording) -> RecompileFixes | None:
    """List the fixes for what changed; None if nothing recompiled."""
    events = recompile_events(recording)
    if not events:
        return None
    # Each changed value once, and whether it is an argument of the target's call, or in one. A
    # resume function has the target's arguments among its own. Without the names of the target's
    # parameters, no argument is changed.
    distinct = {}
    for event in events:
        for change in event.changes:
            value = (change.kind, change.expression)
            source = recording.target.argument(change.source) if event.call_site is None else None
            if source is not None:
                distinct[value] = change.replace(source=source), True
            else:
                distinct.setdefault(value, (change, False))
    changes = list(distinct.values())
    fixes = RecompileFixes()
    sizes_of = dynamic_sizes(change for event in events for change in event.changes)
    resized = {name for name, sizes in sizes_of.items() if len(sizes) > 1}
    sizes = [
        change
        for change, is_argument in changes
        if change.expression in resized
        and change.kind == "size"
        and (is_argument or is_own_state(change.source or ""))
    ]
    if sizes:
        fixes.singles.append(_mark_dynamic(sizes))
    for change, is_argument in changes:
        fix = _for_change(change, is_argument=is_argument)
        if fix is not None:
            same = [at for at, other in enumerate(fixes.singles) if other.change == fix.change]
            for at in same:
                addresses = (*fixes.singles[at].addresses, *fix.addresses)
                fixes.singles[at] = replace(
                    fixes.singles[at], addresses=tuple(dict.fromkeys(addresses))
                )
            fixes.singles += [] if same else [fix]
        elif change.kind not in _WARMED_UP and change not in sizes:
            reason = _UNTRIED.get(change.kind, "no remedy can be tried without editing source")
            if change.kind == "size" and change.expression not in resized:
                reason = "torch compiles sizes 0 and 1 on their own, unless they are unbacked"
            fixes.untried.append(UntriedChange(expression=change.expression, reason=reason))
    if changes:
        title = "Make each kind of call once before it counts"
        fixes.warm_up = call_fix("warm-up", title, RunChange(warm_up=True))
    if any(compile_.outcome == "limit" for compile_ in recording.compiles):
        limit = dynamo_setting("recompile_limit", RAISED["recompile_limit"])
        fixes.higher_limit = setting_fix(limit, "Raise the recompile limit")
    return fixes


def _for_change(change: GuardChange, *, is_argument: bool) -> Candidate | None:
    source, addresses = change.source or "", (change.expression,)
    name = expression(source)
    # Replacing an attribute would take a copy of its object, which the call may change.
    is_replaceable = is_argument and not is_attribute(source)
    match change.kind:
        case "module_number":
            setting = dynamo_setting("allow_unspec_int_on_nn_module")
            title = "Let torch make ints of modules dynamic"
        case "number" if is_carried(source):
            setting = dynamo_setting("capture_scalar_outputs")
            title = "Let torch capture numbers read from tensors"
        case "size" if is_module_tensor(source):
            setting = dynamo_setting("force_parameter_static_shapes", value=False)
            title = "Let torch make sizes of parameters dynamic"
        case "number" if is_replaceable:
            code, title = f"{name} = torch.tensor({name})", f"Pass `{name}` as a tensor"
            run_change = RunChange(tensors=(source,))
            fix = call_fix(f"tensor {name}", title, run_change, *addresses, snippet=code)
            return replace(fix, is_safe=False)
        case "stride" if is_replaceable:
            code, title = (
                f"{name} = {name}.contiguous()",
                f"Make `{name}` contiguous before the call",
            )
            run_change = RunChange(contiguous=(source,))
            return call_fix(f"contiguous {name}", title, run_change, *addresses, snippet=code)
        case _:
            return None
    return setting_fix(setting, title, addresses=addresses)


def dynamo_setting(name: str, value: bool | int = True) -> Setting:
    """Name a setting of Dynamo's."""
    return Setting(name=f"torch._dynamo.config.{name}", value=value)


def setting_fix(setting: Setting, title: str, *, is_safe: bool = True, **more: Any) -> Candidate:  # noqa: ANN401 - fields of a fix
    """Make a fix that sets one of torch's settings before the target is imported."""
    return Candidate(
        title=title,
        kind="config",
        is_safe=is_safe,
        change=RunChange(settings=(setting,)),
        snippet=setting.code,
        place=SnippetPlace(where="start"),
        drops_output=setting.drops_output,
        name=setting.name.rpartition(".")[2],
        **more,
    )


def call_fix(
    name: str, title: str, change: RunChange, *addresses: str, snippet: str | None = None
) -> Candidate:
    """Make a fix that changes how the target is compiled or called."""
    where: Where = "start"
    if change.dynamic is not None or change.fullgraph:
        where = "compile"
    elif change.marks or change.static or change.buffers:
        where = "first_call"
    elif change.tensors or change.contiguous or change.on_device:
        where = "each_call"
    return Candidate(
        title=title,
        kind="call",
        is_safe=True,
        change=change,
        snippet=snippet,
        place=SnippetPlace(where=where),
        name=name,
        addresses=addresses,
    )


def _mark_dynamic(sizes: Sequence[GuardChange]) -> Candidate:
    marks = tuple(
        (change.source, dim)
        for change in sizes
        if (dim := size_dim(change.expression)) is not None and change.source is not None
    )
    places = [f"{expression(source)} {dim}" for source, dim in marks]
    more = f" and {len(places) - _MAX_NAMED} more" if len(places) > _MAX_NAMED else ""
    return call_fix(
        f"mark_dynamic {', '.join(places[:_MAX_NAMED])}{more}",
        f"Mark the {'dim' if len(marks) == 1 else 'dims'} as dynamic before the call",
        RunChange(marks=marks),
        *(change.expression for change in sizes),
        snippet="\n".join(
            f"torch._dynamo.mark_dynamic({expression(source)}, {dim})" for source, dim in marks
        ),
    )


CAPTURING = frozenset({"capture_dynamic_output_shape_ops", "capture_scalar_outputs"})
"""Names of settings by which torch captures what it captures under ``fullgraph=True``."""


def fullgraph_fix(edit: FileChange | None) -> Candidate:
    """Make the fix that compiles the target with ``fullgraph=True``, by an edit if it can be
    written.

    torch then captures numbers that are read from tensors, and sizes that depend on values, without
    any setting (``torch/_dynamo/output_graph.py``, 2.11 and later).
    """
    change = RunChange(fullgraph=True)
    if edit is None:
        title = "Compile it with `torch.compile(…, fullgraph=True)`"
        return call_fix(FULLGRAPH, title, change, snippet=f"{FULLGRAPH}=True")
    title = "Pass `fullgraph=True` to `torch.compile`"
    return Candidate(title, "code", is_safe=True, edits=(edit,), change=change)


def cuda_graph_fixes(skip: CudaGraphSkip, recording: Recording) -> Iterator[Candidate]:
    """Make changes of the call with which torch may record a CUDA graph, best first."""
    if skip.kind == "dynamic_shapes":
        title, code = "Compile without dynamic shapes", "dynamic=False"
        yield call_fix(code, title, RunChange(dynamic=False), snippet=code)
    elif skip.kind == "mutation":
        graphs = recording.cuda_graphs
        functions = (graphs.functions or ()) if graphs is not None else ()
        mutated = (source for function in functions for source in function.mutated)
        if sources := _arguments(mutated, recording):
            yield from _keep_mutated(sources)
    elif skip.kind == "cpu_device":
        on_cpu = []
        for graph in recording.graphs:
            tensors = [item for item in graph.inputs or () if item.kind == "tensor"]
            if any((item.device or "").startswith("cuda") for item in tensors):
                on_cpu += [item.source for item in tensors if item.device == "cpu"]
        if sources := _arguments(on_cpu, recording):
            moved = [expression(source) for source in sources]
            code = "\n".join(f'{name} = {name}.to("cuda")' for name in moved)
            title = f"Move {names(moved)} to the GPU before the call"
            yield call_fix("on the GPU", title, RunChange(on_device=sources), *moved, snippet=code)


def _keep_mutated(sources: tuple[str, ...]) -> Iterator[Candidate]:
    written = [expression(source) for source in sources]
    marks = [f"torch._dynamo.mark_static_address({name})" for name in written]
    same, tensors, pronoun = (
        ("tensor", "a tensor", "it") if len(written) == 1 else ("tensors", "tensors", "them")
    )
    title = f"Mark {names(written)} as static, and pass the same {same} in each call"
    change, code = RunChange(static=sources), "\n".join(marks)
    yield call_fix("mark_static_address", title, change, *written, snippet=code)
    title = f"Write {names(written)} into {tensors} that you keep, and pass {pronoun} in each call"
    code = "\n".join([*(f"{name} = {name}.clone()" for name in written), *marks])
    fix = call_fix("buffer", title, RunChange(buffers=sources), *written, snippet=code)
    yield replace(fix, is_safe=False)


def _arguments(sources: Iterable[str | None], recording: Recording) -> tuple[str, ...]:
    arguments = map(recording.target.argument, sources)
    names = (source for source in arguments if source is not None and not is_attribute(source))
    return tuple(dict.fromkeys(names))
