"""From the causes of recompiles to remedies that a replay can try without touching any source.

Comes in: a recording. Goes out: remedies, each with what the probe must do for it; causes that no replay can take
away, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, islice

from graphdoctor.diagnosis.recompiles import RecompileEvent, recompile_events
from graphdoctor.model.expressions import expression
from graphdoctor.model.recompiles import ChangeKind, GuardChange
from graphdoctor.model.recording import Recording
from graphdoctor.model.trials import Remedy, UntriedChange

_ARGUMENT = re.compile(r"^L\['(\w+)'\](?:\['[^']*'\]|\[\d+\])*$")
_KEYWORD = re.compile(r"^L\['kwargs'\]\['(\w+)'\](.*)$")
_POSITION = re.compile(r"^L\['args'\]\[(\d+)\](.*)$")
_MEMBER_OF_MODULE = re.compile(r"\._(?:parameters|buffers)\[")
WARM_UP = "warm-up"
_STACK = "___stack"
_LIMIT = "torch._dynamo.config.recompile_limit"
_STATIC_SIZES = "torch._dynamo.config.force_parameter_static_shapes"
_RAISED_LIMIT = 64
_WARMED: frozenset[ChangeKind] = frozenset(
    {
        "dtype", "device", "requires_grad", "rank", "training", "grad_mode", "inference_mode", "autocast", "flag",
        "text", "none", "value", "keys", "length", "type", "default_dtype", "threads", "relation", "aliasing",
    }
)  # fmt: skip
"""Changes between few states: once each state has been seen, nothing is compiled any more."""


@dataclass(frozen=True)
class Change:
    """What the probe does for a remedy.

    Args:
        config: torch config values to set, by dotted name.
        dynamic: ``torch.compile``'s dynamic, or None to leave it.
        marks: Sources and dims to mark as dynamic before each call.
        tensors: Sources of numbers that are passed as tensors.
        contiguous: Sources of tensors that are made contiguous.
        warm_up: Make all calls once before those that count.
    """

    config: tuple[tuple[str, object], ...] = ()
    dynamic: bool | None = None
    marks: tuple[tuple[str, int], ...] = ()
    tensors: tuple[str, ...] = ()
    contiguous: tuple[str, ...] = ()
    warm_up: bool = False

    def joined(self, other: Change) -> Change:
        """Both changes together."""
        return Change(
            config=(*self.config, *other.config),
            dynamic=self.dynamic if self.dynamic is not None else other.dynamic,
            marks=(*self.marks, *other.marks),
            tensors=(*self.tensors, *other.tensors),
            contiguous=(*self.contiguous, *other.contiguous),
            warm_up=self.warm_up or other.warm_up,
        )

    def plan(self) -> dict[str, object]:
        """The part of it that goes into the request's ``trial``."""
        return {
            "warm_up": self.warm_up,
            "marks": [{"source": source, "dim": dim} for source, dim in self.marks],
            "tensors": list(self.tensors),
            "contiguous": list(self.contiguous),
        }


@dataclass(frozen=True)
class Candidate:
    """A remedy, or several together, with what the probe does for it.

    Args:
        remedies: The remedies.
        change: What the probe does.
    """

    remedies: tuple[Remedy, ...]
    change: Change

    def joined(self, other: Candidate) -> Candidate:
        """Both together."""
        return Candidate((*self.remedies, *other.remedies), self.change.joined(other.change))


@dataclass
class Candidates:
    """What can be tried.

    Args:
        singles: Remedies for one cause each.
        general: Remedies for recompiles as such: dynamic shapes, warming up, a higher limit.
        untried: Causes without a remedy that a replay could try.
    """

    singles: list[Candidate] = field(default_factory=list)
    general: list[Candidate] = field(default_factory=list)
    untried: list[UntriedChange] = field(default_factory=list)

    def combined(self, limit: int) -> tuple[list[Candidate], int]:
        """The trials to make: each remedy alone, then pairs, then all of one cause each together.

        Args:
            limit: How many trials at most.

        Returns:
            The trials, and how many combinations were left out.
        """
        trials = [*self.singles, *self.general]
        count = len(self.singles)
        # All of them first, then pairs: what is left out is in between.
        sizes = [count, *range(2, count)] if count > 1 else []
        chosen = (members for size in sizes for members in combinations(self.singles, size))
        together = [reduce(Candidate.joined, members) for members in islice(chosen, max(limit - len(trials), 0))]
        return trials + together, 2**count - count - 1 - len(together)


def candidates(recording: Recording) -> Candidates | None:
    """The remedies for what changed; None when nothing was compiled again."""
    events = recompile_events(recording)
    if not events:
        return None
    found = Candidates()
    # Where the names of the target's parameters are not known, no argument is changed.
    changes = _distinct(events, recording.target.parameters or ())
    sizes = [change for change, is_argument in changes if change.kind == "size" and is_argument]
    if sizes:
        found.singles.append(_mark_dynamic(sizes))
    for change, is_argument in changes:
        candidate = _for_change(change, is_argument=is_argument)
        if candidate is not None:
            _add(found.singles, candidate)
        elif change.kind not in _WARMED and change not in sizes:
            found.untried.append(_untried(change))
    if any(change.kind in ("size", "relation", "rank") for change, _ in changes):
        found.general.append(
            Candidate(
                (_remedy("dynamic=True", "Compile with dynamic shapes", "torch.compile(model, dynamic=True)", "call"),),
                Change(dynamic=True),
            )
        )
    if changes:
        found.general.append(
            Candidate(
                (
                    _remedy(
                        WARM_UP,
                        "Make each kind of call once before it counts",
                        "for args in every_kind_of_call:\n    compiled(*args)",
                        "call",
                    ),
                ),
                Change(warm_up=True),
            )
        )
    if any(compile_.outcome == "limit" for compile_ in recording.compiles):
        setting = f"{_LIMIT} = {_RAISED_LIMIT}"
        found.general.append(
            Candidate(
                (_remedy("recompile_limit", "Raise the recompile limit", setting, "config"),),
                Change(config=((_LIMIT, _RAISED_LIMIT),)),
            )
        )
    return found


