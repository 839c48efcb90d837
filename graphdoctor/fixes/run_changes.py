"""Fixes that change how the target is run and not its source, for recompiles and CUDA graphs that
aren't recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, islice
from typing import Any

from graphdoctor.facts.base import values_of
from graphdoctor.facts.expressions import (
    expression,
    is_attribute,
    is_carried,
    is_module_tensor,
    is_own_state,
    size_dim,
)
from graphdoctor.facts.fixes import SnippetPlace
from graphdoctor.facts.guards import ChangeKind, GuardChange
from graphdoctor.facts.kernels import CudaGraphSkip
from graphdoctor.facts.recording import Recording, TargetInfo
from graphdoctor.facts.run import Setting
from graphdoctor.facts.trials import UntriedChange
from graphdoctor.fixes.patch import Candidate, Options
from graphdoctor.fixes.verdicts import REPEATED_BLOCKS
from graphdoctor.rules.diagnosis.recompiles import RecompileEvent, can_be_dynamic, recompile_events
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.recompiles import RAISED
from graphdoctor.trials.judge import Observed
from graphdoctor.trials.program import RunChange
from graphdoctor.wording import names

_START = SnippetPlace(where="start")
_RECOMPILE_LIMIT = Setting(
    name="torch._dynamo.config.recompile_limit", value=RAISED["recompile_limit"]
)
_DYNAMIC_MODULE_INTS = Setting(
    name="torch._dynamo.config.allow_unspec_int_on_nn_module", value=True
)
_SCALARS_IN_GRAPH = Setting(name="torch._dynamo.config.capture_scalar_outputs", value=True)
_DYNAMIC_PARAMETERS = Setting(
    name="torch._dynamo.config.force_parameter_static_shapes", value=False
)
_WARMED_UP: frozenset[ChangeKind] = frozenset(
    {
        "dtype", "device", "requires_grad", "rank", "training", "grad_mode", "inference_mode", "autocast", "flag",
        "text", "none", "value", "keys", "length", "type", "default_dtype", "threads", "relation", "aliasing",
    }
)  # fmt: skip
"""Changes between a few states: after each state has been seen once, nothing is compiled
anymore."""

_UNTRIED: dict[ChangeKind, str] = {
    **dict.fromkeys(
        ("identity", "entry_gone"), "each call brings another object; the program must keep one"
    ),
    "size": "it's in no argument of the target, so a replay can't mark it",
    "number": "it isn't an argument of the target or in a container of one, so a replay can't pass it as a tensor",
    "stride": "it isn't an argument of the target or in a container of one, so a replay can't make it contiguous",
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
    dynamic: Candidate | None = None
    warm_up: Candidate | None = None
    higher_limit: Candidate | None = None
    untried: list[UntriedChange] = field(default_factory=list)

    def combined(self, limit: int) -> tuple[list[Together], int]:
        """Combine fixes to at most so many trials; returns how many combinations were left out,
        too.

        Each fix alone comes first, then those for single causes together, then pairs and so on.
        """
        general = [
            fix for fix in (self.dynamic, self.warm_up, self.higher_limit) if fix is not None
        ]
        trials: list[Together] = [(fix,) for fix in (*self.singles, *general)]
        count = len(self.singles)
        # All of them first, then pairs: the sizes in between are the ones to leave out.
        sizes = [count, *range(2, count)] if count > 1 else []
        chosen = (members for size in sizes for members in combinations(self.singles, size))
        together = list(islice(chosen, max(limit - len(trials), 0)))
        return trials + together, 2**count - count - 1 - len(together)


def recompile_fixes(recording: Recording) -> RecompileFixes | None:
    """List the fixes for what changed; None if nothing recompiled."""
    events = recompile_events(recording)
    if not events:
        return None
    # Without the names of the target's parameters, no argument is changed.
    changes = _distinct(events, recording.target)
    fixes = RecompileFixes()
    resized = {
        change.expression for event in events for change in event.changes if can_be_dynamic(change)
    }
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
            _add(fixes.singles, fix)
        elif change.kind not in _WARMED_UP and change not in sizes:
            reason = _UNTRIED.get(change.kind, "no remedy can be tried without editing source")
            if change.kind == "size" and change.expression not in resized:
                reason = "torch compiles sizes 0 and 1 on their own, whatever is marked"
            fixes.untried.append(UntriedChange(expression=change.expression, reason=reason))
    if any(change.kind in ("size", "relation", "rank") for change, _ in changes):
        fixes.dynamic = call_fix(
            "dynamic=True",
            "Compile with dynamic shapes",
            RunChange(dynamic=True),
            snippet="dynamic=True",
        )
    if changes:
        fixes.warm_up = call_fix(
            "warm-up", "Make each kind of call once before it counts", RunChange(warm_up=True)
        )
    if any(compile_.outcome == "limit" for compile_ in recording.compiles):
        fixes.higher_limit = setting_fix(_RECOMPILE_LIMIT, "Raise the recompile limit")
    return fixes


def _distinct(
    events: Iterable[RecompileEvent], target: TargetInfo
) -> list[tuple[GuardChange, bool]]:
    """Each changed value once, and whether it is an argument of the target's call, or in one.

    A resume function has the target's arguments among its own.
    """
    distinct: dict[tuple[str, str], tuple[GuardChange, bool]] = {}
    for event in events:
        for change in event.changes:
            source = target.argument(change.source) if event.call_site is None else None
            earlier = distinct.get((change.kind, change.expression))
            if source is not None:
                distinct[change.kind, change.expression] = change.replace(source=source), True
            elif earlier is None:
                distinct[change.kind, change.expression] = change, False
    return list(distinct.values())


def _add(singles: list[Candidate], fix: Candidate) -> None:
    for index, single in enumerate(singles):
        if single.change == fix.change:
            singles[index] = replace(
                single, addresses=tuple(dict.fromkeys((*single.addresses, *fix.addresses)))
            )
            return
    singles.append(fix)


def _for_change(change: GuardChange, *, is_argument: bool) -> Candidate | None:
    source, value = change.source or "", change.expression
    name = expression(source)
    match change.kind:
        case "module_number":
            return setting_fix(
                _DYNAMIC_MODULE_INTS, "Let torch make ints of modules dynamic", addresses=(value,)
            )
        case "number" if is_carried(source):
            return setting_fix(
                _SCALARS_IN_GRAPH, "Let torch capture numbers read from tensors", addresses=(value,)
            )
        # Replacing an attribute would take a copy of its object, which the call may change.
        case "number" if is_argument and not is_attribute(source):
            code = f"{name} = torch.tensor({name})"
            fix = call_fix(
                f"tensor {name}",
                f"Pass `{name}` as a tensor",
                RunChange(tensors=(source,)),
                value,
                snippet=code,
            )
            return replace(fix, is_safe=False)
        case "stride" if is_argument and not is_attribute(source):
            title, code = (
                f"Make `{name}` contiguous before the call",
                f"{name} = {name}.contiguous()",
            )
            return call_fix(
                f"contiguous {name}", title, RunChange(contiguous=(source,)), value, snippet=code
            )
        case "size" if is_module_tensor(source):
            return setting_fix(
                _DYNAMIC_PARAMETERS,
                "Let torch make sizes of parameters dynamic",
                addresses=(value,),
            )
        case _:
            return None


def setting_fix(setting: Setting, title: str, *, is_safe: bool = True, **more: Any) -> Candidate:  # noqa: ANN401 - fields of a fix
    """Make a fix that sets one of torch's settings before the target is imported."""
    return Candidate(
        title=title,
        kind="config",
        is_safe=is_safe,
        change=RunChange(settings=(setting,)),
        snippet=setting.code,
        place=_START,
        drops_output=setting.drops_output,
        name=setting.name.rpartition(".")[2],
        **more,
    )


