"""Phrases that the rules on recompiles share: how often, and what changed from which value to which."""

from __future__ import annotations

import re

from graphdoctor.facts.expressions import argument_source, expression, size_dim
from graphdoctor.facts.fixes import SnippetPlace, Where
from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.facts.wording import names, quoted, times, without_middle
from graphdoctor.rules.diagnosis.recompiles import RecompileGroup

GUIDE = "PyTorch user guide: torch.compile, recompilation"
_ARGUMENT = re.compile(r"^L\['(\w+)'\](?:\['[^']*'\]|\[\d+\])*$")
_ROOTS = frozenset({"self", "fn", "args", "kwargs"})
_MAX_VALUES = 5
_MAX_NAMES = 3


def recompiled(group: RecompileGroup, what: str) -> str:
    """The whole sentence: the function, how often it recompiled, and why."""
    count = len([event for event in group.events if not event.is_over_limit])
    return f"`{group.frame.described}` recompiled {times(count)} because {what}"


def changed(group: RecompileGroup) -> str:
    """What changed, with its values: ``x.shape[0]`` changed: 4 → 6 → 7."""
    steps = {name: steps_of(group, name) for name in group.expressions}
    if len(set(steps.values())) == 1:
        common = steps[group.expressions[0]]
        return f"{names(group.expressions)} changed" + (f": {common}" if common else "")
    shown = [f"{quoted(name)} changed ({step})" if step else f"{quoted(name)} changed" for name, step in steps.items()]
    more = len(shown) - _MAX_NAMES
    rest = f" and {more} more value{'' if more == 1 else 's'}" if more > 0 else ""
    return ", ".join(shown[:_MAX_NAMES]) + rest


def steps_of(group: RecompileGroup, name: str) -> str:
    """A value in each event, ``4 → 6 → 7``; an empty string if no value is known."""
    values = group.values(name)
    if len(values) == 1:
        return f"{without_middle(values[0])} before"
    shown = values if len(values) <= _MAX_VALUES else (*values[: _MAX_VALUES - 1], "…", values[-1])
    return " → ".join(map(without_middle, shown))


def argument(change: GuardChange) -> str | None:
    """The changed tensor's or number's name in the call if it is an argument or an item of one, otherwise None."""
    match = _ARGUMENT.match(change.source or "")
    if match is None:
        return None
    name = expression(match[0])
    # torch's wrapper has the argument x as kwargs['x'].
    if match[1] == "kwargs" and (key := re.fullmatch(r"kwargs\['(\w+)'\]", name)):
        return key[1]
    return None if match[1] in _ROOTS else name


def passed(group: RecompileGroup, change: GuardChange) -> str | None:
    """The changed value's name in the target's own call, such as ``batch['ids']``; None if it isn't passed there.

    A value that exists only inside compiled functions isn't passed by any call that can be changed.
    """
    source = argument_source(change.source or "", group.parameters or ())
    return None if source is None else expression(source)


def at_call(group: RecompileGroup, where: Where, *values: str) -> SnippetPlace:
    """The code that calls the target, as the place of a snippet.

    Args:
        group: What changed in the target's own call.
        where: Before the first call, or before each.
        values: What ``passed`` returned for the changes.
    """
    arguments = tuple(dict.fromkeys(re.split(r"[\[.]", value, maxsplit=1)[0] for value in values))
    return SnippetPlace(where=where, function=group.frame.described, arguments=arguments)


def dim(change: GuardChange) -> int | None:
    """The dim whose size changed, or None."""
    return size_dim(change.expression)
