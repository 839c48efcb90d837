"""Drawings of a profile: source with times, modules, kernels, and generated code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from graphdoctor.facts.base import grouped
from graphdoctor.views import profile_words as words
from graphdoctor.views.html.highlight import highlighted
from graphdoctor.views.html.kernel_code import codes_of
from graphdoctor.views.html.lines import FileMarks, Line, annotated, listing
from graphdoctor.views.html.statements import parsed
from graphdoctor.views.measures import time_text
from graphdoctor.views.parts import Blocks, Drawing
from graphdoctor.views.words import base_name
from graphdoctor.wording import counted

if TYPE_CHECKING:
    from graphdoctor.facts.picture import Picture, SourceText
    from graphdoctor.facts.profile import ProfiledKernel, ProfileReport, TimePart

    Place = Callable[[str, int], tuple[str, str | None]]
    _Parts = Sequence[tuple[Sequence[str], TimePart]]

_LEAST = 0.002
"""A smaller part of the whole is put together with others."""
_MAX_FILES = 40
_MAX_LINES = 12_000
"""Lines of all files; of files that have no room left, only functions with time are shown."""
_MAX_KERNELS = 300
_MAX_OPERATIONS = 12
_MAX_PLACES = 3


class ProfileDrawings:
    """Drawings that only the page of a profile has."""

    def __init__(self, report: ProfileReport, picture: Picture | None, files: words.Files) -> None:
        self._report = report
        self._has_picture = picture is not None
        self._sources, self._files_left_out = _sources(
            report, picture.files if picture else (), files
        )
        self._anchors = {
            (source["file"].file, line.number): f"f{source['number']}-L{line.number}"
            for source in self._sources
            for line in source["file"].lines
        }
        self._autotuned = picture.autotuned[:_MAX_KERNELS] if picture else ()
        kernels = report.kernels[:_MAX_KERNELS]
        self._codes = codes_of(kernels, picture.generated if picture else ())
        self._kernels = [self._kernel(number, kernel) for number, kernel in enumerate(kernels)]

    def lines(self, elsewhere: Blocks) -> tuple[Drawing, ...]:
        """The source, with the time of each line beside it; empty if no line is known."""
        if not self._sources:
            return ()
        facts = {
            "files": self._sources,
            "most_us": max(
                (line.forward_us + line.backward_us for line in self._report.lines), default=0.0
            )
            or 1.0,
            "files_left_out": self._files_left_out,
            "has_backward": words.has_backward(self._report),
            "kernels": self._kernels,
            "shown_kernels": len(self._kernels),
            "has_picture": self._has_picture,
        }
        return (_drawing("profile_lines.html.j2", facts, elsewhere),)

    def modules(self, elsewhere: Blocks) -> tuple[Drawing, ...]:
        """Modules and lines, as wide as their time."""
        flames = list(self._flames())
        return (
            (_drawing("profile_modules.html.j2", {"flames": flames}, elsewhere),) if flames else ()
        )

    def kernels(self, elsewhere: Blocks) -> tuple[Drawing, ...]:
        """A table that sorts and filters."""
        if not self._kernels:
            return ()
        shown = self._report.kernels[:_MAX_KERNELS]
        facts = {
            "kernels": self._kernels,
            "kernels_left_out": len(self._report.kernels) - len(shown),
            "kernel_kinds": list(self._kernel_kinds(shown)),
            "has_rates": any(words.rates_text(kernel) for kernel in shown),
            "has_bounds": any(kernel.bound_by for kernel in shown),
        }
        return (_drawing("profile_kernels.html.j2", facts, elsewhere),)

    def code(self) -> tuple[Drawing, ...]:
        """The code that Inductor generated, and what it chose from."""
        users = grouped(
            (code, number)
            for number, codes_of_kernel in enumerate(self._codes.of)
            for code in codes_of_kernel
        )
        codes = [
            {"code": code, "lines": highlighted(code.text, code.language), "users": users[number]}
            for number, code in enumerate(self._codes.found)
        ]
        if not codes and not self._autotuned:
            return ()
        facts = {
            "codes": codes,
            "codes_left_out": self._codes.left_out,
            "autotuned": self._autotuned,
            "has_triton": any(choice.triton for choice in self._autotuned),
        }
        return (_drawing("profile_code.html.j2", facts),)

    def _kernel(self, number: int, kernel: ProfiledKernel) -> dict[str, object]:
        """A row of the table of kernels."""
        places = [self._linked(line.file, line.line) for line in kernel.lines]
        return {
            "number": number,
            "found": kernel,
            "name": words.kernel_name(kernel),
            "operations": words.operations_text(kernel, _MAX_OPERATIONS),
            "places": places[:_MAX_PLACES],
            "more_places": len(places[_MAX_PLACES:]),
            "codes": self._codes.of[number],
            "bandwidth": words.bandwidth_cell(kernel),
            "compute": words.compute_cell(kernel),
        }

    def _kernel_kinds(self, kernels: Sequence[ProfiledKernel]) -> Iterator[tuple[str, int, float]]:
        """Each kind of kernel with their number and share."""
        for kind in dict.fromkeys(kernel.kind for kernel in kernels):
            of_kind = [kernel for kernel in kernels if kernel.kind == kind]
            yield kind, len(of_kind), sum(kernel.share for kernel in of_kind)

    def _flames(self) -> Iterator[tuple[str, Node]]:
        report = self._report
        rest = [(part.name, part.us) for part in words.rest_parts(report) if part.kind != "outside"]
        phases = {number: kernel.phase for number, kernel in enumerate(report.kernels)}
        choices = ["kernels", "forward", "backward"] if words.has_backward(report) else ["kernels"]
        for name in choices:
            parts = [part for part in report.parts if name in ("kernels", phases.get(part.kernel))]
            root = flame(
                parts, label=name, place=self._linked, rest=rest if name == "kernels" else ()
            )
            if root is not None:
                yield name, root

    def _linked(self, file: str, line: int) -> tuple[str, str | None]:
        """A line, by the name of its file, and its anchor."""
        return f"{base_name(file)}:{line}", self._anchors.get((file, line))


def _sources(
    report: ProfileReport, texts: Sequence[SourceText], files: words.Files
) -> tuple[list[dict[str, Any]], int]:
    """The files with time in them, the costliest first, and how many of them were left out."""
    by_name = {text_file.file: text_file for text_file in texts}
    by_file = grouped((line.file, line) for line in report.lines)
    costly = sorted(by_file.items(), key=lambda item: -sum(line.share for line in item[1]))
    sources, room = [], _MAX_LINES
    for number, (file, lines) in enumerate(costly[:_MAX_FILES]):
        package, text = files.package(file), by_name.get(file)
        marks = FileMarks("user" if package is None else "third_party", package)
        marks.lines = {line.line: Line(line.line, line.text) for line in lines}
        source = parsed(text.text) if text is not None and text.text else None
        shown = annotated(file, marks, text, source, room=room)
        room -= len(shown.lines)
        sources.append(
            listing(number, shown, files.shown(file)) | {"own": {line.line: line for line in lines}}
        )
    return sources, len(costly) - len(sources)


def _drawing(template: str, facts: dict[str, object], elsewhere: Blocks = ()) -> Drawing:
    shown = facts | {"time": time_text, "share": words.small_percent}
    return Drawing(template, shown, {}, ("profile.js",), ("bench.css", "profile.css"), elsewhere)


# The time of a call by module and line, as a nested list that a style sheet lays out.


@dataclass(frozen=True)
class Node:
    """A part of the call's time, which leads to a line if the page has it."""

    label: str
    kind: Literal["call", "module", "line", "small", "rest"]
    us: float
    href: str | None = None
    inner: tuple[Node, ...] = ()