def call_fix(
    name: str, title: str, change: RunChange, *addresses: str, snippet: str | None = None
) -> Candidate:
    """Make a fix that changes how the target is compiled or called."""
    return Candidate(
        title=title,
        kind="call",
        is_safe=True,
        change=change,
        snippet=snippet,
        place=_place_of(change),
        name=name,
        addresses=addresses,
    )


def _place_of(change: RunChange) -> SnippetPlace:
    if change.dynamic is not None:
        return SnippetPlace(where="compile")
    if change.marks or change.static or change.buffers:
        return SnippetPlace(where="first_call")
    return (
        SnippetPlace(where="each_call")
        if change.tensors or change.contiguous or change.on_device
        else _START
    )


def _mark_dynamic(sizes: Sequence[GuardChange]) -> Candidate:
    marks: list[tuple[str, int]] = []
    for change in sizes:
        dim = size_dim(change.expression)
        if dim is not None and change.source is not None:
            marks.append((change.source, dim))
    places = [f"{expression(source)} {dim}" for source, dim in marks]
    more = len(places) - _MAX_NAMED
    return call_fix(
        "mark_dynamic "
        + ", ".join(places[:_MAX_NAMED])
        + (f" and {more} more" if more > 0 else ""),
        f"Mark the {'dim' if len(marks) == 1 else 'dims'} as dynamic before the call",
        RunChange(marks=tuple(marks)),
        *(change.expression for change in sizes),
        snippet="\n".join(
            f"torch._dynamo.mark_dynamic({expression(source)}, {dim})" for source, dim in marks
        ),
    )