def _distinct(events: Iterable[RecompileEvent], parameters: Sequence[str]) -> list[tuple[GuardChange, bool]]:
    """Each changed value once, and whether it is an argument of the target's call or an item of one.

    A resume function has the target's arguments among its own.
    """
    found: dict[tuple[str, str], tuple[GuardChange, bool]] = {}
    for event in events:
        for change in event.changes:
            source = _argument_source(change.source or "", parameters) if event.call_site is None else None
            known = found.get((change.kind, change.expression))
            if source is not None:
                found[change.kind, change.expression] = change.model_copy(update={"source": source}), True
            elif known is None:
                found[change.kind, change.expression] = change, False
    return list(found.values())


def _argument_source(source: str, parameters: Sequence[str]) -> str | None:
    """The source as the target's own arguments have it, or None when it is none of them.

    A wrapper around the target (a decorator, torch's own around a torch module) has them in ``args`` and ``kwargs``.
    """
    match = _ARGUMENT.match(source)
    if match is None:
        return None
    if (wrapped := _KEYWORD.match(source)) and wrapped[1] in parameters:
        return f"L['{wrapped[1]}']{wrapped[2]}"
    if (wrapped := _POSITION.match(source)) and "args" not in parameters and int(wrapped[1]) < len(parameters):
        return f"L['{parameters[int(wrapped[1])]}']{wrapped[2]}"
    return source if match[1] in parameters else None


def _add(singles: list[Candidate], candidate: Candidate) -> None:
    """A remedy that several values share is one trial."""
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
            return _config(
                "torch._dynamo.config.allow_unspec_int_on_nn_module", "Let torch make a module's int dynamic", change
            )
        case "number" if _STACK in source:
            return _config("torch._dynamo.config.capture_scalar_outputs", "Keep numbers read from tensors", change)
        case "number" if is_argument:
            name = expression(source)
            return Candidate(
                (
                    _remedy(
                        f"tensor {name}",
                        f"Pass `{name}` as a tensor",
                        f"{name} = torch.tensor({name})",
                        "call",
                        change,
                        keeps_results=False,
                    ),
                ),
                Change(tensors=(source,)),
            )
        case "stride" if is_argument:
            name = expression(source)
            return Candidate(
                (
                    _remedy(
                        f"contiguous {name}",
                        f"Make `{name}` contiguous before the call",
                        f"{name} = {name}.contiguous()",
                        "call",
                        change,
                    ),
                ),
                Change(contiguous=(source,)),
            )
        case "size" if _MEMBER_OF_MODULE.search(source):
            return _config(_STATIC_SIZES, "Let sizes of parameters be dynamic", change, value=False)
        case _:
            return None


def _config(name: str, title: str, change: GuardChange, *, value: object = True) -> Candidate:
    remedy = _remedy(name.rpartition(".")[2], title, f"{name} = {value}", "config", change)
    return Candidate((remedy,), Change(config=((name, value),)))


def _mark_dynamic(sizes: Sequence[GuardChange]) -> Candidate:
    marks: list[tuple[str, int]] = []
    for change in sizes:
        dim = re.search(r"\.shape\[(\d+)\]$", change.expression)
        if dim is not None and change.source is not None:
            marks.append((change.source, int(dim[1])))
    snippet = "\n".join(f"torch._dynamo.mark_dynamic({expression(source)}, {dim})" for source, dim in marks)
    remedy = Remedy(
        name="mark_dynamic " + ", ".join(f"{expression(source)} {dim}" for source, dim in marks),
        title="Mark the dim as dynamic before the call"
        if len(marks) == 1
        else "Mark the dims as dynamic before the call",
        snippet=snippet,
        kind="call",
        addresses=tuple(change.expression for change in sizes),
        keeps_results=True,
    )
    return Candidate((remedy,), Change(marks=tuple(marks)))


def _remedy(
    name: str,
    title: str,
    snippet: str,
    kind: str,
    change: GuardChange | None = None,
    *,
    keeps_results: bool = True,
) -> Remedy:
    return Remedy(
        name=name,
        title=title,
        snippet=snippet,
        kind="config" if kind == "config" else "call",
        addresses=(change.expression,) if change else (),
        keeps_results=keeps_results,
    )


def _untried(change: GuardChange) -> UntriedChange:
    reasons: dict[ChangeKind, str] = {
        "identity": "another object comes with each call; the program must keep one",
        "entry_gone": "an object went away with its compiled code; the program must keep it",
        "module_number": "it is no int",
        "size": "it is no argument of the target, so no replay can mark it",
        "number": "it is no argument of the target, so no replay can pass it as a tensor",
        "stride": "it is no argument of the target, so no replay can make it contiguous",
    }
    return UntriedChange(
        expression=change.expression, reason=reasons.get(change.kind, "no remedy can be tried without editing source")
    )
