"""A flame drawing: the time of a call by module and line, as a nested list that a style sheet lays out.

What is too narrow to be seen is put together. Without the style sheet, and on a narrow screen, it is a plain list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from graphdoctor.facts.wording import counted

if TYPE_CHECKING:
    from graphdoctor.facts.profile import TimePart

    _Place = Callable[[str, int], tuple[str, str | None]]
    _Parts = Sequence[tuple[Sequence[str], TimePart]]

_LEAST = 0.002
"""A smaller part of the whole is put together with others."""


@dataclass(frozen=True)
class Node:
    """A part of the call's time.

    Args:
        us: Microseconds.
        href: The line in the page; None if it isn't there.
    """

    label: str
    kind: Literal["call", "module", "line", "small", "rest"]
    us: float
    href: str | None = None
    inner: tuple[Node, ...] = ()


def flame(
    parts: Iterable[TimePart], *, label: str, place: _Place, rest: Sequence[tuple[str, float]] = ()
) -> Node | None:
    """The whole as a tree of modules, with lines at its ends; None if there is nothing.

    ``place`` turns a line into its text and its anchor; ``rest`` is what no line has, each with its name and
    microseconds.
    """
    named = [([name for name in (part.module or "").split(".") if name], part) for part in parts]
    whole = sum(part.us for _, part in named) + sum(us for _, us in rest)
    if whole <= 0:
        return None
    others = [Node(name, "rest", us) for name, us in rest if us >= _LEAST * whole]
    return Node(label, "call", whole, inner=(*_inner(named, _LEAST * whole, place), *others))


def _inner(parts: _Parts, least: float, place: _Place) -> tuple[Node, ...]:
    modules: dict[str, list[tuple[Sequence[str], TimePart]]] = {}
    lines: dict[tuple[str, int], float] = {}
    for names, part in parts:
        if names:
            modules.setdefault(names[0], []).append((names[1:], part))
        else:
            last = part.stack[-1].file, part.stack[-1].line
            lines[last] = lines.get(last, 0.0) + part.us
    found = [_module(name, own, least, place) for name, own in modules.items()]
    for line, us in lines.items():
        text, href = place(*line)
        found.append(Node(text, "line", us, href))
    small = [node.us for node in found if node.us < least]
    kept = sorted((node for node in found if node.us >= least), key=lambda node: -node.us)
    return (*kept, Node(counted(len(small), "smaller part"), "small", sum(small))) if small else tuple(kept)


def _module(name: str, parts: _Parts, least: float, place: _Place) -> Node:
    """A module; one that has nothing but another one is one with it."""
    while len({names[0] if names else None for names, _ in parts}) == 1 and parts[0][0]:
        name = f"{name}.{parts[0][0][0]}"
        parts = [(names[1:], part) for names, part in parts]
    us = sum(part.us for _, part in parts)
    return Node(name, "module", us, inner=_inner(parts, least, place) if us >= least else ())
