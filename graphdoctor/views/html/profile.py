"""Drawings of a profile: modules as wide as their time, and generated code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphdoctor.facts.base import grouped
from graphdoctor.facts.picture import Autotuned, GeneratedCode, Language, kernel_sources
from graphdoctor.facts.profile import ProfiledKernel, ProfileReport, TimePart
from graphdoctor.views import profile_words as words
from graphdoctor.views.html.highlight import highlighted
from graphdoctor.views.measures import time_text
from graphdoctor.views.parts import Blocks, Drawing
from graphdoctor.views.words import base_name
from graphdoctor.wording import counted

_Parts = Sequence[tuple[Sequence[str], TimePart]]

_LEAST = 0.002
"""A smaller part of the whole is put together with others."""
_MAX_KERNELS = 300
_MAX_CODE_LINES = 400
"""Lines of the code of one kernel that are shown."""
_MAX_CHARACTERS = 500_000
"""Of all code in a page; kernels come in the order of their time."""


def _drawing(template: str, elsewhere: Blocks = (), **facts: object) -> Drawing:
    facts |= {"time": time_text, "share": words.small_percent}
    styles = ("bench.css", "profile.css")
    return Drawing(f"profile_{template}.html.j2", facts, {}, ("profile.js",), styles, elsewhere)


# The time of a call by module and line, as a nested list that a style sheet lays out.


@dataclass(frozen=True)
class Node:
    """A part of the call's time."""

    label: str
    kind: Literal["call", "module", "line", "small", "rest"]
    us: float
    inner: tuple[Node, ...] = ()


def modules_drawing(report: ProfileReport, elsewhere: Blocks) -> Drawing | None:
    """Return modules and lines, as wide as their time; None if nothing took any."""
    rest = [(part.name, part.us) for part in words.rest_parts(report) if part.kind != "outside"]
    root = flame(report.parts, rest)
    return None if root is None else _drawing("modules", elsewhere, root=root)


def flame(parts: Iterable[TimePart], rest: Sequence[tuple[str, float]] = ()) -> Node | None:
    """Return the whole as a tree of modules, with lines at its ends and what no line has; None if
    there is nothing.
    """
    named = [([name for name in (part.module or "").split(".") if name], part) for part in parts]
    whole = sum(part.us for _, part in named) + sum(us for _, us in rest)
    least = _LEAST * whole

    def module(name: str, inner: _Parts) -> Node:
        # A module that has nothing but another one is one with it.
        while len({names[0] if names else None for names, _ in inner}) == 1 and inner[0][0]:
            name = f"{name}.{inner[0][0][0]}"
            inner = [(names[1:], part) for names, part in inner]
        us = sum(part.us for _, part in inner)
        return Node(name, "module", us, tuple(nodes(inner)) if us >= least else ())

    def nodes(inner: _Parts) -> Iterator[Node]:
        modules = grouped((names[0], (names[1:], part)) for names, part in inner if names)
        lines = grouped((part.place, part.us) for names, part in inner if not names)
        every = [module(name, of_module) for name, of_module in modules.items()]
        every += [
            Node(f"{base_name(file)}:{line}", "line", sum(times))
            for (file, line), times in lines.items()
        ]
        yield from sorted((node for node in every if node.us >= least), key=lambda node: -node.us)
        small = [node.us for node in every if node.us < least]
        if small:
            yield Node(counted(len(small), "smaller part"), "small", sum(small))

    if whole <= 0:
        return None
    others = (Node(name, "rest", us) for name, us in rest if us >= least)
    return Node("kernels", "call", whole, (*nodes(named), *others))


# The code of kernels, each source once. A kernel that Inductor wrote is a text in the generated
# code; of a library's function, that code has calls.


@dataclass(frozen=True)
class KernelCode:
    """Code of a kernel, or calls of a library's function, and where that is."""

    name: str
    language: Language
    text: str
    where: str


def code_drawing(
    codes: Mapping[KernelCode, Sequence[int]], autotuned: Sequence[Autotuned]
) -> Drawing | None:
    """Return the code that Inductor generated, and what it chose from; None if there is neither."""
    if not codes and not autotuned:
        return None
    shown = [
        {"code": code, "lines": highlighted(code.text, code.language), "users": users}
        for code, users in codes.items()
    ]
    return _drawing("code", codes=shown, autotuned=autotuned[:_MAX_KERNELS])


def codes_of(
    kernels: Sequence[ProfiledKernel], generated: Sequence[GeneratedCode]
) -> dict[KernelCode, list[int]]:
    """Return the code of kernels, as far as there is room, with the numbers of those that have
    it.
    """
    sources = [dict(kernel_sources(graph.code)) for graph in generated]
    codes: dict[KernelCode, list[int]] = {}
    room = _MAX_CHARACTERS
    for number, kernel in enumerate(kernels[:_MAX_KERNELS]):
        for graph, of_graph in zip(generated, sources, strict=True):
            code = _code_of(kernel, graph, of_graph)
            if code is None or (code not in codes and len(code.text) > room):
                continue
            room -= 0 if code in codes else len(code.text)
            codes.setdefault(code, []).append(number)
    return codes


def _code_of(
    kernel: ProfiledKernel, generated: GeneratedCode, sources: Mapping[str, tuple[Language, str]]
) -> KernelCode | None:
    """Return the kernel's own code in that of a graph, or the calls of a library's function; None
    if there is neither.
    """
    stage, compile_id, name = generated.stage, generated.compile_id, words.kernel_name(kernel)
    is_other_phase = stage and (stage == "backward") != (kernel.phase == "backward")
    if kernel.compile_id is None or compile_id != kernel.compile_id or is_other_phase:
        return None
    language: Language = "Python"
    what = "Calls of it"
    if name in sources:
        language, text = sources[name]
        what = language
        lines = text.strip("\n").split("\n")
    elif kernel.kind in ("library", "communication", "copy"):
        calls = (line.strip() for line in generated.code.splitlines() if f"{name}(" in line)
        lines = [*dict.fromkeys(calls)]
    else:
        return None
    where = f"{what} in the {f'{stage} ' if stage else ''}graph of compile {compile_id}"
    if (more := len(lines) - _MAX_CODE_LINES) > 0:
        where += f", {counted(more, 'more line')} cut"
    text = "\n".join(lines[:_MAX_CODE_LINES])
    return KernelCode(name, language, text, where) if lines else None
