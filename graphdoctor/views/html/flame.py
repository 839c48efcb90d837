"""A flame drawing: the time of a call by module and line, as a nested list that a style sheet lays out.

Comes in: the parts of a profile. Goes out: nodes, each as wide as its time; what is too narrow to be seen is put
together. Without the style sheet, and on a narrow screen, it is the list that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from graphdoctor.facts.wording import counted

if TYPE_CHECKING:
    from graphdoctor.facts.profile import TimePart

_LEAST = 0.002
"""A smaller part of the whole is put together with others."""

NodeKind = Literal["call", "module", "line", "small", "rest"]


@dataclass(frozen=True)
class Node:
    """A part of the call's time.

    Args:
        us: Microseconds.
        width: Of the node around it, in percent.
        share: Of the whole, from 0 to 1.
        href: The line in the page; None if it isn't there.
    """

    label: str
    kind: NodeKind
    us: float
    width: float
    share: float
    href: str | None
    inner: tuple[Node, ...]


@dataclass
class _Branch:
    us: float = 0.0
    modules: dict[str, _Branch] = field(default_factory=dict)
    lines: dict[tuple[str, int], float] = field(default_factory=dict)


def flame(
    parts: Iterable[TimePart],
    *,
    label: str,
    place: Callable[[str, int], tuple[str, str | None]],
    rest: Sequence[tuple[str, float]] = (),
) -> Node | None:
    """The whole as a tree of modules, with lines at its ends.

    Args:
        parts: What lines of modules have.
        label: Of the whole.
        place: Turns a line into its text and its anchor.
        rest: What no line has, each with its name and microseconds.

    Returns:
        The root; None if there is nothing.
    """
    root = _Branch()
    for part in parts:
        at = root
        at.us += part.us
        for name in filter(None, (part.module or "").split(".")):
            at = at.modules.setdefault(name, _Branch())
            at.us += part.us
        last = part.stack[-1]
        at.lines[last.file, last.line] = at.lines.get((last.file, last.line), 0.0) + part.us
    whole = root.us + sum(us for _, us in rest)
    if whole <= 0:
        return None
    others = [
        Node(name, "rest", us, 100 * us / whole, us / whole, None, ()) for name, us in rest if us >= _LEAST * whole
    ]
    inner = (*_inner(root, whole, whole, place), *others)
    return Node(label, "call", whole, 100.0, 1.0, None, inner)


def _inner(
    branch: _Branch, outer_us: float, whole: float, place: Callable[[str, int], tuple[str, str | None]]
) -> tuple[Node, ...]:
    found: list[Node] = []
    small: list[float] = []
    for name, module in branch.modules.items():
        path, end = _chain(name, module)
        if end.us < _LEAST * whole:
            small.append(end.us)
            continue
        inner = _inner(end, end.us, whole, place)
        found.append(Node(path, "module", end.us, 100 * end.us / outer_us, end.us / whole, None, inner))
    for (file, line), us in branch.lines.items():
        if us < _LEAST * whole:
            small.append(us)
            continue
        text, href = place(file, line)
        found.append(Node(text, "line", us, 100 * us / outer_us, us / whole, href, ()))
    found.sort(key=lambda node: -node.us)
    if small:
        us = sum(small)
        label = counted(len(small), "smaller part")
        found.append(Node(label, "small", us, 100 * us / outer_us, us / whole, None, ()))
    return tuple(found)


def _chain(name: str, module: _Branch) -> tuple[str, _Branch]:
    """A module that has nothing but another one, and that one, as one."""
    while len(module.modules) == 1 and not module.lines:
        ((inner, module),) = module.modules.items()
        name = f"{name}.{inner}"
    return name, module
