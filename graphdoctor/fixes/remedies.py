"""From the causes of recompiles to remedies that a replay can try without editing source.

Comes in: a recording. Goes out: remedies, each with the change of the run that it makes; causes that no replay can
remove, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, islice
from typing import Literal

from graphdoctor.facts.expressions import (
    argument_source,
    expression,
    is_attribute,
    is_carried,
    is_module_tensor,
    is_own_state,
    size_dim,
)
from graphdoctor.facts.recompiles import ChangeKind, GuardChange
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.trials import Remedy, UntriedChange
from graphdoctor.rules.diagnosis.recompiles import RecompileEvent, can_be_dynamic, recompile_events
from graphdoctor.trials.program import RunChange

_RECOMPILE_LIMIT = Setting(name="torch._dynamo.config.recompile_limit", value=64)
_DYNAMIC_MODULE_INTS = Setting(name="torch._dynamo.config.allow_unspec_int_on_nn_module", value=True)
_SCALARS_IN_GRAPH = Setting(name="torch._dynamo.config.capture_scalar_outputs", value=True)
_DYNAMIC_PARAMETERS = Setting(name="torch._dynamo.config.force_parameter_static_shapes", value=False)
_WARMED_UP: frozenset[ChangeKind] = frozenset(
    {
        "dtype", "device", "requires_grad", "rank", "training", "grad_mode", "inference_mode", "autocast", "flag",
        "text", "none", "value", "keys", "length", "type", "default_dtype", "threads", "relation", "aliasing",
    }
)  # fmt: skip
"""Changes between a few states: after each state has been seen once, nothing is compiled anymore."""

_UNTRIED: dict[ChangeKind, str] = {
    "identity": "each call brings another object; the program must keep one",
    "entry_gone": "an object was freed and its compiled code with it; the program must keep the object",
    "size": "it's in no argument of the target, so a replay can't mark it",
    "number": "it isn't an argument of the target or in a container of one, so a replay can't pass it as a tensor",
    "stride": "it isn't an argument of the target or in a container of one, so a replay can't make it contiguous",
}
"""Why no replay tries a change."""

_MAX_NAMED = 3
"""Marks that the name of a remedy lists."""


@dataclass(frozen=True)
class Candidate:
    """A remedy, or several together, with the change of the run.

    Args:
        remedies: The remedies.
        change: What it changes about the run.
    """

    remedies: tuple[Remedy, ...]
    change: RunChange

    def joined(self, other: Candidate) -> Candidate:
        """Both together."""
        return Candidate((*self.remedies, *other.remedies), self.change.joined(other.change))


@dataclass
class Candidates:
    """What can be tried.

    Args:
        singles: Remedies for one cause each.
        dynamic: Dynamic shapes for the whole target, if sizes changed.
        warm_up: Every kind of call once before the calls that count, if values changed.
        higher_limit: A higher recompile limit, if a function hit it.
        untried: Causes without a remedy that a replay can try.
    """

    singles: list[Candidate] = field(default_factory=list)
    dynamic: Candidate | None = None
    warm_up: Candidate | None = None
    higher_limit: Candidate | None = None
    untried: list[UntriedChange] = field(default_factory=list)

    @property
    def general(self) -> list[Candidate]:
        """Remedies for recompiles as such, whatever their cause."""
        return [found for found in (self.dynamic, self.warm_up, self.higher_limit) if found is not None]

    def combined(self, limit: int) -> tuple[list[Candidate], int]:
        """The trials to make: each remedy alone, then all remedies for single causes together, then pairs and so on.

        Args:
            limit: The maximum number of trials.

        Returns:
            The trials, and how many combinations were left out.
        """
        trials = [*self.singles, *self.general]
        count = len(self.singles)
        # All of them first, then pairs: the sizes in between are the ones to leave out.
        sizes = [count, *range(2, count)] if count > 1 else []
        chosen = (members for size in sizes for members in combinations(self.singles, size))
        together = [reduce(Candidate.joined, members) for members in islice(chosen, max(limit - len(trials), 0))]
        return trials + together, 2**count - count - 1 - len(together)


def candidates(recording: Recording) -> Candidates | None:
    """The remedies for what changed; None if nothing recompiled."""
    events = recompile_events(recording)
    if not events:
        return None
    # Without the names of the target's parameters, no argument is changed.
    changes = _distinct(events, recording.target.parameters or ())
    found = Candidates()
    resized = _sizes_to_mark(events)
    sizes = [
        change
        for change, is_argument in changes
        if change.expression in resized and change.kind == "size" and (is_argument or is_own_state(change.source or ""))
    ]
    if sizes:
        found.singles.append(_mark_dynamic(sizes))
    for change, is_argument in changes:
        candidate = _for_change(change, is_argument=is_argument)
        if candidate is not None:
            _add(found.singles, candidate)
        elif change.kind not in _WARMED_UP and change not in sizes:
            reason = _UNTRIED.get(change.kind, "no remedy can be tried without editing source")
            if change.kind == "size" and change.expression not in resized:
                reason = "torch compiles sizes 0 and 1 on their own, whatever is marked"
            found.untried.append(UntriedChange(expression=change.expression, reason=reason))
    if any(change.kind in ("size", "relation", "rank") for change, _ in changes):
        found.dynamic = _dynamic()
    if changes:
        found.warm_up = _warm_up()
    if any(compile_.outcome == "limit" for compile_ in recording.compiles):
        found.higher_limit = _setting(_RECOMPILE_LIMIT, "Raise the recompile limit")
    return found


def _distinct(events: Iterable[RecompileEvent], parameters: Sequence[str]) -> list[tuple[GuardChange, bool]]:
    """Each changed value once, and whether it is an argument of the target's call, or in one.

    A resume function has the target's arguments among its own.
    """
    found: dict[tuple[str, str], tuple[GuardChange, bool]] = {}
    for event in events:
        for change in event.changes:
            source = argument_source(change.source or "", parameters) if event.call_site is None else None
            known = found.get((change.kind, change.expression))
            if source is not None:
                found[change.kind, change.expression] = change.model_copy(update={"source": source}), True
            elif known is None:
                found[change.kind, change.expression] = change, False
    return list(found.values())


def _sizes_to_mark(events: Iterable[RecompileEvent]) -> set[str]:
    """The sizes of which a mark can save a compile."""
    return {change.expression for event in events for change in event.changes if can_be_dynamic(change)}


def _add(singles: list[Candidate], candidate: Candidate) -> None:
    """Add a remedy; one that several values share is one trial."""
    for index, known in enumerate(singles):
        if known.change == candidate.change:
            addressed = (*known.remedies[0].addresses, *candidate.remedies[0].addresses)
            remedy = known.remedies[0].model_copy(update={"addresses": tuple(dict.fromkeys(addressed))})
            singles[index] = replace(known, remedies=(remedy,))
            return
    singles.append(candidate)


def _for_change(change: GuardChange, *, is_argument: bool) -> Candidate | None:
    source = change.source or ""
    match change.kind:
        case "module_number":
            return _setting(_DYNAMIC_MODULE_INTS, "Let torch make ints of modules dynamic", change)
        case "number" if is_carried(source):
            return _setting(_SCALARS_IN_GRAPH, "Let torch capture numbers read from tensors", change)
        # Replacing an attribute would take a copy of its object, which the call may change.
        case "number" if is_argument and not is_attribute(source):
            return _as_tensor(source, change)
        case "stride" if is_argument and not is_attribute(source):
            return _contiguous(source, change)
        case "size" if is_module_tensor(source):
            return _setting(_DYNAMIC_PARAMETERS, "Let torch make sizes of parameters dynamic", change)
        case _:
            return None


def _setting(setting: Setting, title: str, change: GuardChange | None = None) -> Candidate:
    remedy = _remedy(setting.name.rpartition(".")[2], title, setting.code, "config", change)
    return Candidate((remedy,), RunChange(settings=(setting,)))


def _as_tensor(source: str, change: GuardChange) -> Candidate:
    name = expression(source)
    remedy = _remedy(
        f"tensor {name}",
        f"Pass `{name}` as a tensor",
        f"{name} = torch.tensor({name})",
        "call",
        change,
        keeps_results=False,
    )
    return Candidate((remedy,), RunChange(tensors=(source,)))


def _contiguous(source: str, change: GuardChange) -> Candidate:
    name = expression(source)
    remedy = _remedy(
        f"contiguous {name}",
        f"Make `{name}` contiguous before the call",
        f"{name} = {name}.contiguous()",
        "call",
        change,
    )
    return Candidate((remedy,), RunChange(contiguous=(source,)))


def _dynamic() -> Candidate:
    remedy = _remedy("dynamic=True", "Compile with dynamic shapes", "dynamic=True", "call")
    return Candidate((remedy,), RunChange(dynamic=True))


def _warm_up() -> Candidate:
    remedy = _remedy("warm-up", "Make each kind of call once before it counts", None, "call")
    return Candidate((remedy,), RunChange(warm_up=True))


def _mark_dynamic(sizes: Sequence[GuardChange]) -> Candidate:
    marks: list[tuple[str, int]] = []
    for change in sizes:
        dim = size_dim(change.expression)
        if dim is not None and change.source is not None:
            marks.append((change.source, dim))
    places = [f"{expression(source)} {dim}" for source, dim in marks]
    more = len(places) - _MAX_NAMED
    remedy = Remedy(
        name="mark_dynamic " + ", ".join(places[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else ""),
        title=f"Mark the {'dim' if len(marks) == 1 else 'dims'} as dynamic before the call",
        snippet="\n".join(f"torch._dynamo.mark_dynamic({expression(source)}, {dim})" for source, dim in marks),
        kind="call",
        addresses=tuple(change.expression for change in sizes),
        keeps_results=True,
    )
    return Candidate((remedy,), RunChange(marks=tuple(marks)))


def _remedy(
    name: str,
    title: str,
    snippet: str | None,
    kind: Literal["config", "call"],
    change: GuardChange | None = None,
    *,
    keeps_results: bool = True,
) -> Remedy:
    return Remedy(
        name=name,
        title=title,
        snippet=snippet,
        kind=kind,
        addresses=(change.expression,) if change else (),
        keeps_results=keeps_results,
    )