def flame(
    parts: Iterable[TimePart], *, label: str, place: Place, rest: Sequence[tuple[str, float]] = ()
) -> Node | None:
    """The whole as a tree of modules, with lines at its ends and what no line has; None if there is
    nothing.
    """
    named = [([name for name in (part.module or "").split(".") if name], part) for part in parts]
    whole = sum(part.us for _, part in named) + sum(us for _, us in rest)
    if whole <= 0:
        return None
    others = [Node(name, "rest", us) for name, us in rest if us >= _LEAST * whole]
    return Node(label, "call", whole, inner=(*_inner(named, _LEAST * whole, place), *others))


def _inner(parts: _Parts, least: float, place: Place) -> tuple[Node, ...]:
    modules: dict[str, list[tuple[Sequence[str], TimePart]]] = {}
    lines: dict[tuple[str, int], float] = {}
    for names, part in parts:
        if names:
            modules.setdefault(names[0], []).append((names[1:], part))
        else:
            last = part.place
            lines[last] = lines.get(last, 0.0) + part.us
    nodes = [_module(name, inner_parts, least, place) for name, inner_parts in modules.items()]
    for line, us in lines.items():
        text, href = place(*line)
        nodes.append(Node(text, "line", us, href))
    small = [node.us for node in nodes if node.us < least]
    kept = sorted((node for node in nodes if node.us >= least), key=lambda node: -node.us)
    return (
        (*kept, Node(counted(len(small), "smaller part"), "small", sum(small)))
        if small
        else tuple(kept)
    )


def _module(name: str, parts: _Parts, least: float, place: Place) -> Node:
    """A module; one that has nothing but another one is one with it."""
    while len({names[0] if names else None for names, _ in parts}) == 1 and parts[0][0]:
        name = f"{name}.{parts[0][0][0]}"
        parts = [(names[1:], part) for names, part in parts]
    us = sum(part.us for _, part in parts)
    return Node(name, "module", us, inner=_inner(parts, least, place) if us >= least else ())