def regional_options(observed: Observed, selection: Selection) -> Options | None:
    """List what can be tried for modules that repeat in one graph; None if none do."""
    for finding in observed.diagnosis.findings:
        if finding.code == REPEATED_BLOCKS and selection.keeps(finding):
            (suggested,) = finding.fixes
            fix = call_fix("", suggested.title, RunChange(regional=True), snippet=suggested.snippet)
            shared = values_of(suggested, "is_safe", "place")
            return Options(finding, (replace(fix, targets=(finding.fingerprint,), **shared),))
    return None


def cuda_graph_fixes(skip: CudaGraphSkip, recording: Recording) -> Iterator[Candidate]:
    """Make changes of the call with which torch may record a CUDA graph, best first."""
    if skip.kind == "mutation":
        yield from _for_mutation(recording)
    elif skip.kind == "cpu_device":
        yield from _for_cpu_tensors(recording)
    elif skip.kind == "dynamic_shapes":
        yield call_fix(
            "dynamic=False",
            "Compile without dynamic shapes",
            RunChange(dynamic=False),
            snippet="dynamic=False",
        )


def _for_mutation(recording: Recording) -> Iterator[Candidate]:
    graphs = recording.cuda_graphs
    functions = (graphs.functions or ()) if graphs is not None else ()
    sources = _arguments(
        (source for function in functions for source in function.mutated), recording
    )
    if not sources:
        return
    written = [expression(source) for source in sources]
    marks = [f"torch._dynamo.mark_static_address({name})" for name in written]
    is_one = len(written) == 1
    pronoun, same, tensors = (
        ("it", "tensor", "a tensor") if is_one else ("them", "tensors", "tensors")
    )
    title = f"Mark {names(written)} as static, and pass the same {same} in each call"
    yield call_fix(
        "mark_static_address", title, RunChange(static=sources), *written, snippet="\n".join(marks)
    )
    title = f"Write {names(written)} into {tensors} that you keep, and pass {pronoun} in each call"
    copies = [f"{name} = {name}.clone()" for name in written]
    fix = call_fix(
        "buffer", title, RunChange(buffers=sources), *written, snippet="\n".join([*copies, *marks])
    )
    yield replace(fix, is_safe=False)


def _for_cpu_tensors(recording: Recording) -> Iterator[Candidate]:
    on_cpu: list[str] = []
    for graph in recording.graphs:
        tensors = [
            item for item in graph.inputs or () if item.kind == "tensor" and item.device is not None
        ]
        if any(str(item.device).startswith("cuda") for item in tensors):
            on_cpu += [
                item.source for item in tensors if item.device == "cpu" and item.source is not None
            ]
    sources = _arguments(on_cpu, recording)
    if sources:
        moved = [expression(source) for source in sources]
        code = "\n".join(f'{name} = {name}.to("cuda")' for name in moved)
        title = f"Move {names(moved)} to the GPU before the call"
        yield call_fix("on the GPU", title, RunChange(on_device=sources), *moved, snippet=code)


def _arguments(sources: Iterable[str], recording: Recording) -> tuple[str, ...]:
    arguments = map(recording.target.argument, sources)
    return tuple(
        dict.fromkeys(
            source for source in arguments if source is not None and not is_attribute(source)
        )
    )
