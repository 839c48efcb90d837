"""Arguments for a signature, by the names of its parameters: what can be written for each, the likeliest first.

Comes in: a callable, and a rule that knows values for names. Goes out: sets of arguments as source, in the order in
which they are worth trying; and which of several models is the smallest, without allocating its parameters.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .library import call_text

_GATHERED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Slot(NamedTuple):
    """A parameter, and what it can be given.

    Args:
        values: As source, the likeliest first; "" leaves it out.
    """

    name: str
    values: tuple[str, ...]


class UnknownParameterError(Exception):
    """A parameter that must be given, and no rule knows what."""


def parameters_of(called: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, or of a class's constructor, without ``self``."""
    if inspect.isclass(called):
        return list(inspect.signature(called.__init__).parameters.values())[1:]
    return list(inspect.signature(called).parameters.values())


def slots(
    parameters: Sequence[inspect.Parameter],
    values: Callable[[inspect.Parameter], Sequence[str]],
    *,
    owner: str,
    is_given: Callable[[inspect.Parameter], bool] = lambda _parameter: False,
) -> list[Slot]:
    """What each parameter can be given; one with a default is first left out, and always without a value."""
    found = []
    for parameter in parameters:
        if parameter.kind in _GATHERED:
            continue
        known = tuple(values(parameter))
        is_optional = parameter.default is not parameter.empty
        if not known and not is_optional:
            raise UnknownParameterError(f"No rule knows a value for {described(parameter)} of {owner}.")
        if known and is_optional:
            known = (*known, "") if is_given(parameter) else ("", *known)
        if known:
            found.append(Slot(parameter.name, known))
    return found


def known_values(name: str, rules: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    """The values of the first rule whose pattern is the name's; none if no rule is."""
    return next((values for pattern, values in rules if re.fullmatch(pattern, name)), ())


def choices(found: Sequence[Slot], *, most_changes: int) -> Iterator[dict[str, str]]:
    """Sets of arguments: first every slot's first value, then with ever more slots changed."""
    seen = set()
    for changes in range(most_changes + 1):
        for steps in _steps(len(found), changes):
            if any(step >= len(slot.values) for slot, step in zip(found, steps, strict=True)):
                continue
            chosen = tuple(slot.values[step] for slot, step in zip(found, steps, strict=True))
            seen.add(chosen)
            yield _named(found, chosen)
    every = tuple(next(filter(None, slot.values), "") for slot in found)
    if every not in seen:
        yield _named(found, every)


def _steps(slots_count: int, changes: int) -> Iterator[tuple[int, ...]]:
    """Every way to spread so many steps over so many slots, single slots first."""
    ways = [
        tuple(places.count(place) for place in range(slots_count))
        for places in itertools.combinations_with_replacement(range(slots_count), changes)
    ]
    return iter(sorted(ways, key=lambda way: (sum(1 for step in way if step), [-step for step in way])))


def _named(found: Sequence[Slot], chosen: Sequence[str]) -> dict[str, str]:
    return {slot.name: value for slot, value in zip(found, chosen, strict=True) if value}


def described(parameter: inspect.Parameter) -> str:
    """A parameter with its type, for people."""
    kind = parameter.annotation
    if kind is parameter.empty:
        return f"`{parameter.name}`"
    return f"`{parameter.name}: {kind if isinstance(kind, str) else inspect.formatannotation(kind)}`"


def evaluated_body(name: str, arguments: Mapping[str, str]) -> str:
    """``build()`` for a module in evaluation mode."""
    made = call_text(name, {}, before=[f"{key}={value}" for key, value in arguments.items()])
    # Not `.eval()` on the same line: a module's own `train` may return nothing.
    return f"model = {made}\nmodel.eval()\nreturn model"


def by_size(names: Iterable[str], build: Callable[[str], Any]) -> list[str]:
    """Names of models, the one with the fewest parameters first; without those that can't be built."""
    counts: dict[str, int] = {}
    first: Exception | None = None
    for name in names:
        try:
            counts[name] = _parameter_count(build, name)
        except Exception as error:  # noqa: BLE001
            first = first or error
    if first is not None and not counts:
        raise first
    return sorted(counts, key=lambda name: counts[name])


def _parameter_count(build: Callable[[str], Any], name: str) -> int:
    try:
        with torch.device("meta"):
            model = build(name)
    except Exception:  # noqa: BLE001 - it computes with other tensors while it is built
        with _parameters_on_meta():
            model = build(name)
    return sum(parameter.numel() for parameter in model.parameters())


@contextlib.contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Keep no parameter's memory longer than until its module has it, and let all other tensors be."""
    register = torch.nn.Module.register_parameter

    def registered(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter | None) -> None:
        if parameter is not None:
            parameter = torch.nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    torch.nn.Module.register_parameter = registered  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register  # type: ignore[method-assign]
